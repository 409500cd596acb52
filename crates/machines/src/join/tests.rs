//! Each transition of a Join: a state, one piece of news, the next state and the effect.

use super::*;

const HOME: Place = Place(1);
const AWAY: Place = Place(2);
const LATE: Outcome = Outcome::Failed(Kind::Deadline);
const OK: Result<(), Kind> = Ok(());
const FAILED: Result<(), Kind> = Err(Kind::CallbackFailed);
const PANICKED: Result<(), Kind> = Err(Kind::CallbackPanicked);
const WON: News = News::WithdrawWon { had_room: true };

/// A Join from HOME to AWAY that has been told `news`.
fn told(news: &[News]) -> Join {
    let mut join = Join::new(HOME, AWAY);
    for &one in news {
        let _ = join.on(one);
    }
    join
}

/// Tells `news` after `before`; wants the effect and the state.
#[track_caller]
fn assert_step(before: &[News], news: News, effect: Option<Effect>, state: State) {
    let mut join = told(before);
    assert_eq!(join.on(news), effect, "{before:?} then {news:?}");
    assert_eq!(join.state(), state, "{before:?} then {news:?}");
}

/// As `assert_step`, for the step that ends in the completion callback.
#[track_caller]
fn assert_completes(before: &[News], news: News, place: Place, outcome: Outcome) {
    assert_step(before, news, Some(Effect::Complete(place, outcome)), State::Completing(outcome));
    let mut join = told(before);
    let _ = join.on(news);
    assert_eq!(join.place(), place, "{before:?} then {news:?}");
}

#[track_caller]
fn assert_breaks(before: &[News], news: News) {
    let mut join = told(before);
    assert!(!matches!(join.state(), State::Broken(_)), "{before:?} is broken already");
    assert_eq!(join.on(news), None, "{before:?} then {news:?}");
    assert!(matches!(join.state(), State::Broken(_)), "{before:?} then {news:?}: {join:?}");
}

use News::{
    Cancelled, Committed, CompletionEnded, Deadline, JoinedEnded, LeaveEnded, Refused, SourceGone, Started,
    WithdrawLost,
};

#[test]
fn join_6_an_accepted_move_takes_its_steps_in_order() {
    assert_step(&[], Started, Some(Effect::AskAdmission(AWAY)), State::Asking);
    assert_step(&[Started], Committed, None, State::Joining);
    let path = [Started, Committed, JoinedEnded(OK), LeaveEnded(OK), CompletionEnded];
    assert_step(&path[..2], path[2], Some(Effect::AskLeave(HOME)), State::Leaving);
    assert_completes(&path[..3], path[3], AWAY, Outcome::Accepted);
    assert_step(&path[..4], path[4], Some(Effect::ReleaseClaim), State::Finished);
}

#[test]
fn join_6_membership_changes_with_the_commit() {
    assert_eq!(told(&[Started]).place(), HOME);
    assert_eq!(told(&[Started, Committed]).place(), AWAY);
}

#[test]
fn join_8_the_own_place_accepts_without_callbacks() {
    for before in [&[][..], &[Deadline], &[SourceGone]] {
        let mut join = Join::new(HOME, HOME);
        before.iter().for_each(|&news| assert_eq!(join.on(news), None));
        assert_eq!(join.on(Started), Some(Effect::Complete(HOME, Outcome::Accepted)));
        assert_eq!(join.on(CompletionEnded), Some(Effect::ReleaseClaim));
        assert_eq!(join.state(), State::Finished);
    }
}

#[test]
fn join_4_a_rejection_completes_in_the_source() {
    for reply in [true, false] {
        let rejected = News::Rejected { reply };
        for before in [&[Started][..], &[Started, Deadline], &[Started, Deadline, WithdrawLost]] {
            assert_completes(before, rejected, HOME, Outcome::Rejected { reply });
        }
    }
}

