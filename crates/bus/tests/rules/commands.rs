//! Commands: batches, children, roots of their own, limits (CMD).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use turnkeep_bus::{
    Bus, CommandError, CommandQueue, Commanding, Component, ComponentId, Ended, Failure, FaultKind, Halt,
    Handle, Hosted, Limits, QueueKind, Replay,
};

use crate::support::{Record, Say, Stage, say};

type Ctx<'a, 'b> = &'a mut Commanding<'b, Order>;

/// A command with a number; it counts its ends.
struct Order(u32, Arc<AtomicU32>);

impl Drop for Order {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

type Play = Box<dyn FnMut(Ctx<'_, '_>, u32) + Send>;

struct Engine {
    record: Record,
    play: Play,
}

impl Component for Engine {}

impl Handle<Order> for Engine {
    fn handle(&mut self, ctx: &mut Commanding<'_, Order>, order: Order) -> Result<(), Failure> {
        self.record.note(order.0.to_string());
        (self.play)(ctx, order.0);
        Ok(())
    }
}

struct Desk {
    stage: Stage,
    queue: CommandQueue<Order>,
    drops: Arc<AtomicU32>,
}

impl Desk {
    fn new(
        kind: QueueKind,
        limits: Limits,
        play: impl FnMut(Ctx<'_, '_>, u32, CommandQueue<Order>, &Arc<AtomicU32>) + Send + 'static,
    ) -> Self {
        let mut stage = Stage::with(Bus::builder().limits(limits).build());
        let drops = Arc::new(AtomicU32::new(0));
        let place: Arc<std::sync::Mutex<Option<CommandQueue<Order>>>> = Arc::default();
        let (own, count) = (place.clone(), drops.clone());
        let mut play = play;
        let play: Play = Box::new(move |ctx, number| {
            let queue = own.lock().unwrap().unwrap();
            play(ctx, number, queue, &count);
        });
        let engine = Engine { record: stage.record.clone(), play };
        let id: ComponentId<Engine> = stage.ctx().register("engine", engine).unwrap();
        stage.ctx().start(id).unwrap();
        let queue = stage.ctx().queue(kind, id);
        *place.lock().unwrap() = Some(queue);
        Self { stage, queue, drops }
    }

    fn send(&mut self, number: u32) {
        let order = Order(number, self.drops.clone());
        assert!(self.stage.ctx().command(self.queue, order).is_ok());
    }

