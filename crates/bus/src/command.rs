//! Commands: queues of their own, handled in batches, outside the callback queue and its accounting.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use turnkeep_machines::bus::command::Commands;
use turnkeep_machines::bus::root::Root;

use crate::ambient;
use crate::component::{Component, ComponentId, ComponentKey, Failure};
use crate::context::Context;
use crate::core::{Core, NONE};
use crate::fault::FaultKind;
use crate::log::Entry;

/// The most commands that wait in one queue.
pub const COMMANDS_MAX: usize = 1 << 20;

/// What kind of commands a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// Subscriptions and requests for data. Settled at the start of a replay.
    Data,
    /// Orders. Their handlers may capture children, and they are not settled at the start of a replay.
    Trading,
}

/// A component that handles the commands of a queue.
pub trait Handle<C: Send + 'static>: Component {
    /// Handles one command. No borrow of the queue is held meanwhile (CMD-4).
    ///
    /// # Errors
    ///
    /// As every callback.
    fn handle(&mut self, ctx: &mut Commanding<'_, C>, command: C) -> Result<(), Failure>;
}

/// A queue of commands of one type, as [`Context::queue`] gives it.
pub struct CommandQueue<C> {
    pub(crate) index: u32,
    pub(crate) bus: u64,
    command: PhantomData<fn(C)>,
}

impl<C> Clone for CommandQueue<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for CommandQueue<C> {}

impl<C> fmt::Debug for CommandQueue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandQueue({})", self.index)
    }
}

/// Why a command was not taken; it comes back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError<C> {
    /// [`COMMANDS_MAX`] commands wait.
    #[error("the queue holds {COMMANDS_MAX} commands already; let it be drained first")]
    Full(C),
    /// Only handlers of trading commands capture children.
    #[error("only a handler of trading commands may capture a child; send the command instead")]
    NoChild(C),
}

impl<C> CommandError<C> {
    /// The command.
    pub fn into_command(self) -> C {
        match self {
            Self::Full(command) | Self::NoChild(command) => command,
        }
    }
}

/// The context of a command's handler.
pub struct Commanding<'a, C> {
    ctx: Context<'a>,
    queue: u32,
    number: u64,
    command: PhantomData<fn(C)>,
}

impl<'a, C> Deref for Commanding<'a, C> {
    type Target = Context<'a>;

    fn deref(&self) -> &Context<'a> {
        &self.ctx
    }
}

impl<'a, C> DerefMut for Commanding<'a, C> {
    fn deref_mut(&mut self) -> &mut Context<'a> {
        &mut self.ctx
    }
}

impl<C: Send + 'static> Commanding<'_, C> {
    /// Captures a child: it is handled before the next command of the batch, depth first, in the order of capture,
    /// under the root that is active now (CMD-3).
    ///
    /// # Errors
    ///
    /// The queue is for data commands.
    pub fn capture(&mut self, child: C) -> Result<(), CommandError<C>> {
        let (queue, parent) = (self.queue, self.number);
        let core = &mut *self.ctx.core;
        if core.queues[queue as usize].kind == QueueKind::Data {
            return Err(CommandError::NoChild(child));
        }
        let root = core.command_root();
        core.commands += 1;
        let number = core.commands;
        core.note_command(root, |root| Entry::Captured { queue, command: number, parent, root });
        let store = store::<C>(&mut core.queues[queue as usize]);
        // A handler runs within a drain of its queue, so the capture is taken.
        if let Some(store) = store
            && let Err(item) = store.capture(Item { number, root, command: child })
        {
            return Err(CommandError::NoChild(item.command));
        }
        Ok(())
    }
}

/// A command with what belongs to it.
struct Item<C> {
    number: u64,
    root: Option<Root>,
    command: C,
}

/// How one step of a queue has gone.
pub(crate) enum Step {
    /// A command was handled.
    Handled,
    /// A command was put off: its root has paid for all it may.
    PutOff,
    /// The batch is over.
    Over,
}

/// The queue of one type of command, behind its type.
pub(crate) struct Queue {
    pub(crate) kind: QueueKind,
    pub(crate) component: ComponentKey,
    store: Box<dyn Any + Send>,
    step: fn(&mut Core, u32) -> Step,
    begin: fn(&mut Queue) -> Option<usize>,
    end: fn(&mut Queue),
    drop_one: fn(&mut Core, u32, bool) -> bool,
    /// Commands that wait for the next drain.
    pub(crate) waiting: usize,
}