#[test]
fn join_12_every_refusal_fails_in_the_source_with_its_kind() {
    use Kind::{
        CallbackFailed, CallbackPanicked, InvalidTarget, NoRoom, NoTarget, Policy, ShuttingDown, WaitCycle,
    };
    for kind in
        [NoTarget, NoRoom, Policy, CallbackFailed, CallbackPanicked, ShuttingDown, InvalidTarget, WaitCycle]
    {
        for before in [&[Started][..], &[Started, Deadline], &[Started, Deadline, WithdrawLost]] {
            assert_completes(before, Refused(kind), HOME, Outcome::Failed(kind));
        }
    }
}

#[test]
fn join_12_the_deadline_withdraws_and_the_winner_decides() {
    let withdraw = Some(Effect::Withdraw(AWAY));
    assert_step(&[Started], Deadline, withdraw, State::Withdrawing);
    let no_room = News::WithdrawWon { had_room: false };
    assert_completes(&[Started, Deadline], WON, HOME, LATE);
    assert_completes(&[Started, Deadline], no_room, HOME, Outcome::Failed(Kind::NoRoom));
    assert_step(&[Started, Deadline], WithdrawLost, None, State::Bound);
    assert_step(&[Started, Deadline], Deadline, None, State::Withdrawing);
    assert_step(&[Started, Deadline, WithdrawLost], Deadline, None, State::Bound);
}

#[test]
fn join_12_a_commit_that_beat_the_deadline_is_kept() {
    for before in [&[Started, Deadline][..], &[Started, Deadline, WithdrawLost]] {
        assert_step(before, Committed, None, State::Joining);
        let moved = [before, &[Committed, JoinedEnded(OK)]].concat();
        assert_completes(&moved, LeaveEnded(OK), AWAY, LATE);
    }
}

#[test]
fn join_12_the_news_of_the_lost_withdrawal_may_come_last() {
    let crossed = [Started, Deadline, Committed];
    assert_step(&crossed, WithdrawLost, None, State::Joining);
    let no = News::Rejected { reply: false };
    let outcome = Outcome::Rejected { reply: false };
    assert_step(&[Started, Deadline, no], WithdrawLost, None, State::Completing(outcome));
}

#[test]
fn join_12_a_deadline_before_the_start_fails_without_asking() {
    assert_step(&[], Deadline, None, State::Ready);
    assert_completes(&[Deadline], Started, HOME, LATE);
}

#[test]
fn join_12_the_first_failure_after_the_commit_is_the_outcome_in_the_target() {
    let outcome = |steps: &[News]| told(&[&[Started, Committed], steps].concat()).state();
    let failed = |kind| State::Completing(Outcome::Failed(kind));
    let gone = [SourceGone, JoinedEnded(FAILED)];
    assert_eq!(outcome(&[JoinedEnded(FAILED), LeaveEnded(PANICKED)]), failed(Kind::CallbackFailed));
    assert_eq!(outcome(&[JoinedEnded(OK), LeaveEnded(PANICKED)]), failed(Kind::CallbackPanicked));
    assert_eq!(outcome(&[Deadline, JoinedEnded(FAILED), LeaveEnded(OK)]), failed(Kind::Deadline));
    assert_eq!(outcome(&[JoinedEnded(OK), Deadline, LeaveEnded(FAILED)]), failed(Kind::Deadline));
    assert_eq!(outcome(&gone), failed(Kind::CallbackFailed));
    let both = [Started, Committed, JoinedEnded(FAILED)];
    assert_step(&both[..2], both[2], Some(Effect::AskLeave(HOME)), State::Leaving);
    assert_completes(&both, LeaveEnded(OK), AWAY, Outcome::Failed(Kind::CallbackFailed));
}

#[test]
fn join_6_a_source_that_is_gone_is_not_asked() {
    assert_completes(&[Started, Committed, SourceGone], JoinedEnded(OK), AWAY, Outcome::Accepted);
    assert_completes(&[Started, SourceGone, Committed], JoinedEnded(OK), AWAY, Outcome::Accepted);
    let leaving = [Started, Committed, JoinedEnded(OK)];
    assert_completes(&leaving, SourceGone, AWAY, Outcome::Accepted);
    let after = [&leaving[..], &[SourceGone]].concat();
    assert_step(&after, LeaveEnded(FAILED), None, State::Completing(Outcome::Accepted));
}