    fn drain(&mut self) -> String {
        self.stage.bus.boundary().drain_commands(QueueKind::Trading);
        self.stage.record.line()
    }
}

fn trading(
    play: impl FnMut(Ctx<'_, '_>, u32, CommandQueue<Order>, &Arc<AtomicU32>) + Send + 'static,
) -> Desk {
    Desk::new(QueueKind::Trading, Limits::default(), play)
}

#[test]
fn cmd_1_a_a_command_inside_a_publication_starts_its_root_and_captures_it() {
    let mut desk = trading(|ctx, _, _, _| say(ctx, "y", "done"));
    desk.stage.listener("T", &[("y", 0)]);
    let (queue, drops) = (desk.queue, desk.drops.clone());
    desk.stage.listener("S", &[("x", 0)]);
    desk.stage.ctx().scope(|ctx| {
        assert!(ctx.command(queue, Order(1, drops)).is_ok());
        say(ctx, "x", "-");
    });
    assert_eq!(desk.stage.ctx().metrics().roots, 1);
    assert_eq!(desk.stage.settle(), "S(-) 1 T(done)");
    let metrics = desk.stage.ctx().metrics();
    assert_eq!(
        (metrics.roots, metrics.max_chain),
        (1, 2),
        "publication, command and what it published are one chain"
    );
}

#[test]
fn cmd_1_b_outside_processing_makes_an_independent_root_when_it_first_needs_one() {
    let mut desk = trading(|ctx, number, _, _| {
        if number == 2 {
            say(ctx, "y", "first");
            say(ctx, "y", "second");
        }
    });
    desk.stage.listener("T", &[("y", 0)]);
    desk.send(1);
    desk.send(2);
    assert_eq!(desk.stage.ctx().metrics().roots, 0);
    desk.drain();
    assert_eq!(desk.stage.ctx().metrics().roots, 1, "the first command needed none");
    desk.stage.settle();
    assert_eq!(desk.stage.ctx().metrics().max_chain, 2);
}

#[test]
fn cmd_2_a_drain_runs_the_batch_that_was_there_and_what_it_sends_waits() {
    let mut desk = trading(|ctx, number, queue, drops| {
        if number < 3 {
            assert!(ctx.command(queue, Order(number + 10, drops.clone())).is_ok());
        }
    });
    (1..=3).for_each(|number| desk.send(number));
    assert_eq!(desk.drain(), "1 2 3");
    assert_eq!(desk.drain(), "11 12");
}

#[test]
fn cmd_3_children_come_depth_first_in_capture_order_before_the_next_command() {
    let mut desk = trading(|ctx, number, queue, drops| {
        let order = |number| Order(number, drops.clone());
        match number {
            1 => {
                (3..=5).for_each(|child| assert!(ctx.capture(order(child)).is_ok()));
                assert!(ctx.command(queue, order(7)).is_ok());
            }
            3 => assert!(ctx.capture(order(6)).is_ok()),
            _ => {}
        }
    });
    desk.send(1);
    desk.send(2);
    assert_eq!(desk.drain(), "1 3 6 4 5 2");
    assert_eq!(desk.drain(), "7");
}

#[test]
fn cmd_3_b_a_child_has_the_root_that_was_active_when_it_was_captured() {
    let mut desk = trading(|ctx, number, _, drops| {
        if number == 1 {
            assert!(ctx.capture(Order(2, drops.clone())).is_ok());
        }
        say(ctx, "y", "-");
    });
    desk.stage.listener("T", &[("y", 0)]);
    desk.send(1);
    desk.send(3);
    desk.drain();
    desk.stage.settle();
    let metrics = desk.stage.ctx().metrics();
    assert_eq!((metrics.roots, metrics.max_chain), (2, 2), "1 and its child 2 are one chain, 3 another");
}

#[test]
fn cmd_3_c_handlers_of_data_commands_capture_nothing() {
    let refused = Arc::new(AtomicU32::new(0));
    let count = refused.clone();
    let mut desk = Desk::new(QueueKind::Data, Limits::default(), move |ctx, number, _, drops| {
        if let Err(CommandError::NoChild(order)) = ctx.capture(Order(number + 1, drops.clone())) {
            count.fetch_add(order.0, Ordering::Relaxed);
        }
    });
    desk.send(1);
    assert_eq!(desk.stage.settle(), "1");
    assert_eq!(refused.load(Ordering::Relaxed), 2, "the child came back");
}

#[test]
fn cmd_4_a_handlers_and_destructors_may_send_and_no_callback_is_drained() {
    let mut desk = trading(|ctx, number, queue, drops| {
        if number == 1 {
            assert!(ctx.command(queue, Order(2, drops.clone())).is_ok());
            say(ctx, "y", "queued");
        }
    });
    desk.stage.listener("T", &[("y", 0)]);
    desk.send(1);
    assert_eq!(desk.drain(), "1");
    let metrics = desk.stage.ctx().metrics();
    assert_eq!((metrics.depth, metrics.deliveries, metrics.commands), (1, 0, 1));
    assert_eq!(desk.stage.settle(), "T(queued) 2");
}

#[test]
fn cmd_5_a_panicking_handler_propagates_and_the_rest_of_the_batch_is_destroyed() {
    let mut desk = trading(|ctx, number, queue, drops| {
        if number == 1 {
            assert!(ctx.capture(Order(4, drops.clone())).is_ok());
            assert!(ctx.command(queue, Order(9, drops.clone())).is_ok());
            panic!("in the handler");
        }
    });
    (1..=3).for_each(|number| desk.send(number));
    let unwound =
        catch_unwind(AssertUnwindSafe(|| desk.stage.bus.boundary().drain_commands(QueueKind::Trading)));
    assert_eq!(unwound.unwrap_err().downcast_ref::<&str>(), Some(&"in the handler"));
    assert_eq!(desk.stage.record.line(), "1");
    assert_eq!(desk.drops.load(Ordering::Relaxed), 4, "1, its child, 2 and 3");
    assert_eq!(desk.stage.ctx().metrics().roots_alive, 1, "the root of what was sent meanwhile");
    assert_eq!(desk.drain(), "9");
    assert_eq!(desk.stage.ctx().metrics().roots_alive, 0);
}

/// Commands that send themselves again for ever.
fn endless(limits: Limits) -> Desk {
    Desk::new(QueueKind::Trading, limits, |ctx, number, queue, drops| {
        assert!(ctx.command(queue, Order(number + 1, drops.clone())).is_ok());
    })
}

#[test]
fn cmd_6_a_a_command_only_loop_ends_in_a_runaway_at_its_limit() {
    let mut desk = endless(Limits { commands: 5, ..Limits::default() });
    desk.send(1);
    let Err(Halt::Fault(report)) = desk.stage.bus.settle() else { panic!("must halt") };
    assert_eq!((report.kind, report.component.as_deref()), (FaultKind::Runaway, Some("engine")));
    assert_eq!(desk.stage.record.line(), "1 2 3 4 5");
    assert_eq!(
        desk.stage.bus.boundary().teardown().unwrap_err().hindrance,
        turnkeep_bus::Hindrance::CommandRoot
    );
    assert_eq!(desk.stage.bus.boundary().discard_commands(), 1);
    assert!(desk.stage.bus.boundary().teardown().unwrap().is_some());
    assert_eq!(desk.drops.load(Ordering::Relaxed), 6);
}

#[test]
fn cmd_6_b_a_root_that_cannot_be_made_latches_an_overflow_and_the_command_is_processed() {
    let mut desk = Desk::new(QueueKind::Trading, Limits { bytes: 0, ..Limits::default() }, |_, _, _, _| {});
    let (queue, drops) = (desk.queue, desk.drops.clone());
    desk.stage.ctx().scope(|ctx| assert!(ctx.command(queue, Order(1, drops)).is_ok()));
    assert_eq!(desk.stage.ctx().fault_report().unwrap().kind, FaultKind::Overflow);
    assert!(desk.stage.bus.settle().is_err());
    assert_eq!(desk.stage.record.line(), "1");
}

#[test]
fn cmd_6_c_commands_are_outside_the_callback_accounting() {
    let mut desk = Desk::new(QueueKind::Trading, Limits { units: 0, ..Limits::default() }, |_, _, _, _| {});
    (0..1000).for_each(|number| desk.send(number));
    assert_eq!((desk.stage.ctx().metrics().units, desk.stage.ctx().metrics().bytes), (0, 0));
    desk.stage.bus.settle().unwrap();
    assert_eq!(desk.stage.ctx().metrics().commands, 1000);
}

#[test]
fn cmd_6_d_the_default_limit_of_commands_is_1048576() {
    assert_eq!(Limits::default().commands, 1_048_576);
    let mut desk = endless(Limits::default());
    desk.send(1);
    assert!(matches!(desk.stage.bus.settle(), Err(Halt::Fault(_))));
    assert_eq!(desk.stage.ctx().metrics().commands, 1_048_576);
}

#[test]
fn cmd_7_a_commands_drained_together_share_no_root() {
    let mut desk = trading(|ctx, _, _, _| say(ctx, "y", "-"));
    desk.stage.listener("T", &[("y", 0)]);
    (1..=3).for_each(|number| desk.send(number));
    desk.drain();
    desk.stage.settle();
    let metrics = desk.stage.ctx().metrics();
    assert_eq!((metrics.roots, metrics.max_chain), (3, 1));
}

#[test]
fn cmd_7_b_what_abandoned_commands_own_is_released_when_their_thread_ends() {
    let drops = std::thread::spawn(|| {
        let mut desk = trading(|_, _, _, _| {});
        (1..=3).for_each(|number| desk.send(number));
        desk.drops.clone()
    })
    .join()
    .unwrap();
    assert_eq!(drops.load(Ordering::Relaxed), 3);
}

#[test]
fn cmd_2_b_the_start_of_a_replay_settles_data_commands_and_no_trading_commands() {
    for (kind, wanted) in [(QueueKind::Data, "1"), (QueueKind::Trading, "")] {
        let mut bus = Bus::default();
        let record = Record::default();
        let engine = Engine { record: record.clone(), play: Box::new(|_, _| {}) };
        let id = bus.context().register("engine", engine).unwrap();
        bus.context().start(id).unwrap();
        let queue = bus.context().queue(kind, id);
        assert!(bus.context().command(queue, Order(1, Arc::default())).is_ok());
        let mut replay = Replay::new(bus);
        replay.start().unwrap();
        assert_eq!(record.line(), wanted);
        replay.step(1, |_| {}).unwrap();
        assert_eq!(record.line(), if wanted.is_empty() { "1" } else { "" });
    }
}

#[test]
fn cmd_4_b_a_destructor_of_a_command_may_send_into_a_channel() {
    struct Parting(turnkeep_bus::Sender<u32>);
    impl Drop for Parting {
        fn drop(&mut self) {
            let _ = self.0.try_send(None, 1);
        }
    }
    struct Taker;
    impl Component for Taker {}
    impl Handle<Parting> for Taker {
        fn handle(&mut self, _: &mut Commanding<'_, Parting>, _: Parting) -> Result<(), Failure> {
            Ok(())
        }
    }
    let taken = Arc::new(AtomicU32::new(0));
    let count = taken.clone();
    let feed = move |_: &mut turnkeep_bus::Context<'_>, number: u32| {
        count.fetch_add(number, Ordering::Relaxed);
    };
    let mut live = turnkeep_bus::Live::new(Bus::default(), 8, turnkeep_bus::Clock::Events, feed);
    let id = live.context().register("taker", Taker).unwrap();
    live.context().start(id).unwrap();
    let queue = live.context().queue(QueueKind::Trading, id);
    let sender = live.sender();
    assert!(live.context().command(queue, Parting(sender)).is_ok());
    while live.batch().unwrap() == turnkeep_bus::Progress::More {}
    assert_eq!(taken.load(Ordering::Relaxed), 1);
}

#[test]
fn cmd_6_e_after_a_fault_commands_still_finish() {
    let mut desk = trading(|_, _, _, _| {});
    desk.stage.player("S", &[("x", 0)], |_, _: &Say| panic!("first"));
    desk.stage.publish("x", "-");
    desk.send(1);
    assert!(matches!(desk.stage.bus.settle(), Err(Halt::Fault(_))));
    assert_eq!(desk.stage.record.line(), "S(-) 1");
    assert_eq!(desk.stage.bus.boundary().drain(1).ended, Ended::Faulted);
    let _: &Hosted = &desk.stage.bus;
}
