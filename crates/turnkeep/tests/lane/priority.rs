//! Which lane of an owner goes next, and what is never put in front (LANE-8, LANE-9, LANE-11).

use std::time::Duration;

use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Signal, within};

/// Guests that ask to join, in this order; ends when their requests stand in the Spot's lifecycle lane.
async fn guests(stage: &Stage, wide: &SpotRef<Wide>, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        guest(stage, wide, number, Script::default()).await;
    }
}

async fn guest(stage: &Stage, wide: &SpotRef<Wide>, number: usize, script: Script) {
    let before = wide.queued().1;
    let guest = stage.pawn(&format!("g{number}")).await;
    guest.send(Go::with(wide.id(), script)).await.unwrap();
    until(|| wide.queued().1 == before + 1).await;
}

/// An admission that waits, and its two signals: it has begun, it may go on.
fn waiting_admission() -> (Script, Signal, Signal) {
    let (begun, go) = (Signal::new(), Signal::new());
    let admission = vec![Step::Set(begun.clone()), Step::Wait(go.clone())];
    (Script { admission, ..Script::default() }, begun, go)
}

async fn messages(wide: &SpotRef<Wide>, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        wide.send(line(format!("m{number}"))).await.unwrap();
    }
}

/// Lifecycle turns as `L3`, application turns as `m3`, in their order in the Spot.
async fn turns(stage: &Stage) -> Vec<String> {
    let lines = stage.lines().await;
    let of_spot = lines.into_iter().filter(|entry| entry.starts_with("join") || entry.starts_with('m'));
    of_spot.map(|entry| entry.replace("join g", "L")).collect()
}

/// `L0 L1 m0` as a list.
fn wanted(parts: &[(&str, std::ops::Range<usize>)]) -> Vec<String> {
    parts.iter().flat_map(|(text, numbers)| numbered(text, numbers.clone())).collect()
}

async fn budget_of(workers: usize, budget: Duration) -> (Stage, SpotRef<Wide>) {
    let stage = Stage::with(workers, |builder| builder.budget(budget)).await;
    let wide = stage.wide("w").await;
    (stage, wide)
}

async fn usual(workers: usize) -> (Stage, SpotRef<Wide>) {
    budget_of(workers, Duration::from_millis(10)).await
}

#[tokio::test]
async fn lane_8_lifecycle_goes_first_when_both_lanes_are_ready_whichever_came_first() {
    within(async {
        for workers in [1, 2, 8] {
            let (stage, wide) = usual(workers).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            messages(&wide, 0..3).await;
            guests(&stage, &wide, 0..3).await;
            messages(&wide, 3..5).await;
            kept.go.set();
            assert_eq!(turns(&stage).await, wanted(&[("L", 0..3), ("m", 0..5)]));
        }
    })
    .await;
}

#[tokio::test]
async fn lane_8_lifecycle_that_comes_while_a_handler_runs_goes_before_what_was_queued() {
    within(async {
        let (stage, wide) = usual(1).await;
        let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
        let (started, go) = (Signal::new(), Signal::new());
        let steps = vec![note("m0"), Step::Set(started.clone()), Step::Wait(go.clone())];
        wide.send(Play(steps)).await.unwrap();
        messages(&wide, 1..4).await;
        kept.go.set();
        started.wait().await;
        guests(&stage, &wide, 0..2).await;
        go.set();
        assert_eq!(turns(&stage).await, wanted(&[("m", 0..1), ("L", 0..2), ("m", 1..4)]));
    })
    .await;
}

