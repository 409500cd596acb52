//! Every interleaving of a Join's news, within bounds, against the clauses.
//!
//! Two worlds. The *hostile* one tells every news in every state, possible or not, up to a depth: it shows
//! that no news makes the machine do what a clause forbids. The *honest* one has a target that decides, news
//! that cross and a driver that answers, without a bound: it shows that possible news never break the machine,
//! and that every Join ends.

extern crate std;

use alloc::vec::Vec;
use core::hash::Hash;
use std::collections::HashSet;

use super::*;

const HOME: Place = Place(1);
const AWAY: Place = Place(2);
const DEPTH: usize = 10;
const ERROR: Result<(), Kind> = Err(Kind::CallbackFailed);
const PANIC: Result<(), Kind> = Err(Kind::CallbackPanicked);

const EVERY_NEWS: [News; 17] = [
    News::Started,
    News::Committed,
    News::Rejected { reply: false },
    News::Rejected { reply: true },
    News::Refused(Kind::NoTarget),
    News::Refused(Kind::ShuttingDown),
    News::Deadline,
    News::WithdrawWon { had_room: false },
    News::WithdrawWon { had_room: true },
    News::WithdrawLost,
    News::JoinedEnded(Ok(())),
    News::JoinedEnded(ERROR),
    News::LeaveEnded(Ok(())),
    News::LeaveEnded(PANIC),
    News::SourceGone,
    News::CompletionEnded,
    News::Cancelled,
];

/// What an observer has seen of one Join. It is told the news and the effects, nothing of the machine.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
struct Seen {
    asked: bool,
    committed: bool,
    /// The decision of a target that did not commit, or the won withdrawal.
    refusal: Option<Outcome>,
    /// The first failure before the completion, a refusal apart.
    failure: Option<Kind>,
    joined_ended: bool,
    leave_asked: bool,
    left: bool,
    completed: bool,
    completion_ended: bool,
    released: bool,
    destroyed: bool,
    /// Destroyed before the completion callback was asked for.
    cancelled: bool,
}

impl Seen {
    fn hear(&mut self, news: News) {
        match news {
            News::Committed => self.committed = true,
            News::Rejected { reply } => self.refuse(Outcome::Rejected { reply }),
            News::Refused(kind) => self.refuse(Outcome::Failed(kind)),
            News::WithdrawWon { had_room: true } => self.refuse(Outcome::Failed(Kind::Deadline)),
            News::WithdrawWon { had_room: false } => self.refuse(Outcome::Failed(Kind::NoRoom)),
            News::Deadline => self.fail(Err(Kind::Deadline)),
            News::JoinedEnded(end) => {
                self.joined_ended = true;
                self.fail(end);
            }
            News::LeaveEnded(end) => {
                self.left = true;
                self.fail(end);
            }
            News::SourceGone => self.left = true,
            News::CompletionEnded => self.completion_ended = true,
            News::Cancelled => {
                self.destroyed = true;
                self.cancelled |= !self.completed;
            }
            News::Started | News::WithdrawLost => {}
        }
    }

    fn watch(&mut self, effect: Option<Effect>) {
        match effect {
            Some(Effect::AskAdmission(_)) => self.asked = true,
            Some(Effect::AskLeave(_)) => self.leave_asked = true,
            Some(Effect::Complete(..)) => self.completed = true,
            Some(Effect::ReleaseClaim) => self.released = true,
            Some(Effect::Withdraw(_)) | None => {}
        }
    }

    fn refuse(&mut self, outcome: Outcome) {
        self.refusal.get_or_insert(outcome);
    }

    fn fail(&mut self, end: Result<(), Kind>) {
        if let (Err(kind), false) = (end, self.completed || self.released) {
            self.failure.get_or_insert(kind);
        }
    }

    fn place(&self, target: Place) -> Place {
        if self.committed { target } else { HOME }
    }

    fn outcome(&self, target: Place) -> Outcome {
        match (self.refusal, self.failure) {
            (Some(refusal), _) => refusal,
            (None, Some(kind)) if target != HOME => Outcome::Failed(kind),
            _ => Outcome::Accepted,
        }
    }
}

/// One step: what was seen before the effect (the news included), and the effect.
struct Step<'a> {
    seen: &'a Seen,
    target: Place,
    join: &'a Join,
    effect: Option<Effect>,
}

/// Each callback once, in the order commit, `on_joined`, `on_leave`, completion; one membership.
fn join_6(step: &Step<'_>) -> bool {
    let Step { seen, target, join, effect } = step;
    let in_order = match effect {
        None => true,
        Some(Effect::AskAdmission(place)) => !seen.asked && place == target,
        Some(Effect::Withdraw(place)) => {
            seen.asked && place == target && !seen.committed && seen.refusal.is_none()
        }
        Some(Effect::AskLeave(place)) => {
            let told = seen.leave_asked || seen.left || seen.completed;
            seen.committed && seen.joined_ended && !told && *place == HOME
        }
        Some(Effect::Complete(..)) => !seen.completed && (!seen.committed || seen.joined_ended && seen.left),
        Some(Effect::ReleaseClaim) => !seen.committed || seen.joined_ended && seen.left,
    };
    in_order && join.place() == seen.place(*target)
}