#[test]
fn join_3_a_cancelled_join_withdraws_and_only_releases() {
    let release = Some(Effect::ReleaseClaim);
    assert_step(&[], Cancelled, release, State::Finished);
    assert_step(&[Started], Cancelled, Some(Effect::Withdraw(AWAY)), State::Withdrawing);
    assert_step(&[Started, Deadline], Cancelled, None, State::Withdrawing);
    assert_step(&[Started, Deadline, WithdrawLost], Cancelled, None, State::Bound);
    assert_step(&[Started, Cancelled], WON, release, State::Finished);
    assert_step(&[Started, Cancelled], News::Rejected { reply: true }, release, State::Finished);
    assert_step(&[Started, Cancelled, WithdrawLost], Refused(Kind::Policy), release, State::Finished);
}

#[test]
fn join_6_cancelled_after_the_commit_the_places_are_still_told() {
    let release = Some(Effect::ReleaseClaim);
    let leave = Some(Effect::AskLeave(HOME));
    for before in [&[Started, Committed, Cancelled][..], &[Started, Cancelled, WithdrawLost, Committed]] {
        assert_step(before, JoinedEnded(OK), leave, State::Leaving);
        let leaving = [before, &[JoinedEnded(OK)]].concat();
        assert_step(&leaving, LeaveEnded(OK), release, State::Finished);
        assert_step(&leaving, SourceGone, release, State::Finished);
        assert_eq!(told(&leaving).place(), AWAY);
    }
    let completing = [Started, Committed, JoinedEnded(OK), LeaveEnded(OK)];
    assert_step(&completing, Cancelled, release, State::Finished);
}

#[test]
fn join_11_late_news_changes_nothing() {
    let completing = [Started, Deadline, WON];
    let finished = [&completing[..], &[Cancelled]].concat();
    let done = told(&finished);
    for news in [Deadline, Cancelled, SourceGone, News::Rejected { reply: true }, Refused(Kind::Policy)] {
        let mut join = done.clone();
        assert_eq!(join.on(news), None);
        assert_eq!(join, done, "{news:?}");
    }
    assert_step(&finished, CompletionEnded, None, State::Finished);
    assert_step(&[Cancelled], Started, None, State::Finished);
    for news in [Deadline, SourceGone, Refused(Kind::Policy)] {
        let mut join = told(&completing);
        assert_eq!(join.on(news), None);
        assert_eq!(join, told(&completing), "{news:?}");
    }
}

#[test]
fn join_6_impossible_news_breaks() {
    assert_breaks(&[Started], Started);
    for early in [Committed, Refused(Kind::Policy), News::Rejected { reply: true }] {
        assert_breaks(&[], early);
    }
    for unasked in [WON, WithdrawLost, JoinedEnded(OK), LeaveEnded(OK), CompletionEnded] {
        assert_breaks(&[], unasked);
        assert_breaks(&[Started], unasked);
    }
    for twice in [Committed, Refused(Kind::Policy), News::Rejected { reply: true }] {
        assert_breaks(&[Started, Committed], twice);
        assert_breaks(&[Started, Refused(Kind::NoRoom)], twice);
    }
    assert_breaks(&[Started, Deadline, WON], Committed);
    assert_breaks(&[Started, Deadline, Committed], WON);
    assert_breaks(&[Started, Deadline, WithdrawLost], WithdrawLost);
    assert_breaks(&[Started, Committed, JoinedEnded(OK)], JoinedEnded(OK));
    assert_breaks(&[Started, Committed, JoinedEnded(OK), LeaveEnded(OK)], LeaveEnded(OK));
}

#[test]
fn join_6_a_broken_join_stays_broken_and_asks_nothing() {
    let mut join = told(&[LeaveEnded(OK)]);
    let broken = join.clone();
    assert_eq!(broken.state(), State::Broken("`on_leave` ended and was not running"));
    for news in [Started, Committed, Deadline, Cancelled, SourceGone, CompletionEnded, LeaveEnded(OK)] {
        assert_eq!(join.on(news), None);
        assert_eq!(join, broken);
    }
}