#[tokio::test]
async fn lane_9_a_after_eight_lifecycle_turns_one_application_turn_is_owed() {
    within(async {
        for workers in [1, 2, 8] {
            let (stage, wide) = usual(workers).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            guests(&stage, &wide, 0..20).await;
            messages(&wide, 0..5).await;
            kept.go.set();
            let wanted =
                wanted(&[("L", 0..8), ("m", 0..1), ("L", 8..16), ("m", 1..2), ("L", 16..20), ("m", 2..5)]);
            assert_eq!(turns(&stage).await, wanted);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_9_b_an_application_turn_taken_for_want_of_lifecycle_sets_the_count_back() {
    within(async {
        for workers in [1, 2] {
            let (stage, wide) = usual(workers).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            guests(&stage, &wide, 0..7).await;
            let (started, go) = (Signal::new(), Signal::new());
            let steps = vec![note("m0"), Step::Set(started.clone()), Step::Wait(go.clone())];
            wide.send(Play(steps)).await.unwrap();
            kept.go.set();
            started.wait().await;
            messages(&wide, 1..3).await;
            guests(&stage, &wide, 7..16).await;
            go.set();
            let wanted =
                wanted(&[("L", 0..7), ("m", 0..1), ("L", 7..15), ("m", 1..2), ("L", 15..16), ("m", 2..3)]);
            assert_eq!(turns(&stage).await, wanted);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_9_c_a_debt_without_application_work_is_kept_while_lifecycle_goes_on() {
    within(async {
        for workers in [1, 2] {
            let (stage, wide) = usual(workers).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            guests(&stage, &wide, 0..11).await;
            let (script, begun, go) = waiting_admission();
            guest(&stage, &wide, 11, script).await;
            kept.go.set();
            begun.wait().await;
            // Twelve lifecycle turns in a row: the debt is from the eighth.
            guests(&stage, &wide, 12..14).await;
            messages(&wide, 0..2).await;
            go.set();
            let wanted = wanted(&[("L", 0..12), ("m", 0..1), ("L", 12..14), ("m", 1..2)]);
            assert_eq!(turns(&stage).await, wanted);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_9_d_count_and_debt_are_kept_when_the_gate_is_given_up_at_the_budget() {
    within(async {
        for workers in [1, 2, 8] {
            // Used up at every turn boundary.
            let (stage, wide) = budget_of(workers, Duration::ZERO).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            guests(&stage, &wide, 0..20).await;
            messages(&wide, 0..5).await;
            kept.go.set();
            let wanted =
                wanted(&[("L", 0..8), ("m", 0..1), ("L", 8..16), ("m", 1..2), ("L", 16..20), ("m", 2..5)]);
            assert_eq!(turns(&stage).await, wanted);
        }
    })
    .await;
}

/// Yields for an answer of another object, then plays.
#[derive(Message)]
struct YieldFor {
    whom: String,
    #[message(no_heap)]
    then: Vec<Step>,
}

impl Handles<YieldFor> for Wide {
    async fn handle(turn: &mut Turn<'_, Self>, ask: YieldFor) -> Result<(), Never> {
        let asked = turn.spot::<Inst>(&ask.whom).ask(line("answers"));
        turn.yielding(asked).await.unwrap();
        let cue = turn.cue.clone();
        for step in ask.then {
            plain(step, &cue).await;
        }
        Ok(())
    }
}

/// A handler of the Spot that yields until `answer`, and then plays.
struct Yielded {
    other: SpotRef<Inst>,
    kept: Kept,
}

impl Yielded {
    async fn new(stage: &Stage, wide: &SpotRef<Wide>, then: Vec<Step>) -> Self {
        let other = stage.inst("other").await;
        let kept = keep(|play| async { other.send(play).await.unwrap() }).await;
        wide.send(YieldFor { whom: "other".to_owned(), then }).await.unwrap();
        until(|| other.queued().0 == 2).await;
        Self { other, kept }
    }

    /// The answer is given; once this ends, the resume stands in the Spot's queue.
    async fn answer(self) {
        self.kept.go.set();
        self.other.ask(line("answered")).await.unwrap();
    }
}

#[tokio::test]
async fn lane_9_e_a_resume_turn_counts_as_an_application_turn_of_the_owner_that_yielded() {
    within(async {
        for workers in [1, 2] {
            let (stage, wide) = usual(workers).await;
            let (started, go_on) = (Signal::new(), Signal::new());
            let then = vec![note("m-resumed"), Step::Set(started.clone()), Step::Wait(go_on.clone())];
            let yielded = Yielded::new(&stage, &wide, then).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            guests(&stage, &wide, 0..6).await;
            let (script, begun, go) = waiting_admission();
            guest(&stage, &wide, 6, script).await;
            kept.go.set();
            begun.wait().await;
            yielded.answer().await;
            go.set();
            // Seven lifecycle turns, then the resume: the count begins anew.
            started.wait().await;
            guests(&stage, &wide, 7..16).await;
            messages(&wide, 0..2).await;
            go_on.set();
            let resumed = vec!["m-resumed".to_owned()];
            let rest = wanted(&[("L", 7..15), ("m", 0..1), ("L", 15..16), ("m", 1..2)]);
            assert_eq!(turns(&stage).await, [wanted(&[("L", 0..7)]), resumed, rest].concat());
        }
    })
    .await;
}

/// Says whether its Actor still takes messages.
#[derive(Message)]
struct IsOpen;

impl Handles<IsOpen> for Pawn {
    async fn handle(turn: &mut Turn<'_, Self>, _: IsOpen) -> Result<(), Never> {
        let open = turn.this_actor().try_send(line("after")).is_ok();
        turn.cue.note(if open { "member first" } else { "close first" });
        Ok(())
    }
}

#[tokio::test]
async fn lane_9_f_a_debt_is_the_owners_own_whatever_gate_it_shares() {
    within(async {
        for workers in [1, 2] {
            let (stage, wide) = usual(workers).await;
            let member = stage.member("member", "w").await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            guests(&stage, &wide, 0..7).await;
            let (script, begun, go) = waiting_admission();
            guest(&stage, &wide, 7, script).await;
            kept.go.set();
            begun.wait().await;
            // The Spot owes its application lane a turn. The member owes nothing: its close goes first.
            guests(&stage, &wide, 8..9).await;
            member.send(IsOpen).await.unwrap();
            member.request_close().unwrap();
            messages(&wide, 0..1).await;
            go.set();
            let lines = stage.lines().await;
            let at = |text: &str| lines.iter().position(|entry| entry == text).unwrap();
            assert!(at("m0") < at("join g8"), "the Spot pays its debt: {lines:?}");
            assert!(lines.contains(&"close first".to_owned()), "the member has none: {lines:?}");
        }
    })
    .await;
}

/// An Actor whose creation waits; while it does, every other creator leaves a record in its lifecycle lane.
struct Slow(Cue, Signal);

impl Actor for Slow {
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        let go = turn.1.clone();
        go.wait().await;
        Ok(())
    }
}
impl Handles<IsOpen> for Slow {
    async fn handle(turn: &mut Turn<'_, Self>, _: IsOpen) -> Result<(), Never> {
        let open = turn.this_actor().try_send(IsOpen).is_ok();
        let text = if open { "message first" } else { "close first" };
        if turn.0.log.is_empty() {
            turn.0.note(text);
        }
        Ok(())
    }
}

#[tokio::test]
async fn lane_9_g_an_actors_ninth_lifecycle_turn_waits_for_its_message_and_its_eighth_does_not() {
    within(async {
        for (lifecycle_before_the_close, wanted) in [(7, "close first"), (8, "message first")] {
            let (cue, go) = (Cue::default(), Signal::new());
            let state = (cue.clone(), go.clone());
            let make = move |_: &str| Ok(Slow(state.0.clone(), state.1.clone()));
            let slow = Options::new().factory(make);
            let node = Node::builder().workers(2).actor_with("slow", slow).start().await.unwrap();
            let address = node.actor::<Slow>("s");
            // The creation itself is the first.
            let mut creators = Vec::new();
            for number in 0..lifecycle_before_the_close {
                creators.push(tokio::spawn(address.get_or_create()));
                until(|| address.find().is_ok_and(|slow| slow.queued().1 == number + 1)).await;
            }
            let slow = address.find().unwrap();
            slow.send(IsOpen).await.unwrap();
            slow.request_close().unwrap();
            go.set();
            for creator in creators {
                creator.await.unwrap().unwrap();
            }
            until(|| slow.has_ended()).await;
            assert_eq!(cue.log.take(), [wanted]);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_11_a_a_resume_goes_behind_all_that_was_accepted_before_it() {
    within(async {
        for workers in [1, 2, 8] {
            let (stage, wide) = usual(workers).await;
            let member = stage.member("a", "w").await;
            let yielded = Yielded::new(&stage, &wide, vec![note("m-resumed")]).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            messages(&wide, 0..2).await;
            member.send(line("m-member")).await.unwrap();
            yielded.answer().await;
            messages(&wide, 2..3).await;
            kept.go.set();
            assert_eq!(turns(&stage).await, ["m0", "m1", "m-member", "m-resumed", "m2"]);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_11_b_waiters_and_late_lifecycle_records_go_behind_those_of_their_lane() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::with(workers, |builder| {
                builder
                    .application_lane(Lane { records: 3, ..Lane::APPLICATION })
                    .lifecycle_lane(Lane { records: 2, ..Lane::LIFECYCLE })
            })
            .await;
            let wide = stage.wide("w").await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            messages(&wide, 0..2).await;
            let mut waiters = Vec::new();
            for number in 2..6 {
                waiters.push(tokio::spawn(wide.send(line(format!("m{number}")))));
                until(|| wide.waiting().0 == number - 1).await;
            }
            for number in 0..5 {
                stage.pawn(&format!("g{number}")).await.send(Go::to("w")).await.unwrap();
                until(|| wide.queued().1 as usize + wide.waiting().1 == number + 1).await;
            }
            kept.go.set();
            for waiter in waiters {
                waiter.await.unwrap().unwrap();
            }
            let turns = turns(&stage).await;
            let of = |kind: char| -> Vec<String> {
                turns.iter().filter(|entry| entry.starts_with(kind)).cloned().collect()
            };
            assert_eq!((of('m'), of('L')), (numbered("m", 0..6), numbered("L", 0..5)));
        }
    })
    .await;
}

#[tokio::test]
async fn lane_11_c_an_arriving_actor_and_its_messages_go_behind_what_stands_in_the_spots_queue() {
    within(async {
        for workers in [1, 2, 8] {
            let (stage, wide) = usual(workers).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            guests(&stage, &wide, 0..1).await;
            stage.pawn("g0").await.send(line("m-arrived")).await.unwrap();
            messages(&wide, 0..50).await;
            kept.go.set();
            let lines = stage.lines().await;
            let at = |text: &str| lines.iter().position(|entry| entry == text).unwrap();
            assert!(at("m49") < at("arrived g0") && at("arrived g0") < at("m-arrived"), "{lines:?}");
        }
    })
    .await;
}