/// The claim ends once, last, after the completion callback, and never while the target may still commit.
fn join_11(step: &Step<'_>) -> bool {
    let Step { seen, effect, .. } = step;
    if seen.released {
        return effect.is_none();
    }
    let decided = !seen.asked || seen.committed || seen.refusal.is_some();
    match effect {
        Some(Effect::ReleaseClaim) => decided && (seen.completion_ended || seen.destroyed),
        _ => true,
    }
}

/// The outcome is the refusal, else the first failure; a commit is kept.
fn join_12(step: &Step<'_>) -> bool {
    let Step { seen, target, join, effect } = step;
    let kept = !seen.committed || join.place() == *target;
    kept && match effect {
        Some(Effect::Complete(_, outcome)) => *outcome == seen.outcome(*target),
        _ => true,
    }
}

/// The completion callback runs where the Actor is, once; never after a cancellation.
fn join_13(step: &Step<'_>) -> bool {
    let Step { seen, target, effect, .. } = step;
    match effect {
        Some(Effect::Complete(place, _)) => *place == seen.place(*target) && !seen.cancelled,
        Some(Effect::ReleaseClaim) => seen.completed != seen.cancelled,
        _ => true,
    }
}

type Rule = fn(&Step<'_>) -> bool;

/// Tells `news`; checks the step. `None` once the machine is broken.
fn tell(join: &mut Join, seen: &mut Seen, target: Place, news: News, rule: Rule) -> Option<Effect> {
    let before = join.clone();
    let effect = join.on(news);
    if let State::Broken(_) = join.state() {
        assert_eq!(effect, None, "a broken machine asks nothing: {before:?}, {news:?}");
        return None;
    }
    seen.hear(news);
    let step = Step { seen, target, join, effect };
    assert!(rule(&step), "{before:?}\ntold {news:?}\nasks {effect:?}\nseen {seen:?}");
    seen.watch(effect);
    effect
}

/// All states within `depth` steps of `first`.
fn reach<S: Clone + Eq + Hash>(first: S, depth: usize, next: impl Fn(&S) -> Vec<S>) -> HashSet<S> {
    let mut known = HashSet::from([first.clone()]);
    let mut edge = Vec::from([first]);
    for _ in 0..depth {
        if edge.is_empty() {
            break;
        }
        edge = edge.iter().flat_map(&next).filter(|state| known.insert(state.clone())).collect();
    }
    known
}

/// Every news in every state.
fn hostile(target: Place, rule: Rule) -> HashSet<(Join, Seen)> {
    reach((Join::new(HOME, target), Seen::default()), DEPTH, |(join, seen)| {
        let told = EVERY_NEWS.iter().filter_map(|&news| {
            let (mut join, mut seen) = (join.clone(), seen.clone());
            let _ = tell(&mut join, &mut seen, target, news, rule);
            (!matches!(join.state(), State::Broken(_))).then_some((join, seen))
        });
        told.collect()
    })
}

/// The target's side of one request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Request {
    Absent,
    Waits { had_room: bool },
    Committed,
    Refused,
    Withdrawn,
}

/// A Join with everything around it that may still happen.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    join: Join,
    seen: Seen,
    request: Request,
    /// What the driver still carries out, in order.
    effects: Vec<Effect>,
    /// News on their way, in any order.
    mail: Vec<News>,
    /// What comes from outside, at any time, each once or never.
    outside: Vec<News>,
}

impl World {
    fn new(target: Place) -> Self {
        Self {
            join: Join::new(HOME, target),
            seen: Seen::default(),
            request: Request::Absent,
            effects: Vec::new(),
            mail: Vec::from([News::Started]),
            outside: Vec::from([News::Deadline, News::Cancelled, News::SourceGone]),
        }
    }

    fn next(&self, target: Place, rule: Rule) -> Vec<Self> {
        let mut all = self.inner_steps(target, rule);
        for index in 0..self.outside.len() {
            let mut world = self.clone();
            let news = world.outside.remove(index);
            all.extend(world.told(news, target, rule));
        }
        all
    }

    /// The steps that are bound to happen sooner or later.
    fn inner_steps(&self, target: Place, rule: Rule) -> Vec<Self> {
        let mut all = Vec::new();
        for index in 0..self.mail.len() {
            let mut world = self.clone();
            let news = world.mail.remove(index);
            all.extend(world.told(news, target, rule));
        }
        if let Some((&effect, later)) = self.effects.split_first() {
            let world = Self { effects: later.to_vec(), ..self.clone() };
            all.extend(world.carried_out(effect));
        }
        if let Request::Waits { had_room } = self.request {
            all.extend((!had_room).then(|| self.with(Request::Waits { had_room: true }, None)));
            all.push(self.with(Request::Committed, Some(News::Committed)));
            all.push(self.with(Request::Refused, Some(News::Rejected { reply: true })));
            all.push(self.with(Request::Refused, Some(News::Refused(Kind::CallbackFailed))));
        }
        all
    }

