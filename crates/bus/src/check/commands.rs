//! The commands of the log: batches, children, roots.

use std::collections::VecDeque;

use super::{Checker, Frame};
use crate::log::Entry;

/// One queue of commands.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<u64>,
    batch: VecDeque<u64>,
    /// Children of the command that is being handled, in the order of capture.
    children: Vec<u64>,
}

impl Queue {
    /// Children come before the next command of the batch.
    fn line_up(&mut self) {
        while let Some(child) = self.children.pop() {
            self.batch.push_front(child);
        }
    }
}

impl Checker {
    pub(super) fn on_command_entry(&mut self, entry: &Entry) {
        match *entry {
            Entry::Sent { queue, command, root } => {
                self.check_taken(command, root);
                self.queues.entry(queue).or_default().waiting.push_back(command);
            }
            Entry::Batch { queue, commands } => {
                let queue = self.queues.entry(queue).or_default();
                queue.batch = std::mem::take(&mut queue.waiting);
                let found = queue.batch.len() as u64;
                if found != commands {
                    self.breach("CMD-2", format!("a batch has {commands} commands and {found} were waiting"));
                }
            }
            Entry::BatchEnded { queue } => {
                let queue = self.queues.entry(queue).or_default();
                queue.line_up();
                let left = std::mem::take(&mut queue.batch);
                if !left.is_empty() {
                    self.breach("CMD-2", format!("a batch ended with command {} unhandled", left[0]));
                }
            }
            Entry::Command { queue, command, root } => self.on_command(queue, command, root),
            Entry::CommandEnded { command } => {
                if self.frames.last().is_some_and(|(frame, _)| *frame == Frame::Command(command)) {
                    self.frames.pop();
                } else {
                    self.breach("CMD-4", format!("command {command} ended and was not the innermost work"));
                }
            }
            Entry::Captured { queue, command, parent, root } => {
                self.check_taken(command, root);
                if !self.frames.iter().any(|(frame, _)| *frame == Frame::Command(parent)) {
                    self.breach("CMD-3", format!("child {command} was captured outside command {parent}"));
                }
                self.queues.entry(queue).or_default().children.push(command);
            }
            Entry::Dropped { command } => {
                for queue in self.queues.values_mut() {
                    queue.line_up();
                    let before = queue.batch.len();
                    queue.batch.retain(|&own| own != command);
                    if queue.batch.len() == before {
                        queue.waiting.retain(|&own| own != command);
                    }
                }
            }
            _ => {}
        }
    }

    /// A command takes the active root along.
    fn check_taken(&mut self, command: u64, root: Option<u64>) {
        let active = self.active();
        match (root, active) {
            (Some(root), None) if !self.frames.is_empty() => self.adopt(root),
            // After an overflow a command may go without.
            (None, _) if self.faulted || self.frames.is_empty() => {}
            (root, active) if root != active => {
                self.breach("CMD-1", format!("command {command} took {root:?} along inside {active:?}"));
            }
            _ => {}
        }
    }

    fn on_command(&mut self, queue: u32, command: u64, root: Option<u64>) {
        if !self.frames.is_empty() {
            self.breach("CMD-4", format!("command {command} was handled inside other work"));
        }
        let own = self.queues.entry(queue).or_default();
        let had_children = !own.children.is_empty();
        own.line_up();
        match own.batch.pop_front() {
            Some(next) if next == command => {}
            next => {
                own.batch.retain(|&waiting| waiting != command);
                let clause = if had_children { "CMD-3" } else { "CMD-2" };
                self.breach(clause, format!("command {command} was handled when {next:?} was next"));
            }
        }
        if let Some(root) = root {
            self.use_root(root, "a command was handled");
            self.charge_command(root, command);
        }
        self.frames.push((Frame::Command(command), root));
    }

    pub(super) fn charge_command(&mut self, root: u64, command: u64) {
        let limit = self.limits.commands;
        if let Some(own) = self.roots.get_mut(&root) {
            own.commands += 1;
            if limit.is_some_and(|limit| own.commands > limit) {
                let paid = own.commands;
                self.breach("CMD-6", format!("command {command} is number {paid} of root {root}"));
            }
        }
    }
}