fn store<C: Send + 'static>(queue: &mut Queue) -> Option<&mut Commands<Item<C>>> {
    queue.store.downcast_mut()
}

fn begin<C: Send + 'static>(queue: &mut Queue) -> Option<usize> {
    let begun = store::<C>(queue)?.begin();
    if begun.is_some() {
        queue.waiting = 0;
    }
    begun
}

fn end<C: Send + 'static>(queue: &mut Queue) {
    if let Some(store) = store::<C>(queue) {
        store.end();
    }
}

/// Handles the next command of the batch.
fn step<K: Handle<C>, C: Send + 'static>(core: &mut Core, at: u32) -> Step {
    let next = store::<C>(&mut core.queues[at as usize]).and_then(Commands::take_next);
    let Some(item) = next else { return Step::Over };
    if let Err(spent) = core.machine.begin_command(item.root) {
        core.command_runaway(at, spent);
        put_off(core, at, item);
        return Step::PutOff;
    }
    let number = item.number;
    core.note_command(item.root, |root| Entry::Command { queue: at, command: number, root });
    core.counts.commands += 1;
    let around = ambient::enter(core.shared.bus, item.root);
    let result = handle::<K, C>(core, at, number, item.command);
    core.settle_owed();
    drop(around);
    core.note(|| Entry::CommandEnded { command: number });
    let freed = core.machine.end_command();
    core.on_freed(freed);
    match result {
        Ok(()) => {
            core.serve_requests();
            Step::Handled
        }
        Err(panic) => {
            // The rest is destroyed under its own contexts; what was sent meanwhile stays (CMD-5).
            while drop_one::<C>(core, at, false) {}
            end::<C>(&mut core.queues[at as usize]);
            core.note(|| Entry::BatchEnded { queue: at });
            core.serve_requests();
            resume_unwind(panic)
        }
    }
}

fn put_off<C: Send + 'static>(core: &mut Core, at: u32, item: Item<C>) {
    let number = item.number;
    core.note(|| Entry::Dropped { command: number });
    let queue = &mut core.queues[at as usize];
    queue.waiting += 1;
    if let Some(store) = store::<C>(queue) {
        store.send(item);
    }
}

fn handle<K: Handle<C>, C: Send + 'static>(
    core: &mut Core,
    at: u32,
    number: u64,
    command: C,
) -> Result<(), Box<dyn Any + Send>> {
    let key = core.queues[at as usize].component;
    let taken = core.cell(key).is_some().then(|| core.cells[key.index as usize].object.take()).flatten();
    let Some(mut object) = taken else {
        drop(command);
        let failure: Failure = "the handler of the queue is no longer registered".into();
        core.on_failure(key, "a command", &failure);
        return Ok(());
    };
    let any: &mut dyn Any = object.as_mut();
    let ctx = Context::new(core, key.index, NONE);
    let mut ctx = Commanding { ctx, queue: at, number, command: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| match any.downcast_mut::<K>() {
        Some(handler) => handler.handle(&mut ctx, command),
        None => Err("the handler of the queue is of another type".into()),
    }));
    core.bring_home(key.index, key.registration, object);
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failure)) => {
            core.on_failure(key, "a command", &failure);
            Ok(())
        }
        Err(panic) => Err(panic),
    }
}

/// Destroys the next command unhandled, under its own root; with `all`, those that wait too.
fn drop_one<C: Send + 'static>(core: &mut Core, at: u32, all: bool) -> bool {
    let queue = &mut core.queues[at as usize];
    let Some(store) = store::<C>(queue) else { return false };
    let next = if all { store.take_any() } else { store.take_next() };
    let Some(item) = next else {
        if all {
            queue.waiting = 0;
        }
        return false;
    };
    core.machine.drop_command(item.root);
    let around = ambient::enter(core.shared.bus, item.root);
    if catch_unwind(AssertUnwindSafe(|| drop(item.command))).is_err() {
        let detail = "the destructor of a command panicked".into();
        core.fault(FaultKind::Panicked, None, NONE, None, None, detail);
    }
    drop(around);
    core.settle_owed();
    core.note(|| Entry::Dropped { command: item.number });
    let freed = core.machine.end_command();
    core.on_freed(freed);
    true
}

