//! A run that cannot end says so, and says who waits for what.

use std::time::Duration;
use turnkeep::prelude::*;

use turnkeep::testing::{Door, Signal, Sim, Why, find, sleep};

#[derive(Default)]
struct Clerk;
impl Spot for Clerk {
    type Mode = SpotWide;
}

/// Waits for something that never comes.
#[derive(Message, Clone)]
struct WaitFor(Ghost);

#[derive(Clone)]
struct Ghost(Signal);
impl turnkeep::HeapSize for Ghost {
    fn heap_bytes(&self) -> u64 {
        0
    }
}

/// Asks another to wait.
#[derive(Message, Clone)]
struct Pass(Ghost);

/// Sends itself this again.
#[derive(Message, Clone)]
struct Again;

impl Handles<WaitFor> for Clerk {
    async fn handle(_: &mut Turn<'_, Self>, wait: WaitFor) -> Result<(), Never> {
        wait.0.0.wait().await;
        Ok(())
    }
}

impl Handles<Pass> for Clerk {
    async fn handle(turn: &mut Turn<'_, Self>, pass: Pass) -> Result<(), Never> {
        drop(turn.spot::<Clerk>("back").ask(WaitFor(pass.0)).await);
        Ok(())
    }
}

impl Handles<Again> for Clerk {
    async fn handle(turn: &mut Turn<'_, Self>, again: Again) -> Result<(), Never> {
        drop(turn.this_spot().try_send(again));
        Ok(())
    }
}

fn stage(seed: u64) -> (Sim, Node, SpotRef<Clerk>) {
    let sim = Sim::new(seed).steps_max(50_000);
    let node = sim.node(Node::builder().spot::<Clerk>("clerk"));
    let front = sim.run(async {
        node.spot::<Clerk>("back").create().await?;
        node.spot::<Clerk>("front").create().await
    });
    (sim, node, front.unwrap())
}

#[test]
fn sim_stuck_names_who_waits_for_what_and_the_seed() {
    let (sim, _node, front) = stage(17);
    front.try_send(Pass(Ghost(Signal::new()))).unwrap();
    sim.run_until_idle();
    let waits = sim.waits();
    assert!(waits.contains("Spot front #3 waits for Spot back #2 and keeps its gate"), "{waits}");
    assert!(waits.contains("Spot back #2 waits for something that is no object"), "{waits}");
    let door = Door::new();
    let stuck = sim.try_run(door.pass()).unwrap_err();
    let text = stuck.to_string();
    // The ask's deadline came first; the one that waits for no object has none.
    assert_eq!(stuck.why(), Why::NothingReady);
    assert!(stuck.waits().contains("Spot back #2 waits"), "{text}");
    assert!(text.contains("Sim::new(17)") && text.contains("TURNKEEP_SEED=17"), "{text}");
    assert_eq!(sim.elapsed().as_secs(), 30, "the ask was given up at its deadline");
}

#[test]
fn sim_stuck_without_objects_blames_the_test() {
    let sim = Sim::new(1);
    let text = sim.try_run(std::future::pending::<()>()).unwrap_err().to_string();
    assert!(text.contains("the test's own future"), "{text}");
}

#[test]
fn sim_stuck_is_a_panic_in_run_and_find_reports_it() {
    let found = find(5..6, |sim| sim.run(std::future::pending::<()>())).unwrap();
    assert!(found.seed == 5 && found.text.contains("stuck"), "{found}");
}

#[test]
fn sim_endless_work_ends_at_the_limit() {
    let (sim, _node, front) = stage(2);
    front.try_send(Again).unwrap();
    let stuck = sim.try_run(std::future::pending::<()>()).unwrap_err();
    assert_eq!(stuck.why(), Why::Endless);
}

#[test]
fn sim_only_time_passing_is_a_standstill() {
    let sim = Sim::new(2);
    let endless = async {
        loop {
            sleep(Duration::from_secs(1)).await;
        }
    };
    assert_eq!(sim.try_run::<_>(endless).map(|never: ()| never).unwrap_err().why(), Why::OnlyTime);
}

#[test]
fn sim_a_node_that_never_rests_from_waiting_is_a_standstill() {
    let (sim, node, front) = stage(2);
    front.try_send(WaitFor(Ghost(Signal::new()))).unwrap();
    let stuck = sim.try_run(node.quiesce()).unwrap_err();
    assert!(stuck.waits().contains("Spot front #3 waits for something that is no object"), "{stuck}");
}

/// Runs the Sim that its own node is on.
#[test]
fn sim_in_its_own_turn_is_refused() {
    std::thread_local! {
        static SIM: std::cell::RefCell<Option<&'static Sim>> = const { std::cell::RefCell::new(None) };
    }
    let sim: &'static Sim = Box::leak(Box::new(Sim::new(1)));
    SIM.set(Some(sim));
    let node = sim.node(Node::builder());
    let task = node.spawn(async { SIM.with_borrow(|sim| sim.unwrap().run_until_idle()) });
    let error = sim.run(task).unwrap_err();
    assert!(error.to_string().contains("by a turn of its own node"), "{error}");
}

#[test]
fn sim_blocking_on_its_thread_is_refused() {
    let (sim, _node, front) = stage(1);
    let error = front.ask_blocking(Again).unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::InvalidOperation));
    let blocked = std::panic::catch_unwind(|| Signal::new().wait_blocking());
    assert!(blocked.is_err());
    drop((_node, front, sim));
}

#[test]
fn sim_dropped_first_ends_its_nodes_and_their_objects() {
    let held = std::sync::Arc::new(());
    struct Holder(#[expect(dead_code)] std::sync::Arc<()>);
    impl Spot for Holder {
        type Mode = SpotWide;
    }
    let sim = Sim::new(1);
    let node = sim.node(Node::builder().spot_with("holder", Options::<Holder>::new()));
    let spot = sim.run(node.spot::<Holder>("h").create_with(Holder(held.clone()))).unwrap();
    assert_eq!(std::sync::Arc::strong_count(&held), 2);
    drop(sim);
    assert_eq!(std::sync::Arc::strong_count(&held), 1);
    assert!(spot.has_ended());
    drop(node);
}