    fn with(&self, request: Request, news: Option<News>) -> Self {
        let mut world = Self { request, ..self.clone() };
        world.mail.extend(news);
        world
    }

    fn told(mut self, news: News, target: Place, rule: Rule) -> Vec<Self> {
        let effect = tell(&mut self.join, &mut self.seen, target, news, rule);
        if let State::Broken(why) = self.join.state() {
            panic!("possible news broke the machine: {why}\n{news:?}\n{self:?}");
        }
        if effect == Some(Effect::ReleaseClaim) {
            let committed = self.request == Request::Committed;
            let undecided = matches!(self.request, Request::Waits { .. });
            assert!(!undecided && committed == (self.join.place() == AWAY), "{self:?}");
        }
        self.effects.extend(effect);
        let ends = [News::JoinedEnded(Ok(())), News::JoinedEnded(ERROR)];
        match news {
            News::Committed => ends.map(|end| self.with(self.request, Some(end))).into(),
            _ => Vec::from([self]),
        }
    }

    /// The worlds that `effect` may lead to.
    fn carried_out(&self, effect: Effect) -> Vec<Self> {
        let waits = Request::Waits { had_room: false };
        let answers = |news: &[News]| news.iter().map(|&one| self.with(self.request, Some(one))).collect();
        // Whoever is gone may answer or not.
        let gone = |end| (!self.outside.contains(&end)).then(|| self.clone());
        match (effect, self.request) {
            (Effect::AskAdmission(_), _) => Vec::from([self.with(waits, None)]),
            (Effect::Withdraw(_), Request::Waits { had_room }) => {
                Vec::from([self.with(Request::Withdrawn, Some(News::WithdrawWon { had_room }))])
            }
            (Effect::Withdraw(_), _) => answers(&[News::WithdrawLost]),
            (Effect::AskLeave(_), _) => {
                let mut all: Vec<_> = answers(&[News::LeaveEnded(Ok(())), News::LeaveEnded(PANIC)]);
                all.extend(gone(News::SourceGone));
                all
            }
            (Effect::Complete(..), _) => {
                let mut all: Vec<_> = answers(&[News::CompletionEnded]);
                all.extend(gone(News::Cancelled));
                all
            }
            (Effect::ReleaseClaim, _) => Vec::from([self.clone()]),
        }
    }
}

/// Checks `rule` in both worlds, for a target elsewhere and for the own place.
fn assert_everywhere(rule: Rule) {
    for target in [AWAY, HOME] {
        hostile(target, rule);
        reach(World::new(target), usize::MAX, |world| world.next(target, rule));
    }
}

#[test]
fn model_join_6_callbacks_run_once_in_order_and_one_place_has_the_actor() {
    assert_everywhere(join_6);
}

#[test]
fn model_join_11_the_claim_ends_once_and_last() {
    assert_everywhere(join_11);
}

#[test]
fn model_join_12_a_commit_is_kept_and_the_first_failure_told() {
    assert_everywhere(join_12);
}

#[test]
fn model_join_13_the_completion_runs_once_where_the_actor_is() {
    assert_everywhere(join_13);
}

#[test]
fn model_join_11_every_join_ends_and_gives_its_claim_up() {
    for target in [AWAY, HOME] {
        let worlds = reach(World::new(target), usize::MAX, |world| world.next(target, |_| true));
        let still = worlds.iter().filter(|world| world.inner_steps(target, |_| true).is_empty());
        for world in still {
            assert!(world.join.state() == State::Finished && world.seen.released, "{world:?}");
        }
    }
}

/// The searches above mean something only if they get everywhere.
#[test]
fn model_join_6_the_searches_reach_every_state_and_outcome() {
    let worlds = reach(World::new(AWAY), usize::MAX, |world| world.next(AWAY, |_| true));
    let honest: HashSet<State> = worlds.iter().map(|world| world.join.state()).collect();
    let hostile: HashSet<State> = hostile(AWAY, |_| true).iter().map(|(join, _)| join.state()).collect();
    let failed = |kind| State::Completing(Outcome::Failed(kind));
    let mut wanted = Vec::from([State::Ready, State::Asking, State::Withdrawing, State::Bound]);
    wanted.extend([State::Joining, State::Leaving, State::Completing(Outcome::Accepted), State::Finished]);
    wanted.extend([failed(Kind::Deadline), failed(Kind::NoRoom), failed(Kind::CallbackPanicked)]);
    wanted.push(State::Completing(Outcome::Rejected { reply: true }));
    for state in wanted {
        assert!(honest.contains(&state) && hostile.contains(&state), "{state:?}");
    }
}