impl Core {
    /// The root for a command that is sent now; an overflow is latched if it cannot be made (CMD-6).
    fn command_root(&mut self) -> Option<Root> {
        let before = self.machine.roots().made();
        match self.machine.send_command(NONE) {
            Ok(root) => {
                self.note_roots(before);
                root
            }
            Err(_) => {
                let limit = self.machine.limits().bytes;
                let detail =
                    format!("the root of a command would pass {limit} bytes of known storage, the limit");
                self.fault(FaultKind::Overflow, None, NONE, None, None, detail);
                None
            }
        }
    }

    fn note_command(&mut self, root: Option<Root>, entry: impl FnOnce(Option<u64>) -> Entry) {
        let root = root.map(|root| self.machine.roots().number(root));
        self.note(|| entry(root));
    }

    #[cold]
    fn command_runaway(&mut self, at: u32, root: Root) {
        let limit = self.machine.limits().commands;
        let component = self.queues[at as usize].component.index;
        let detail = format!(
            "the root has paid for {limit} commands, its limit; the handler sends to itself without end"
        );
        self.fault(FaultKind::Runaway, Some(component), NONE, None, Some(root), detail);
    }

    pub(crate) fn send<C: Send + 'static>(&mut self, at: u32, command: C) -> Result<(), CommandError<C>> {
        if self.queues[at as usize].waiting >= COMMANDS_MAX {
            return Err(CommandError::Full(command));
        }
        let root = self.command_root();
        self.commands += 1;
        let number = self.commands;
        self.note_command(root, |root| Entry::Sent { queue: at, command: number, root });
        let queue = &mut self.queues[at as usize];
        queue.waiting += 1;
        if let Some(store) = store::<C>(queue) {
            store.send(Item { number, root, command });
        }
        Ok(())
    }

    /// Handles the batch that is there now; how many commands were handled.
    pub(crate) fn drain_queue(&mut self, at: u32) -> u64 {
        let queue = &mut self.queues[at as usize];
        let Some(commands) = (queue.begin)(queue) else { return 0 };
        self.note(|| Entry::Batch { queue: at, commands: commands as u64 });
        let mut handled = 0;
        loop {
            let step = self.queues[at as usize].step;
            match step(self, at) {
                Step::Handled => handled += 1,
                Step::PutOff => {}
                Step::Over => break,
            }
        }
        let queue = &mut self.queues[at as usize];
        (queue.end)(queue);
        self.note(|| Entry::BatchEnded { queue: at });
        handled
    }

    /// Whether commands of that kind wait.
    pub(crate) fn commands_wait(&self, kind: QueueKind) -> bool {
        self.queues.iter().any(|queue| queue.kind == kind && queue.waiting > 0)
    }

    /// Handles one batch of each queue of that kind; how many commands were handled.
    pub(crate) fn drain_commands(&mut self, kind: QueueKind) -> u64 {
        let mut handled = 0;
        for at in 0..self.queues.len() {
            if self.queues[at].kind == kind && self.queues[at].waiting > 0 {
                handled += self.drain_queue(at as u32);
            }
        }
        handled
    }

    /// Destroys every command of every queue.
    pub(crate) fn drop_commands(&mut self) -> u64 {
        let mut dropped = 0;
        for at in 0..self.queues.len() {
            let drop_one = self.queues[at].drop_one;
            while drop_one(self, at as u32, true) {
                dropped += 1;
            }
        }
        dropped
    }
}

impl Context<'_> {
    /// Makes a queue of commands that a component handles.
    pub fn queue<K: Handle<C>, C: Send + 'static>(
        &mut self,
        kind: QueueKind,
        handler: ComponentId<K>,
    ) -> CommandQueue<C> {
        self.core.queues.push(Queue {
            kind,
            component: handler.key,
            store: Box::new(Commands::<Item<C>>::default()),
            step: step::<K, C>,
            begin: begin::<C>,
            end: end::<C>,
            drop_one: drop_one::<C>,
            waiting: 0,
        });
        let index = (self.core.queues.len() - 1) as u32;
        CommandQueue { index, bus: self.core.shared.bus, command: PhantomData }
    }

    /// Sends a command; it is handled when its queue is drained next, in order. No callback limit refuses it
    /// (CMD-6).
    ///
    /// # Errors
    ///
    /// The queue is full; the command comes back.
    ///
    /// # Panics
    ///
    /// If the queue is another bus's.
    pub fn command<C: Send + 'static>(
        &mut self,
        queue: CommandQueue<C>,
        command: C,
    ) -> Result<(), CommandError<C>> {
        assert!(queue.bus == self.core.shared.bus, "the queue is another bus's; use one of this bus");
        self.core.send(queue.index, command)
    }
}
