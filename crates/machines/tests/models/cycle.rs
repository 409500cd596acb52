//! Every small graph of waits: a wait is refused exactly if it could never end, whatever the others do.

use turnkeep_machines::cycle::{Asker, Look, Need, Waiter, closing};

/// Two Spots with gates of their own, and an Actor under the gate of the first, which claims.
const OWNERS: usize = 3;
const GATES: [usize; OWNERS] = [0, 1, 0];
const ACTOR: usize = 2;

/// A handler that waits for one call. Handler `n` serves call `n + 1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Waits {
    owner: usize,
    keeps: bool,
    target: usize,
    /// 0: still queued there; else the call of another handler, which serves it.
    call: u64,
}

struct Graph(Vec<Waits>);

impl Graph {
    fn waiter(&self, number: usize) -> Waiter<usize> {
        let Waits { keeps, target, call, .. } = self.0[number];
        // A call that nobody serves yet has a number of its own.
        let call = if call == 0 { 100 + number as u64 } else { call };
        Waiter { handler: number + 1, keeps, needs: vec![Need { owner: target, call }] }
    }

    fn those(&self, which: impl Fn(&Waits) -> bool) -> Vec<Waiter<usize>> {
        (0..self.0.len()).filter(|number| which(&self.0[*number])).map(|number| self.waiter(number)).collect()
    }
}

impl Look for Graph {
    type Owner = usize;

    fn serving(&self, owner: &usize, call: u64) -> Option<Waiter<usize>> {
        let number = usize::try_from(call).ok()?.checked_sub(1).filter(|number| *number < self.0.len())?;
        (self.0[number].owner == *owner).then(|| self.waiter(number))
    }

    fn gate(&self, owner: &usize) -> usize {
        GATES[*owner]
    }

    fn keepers(&self, gate: &usize) -> Vec<Waiter<usize>> {
        self.those(|waits| waits.keeps && GATES[waits.owner] == *gate)
    }

    fn claimants(&self, owner: &usize) -> Vec<Waiter<usize>> {
        self.those(|waits| *owner == ACTOR && waits.owner == ACTOR)
    }

    fn joining(&self, _: &usize) -> Vec<usize> {
        Vec::new()
    }
}

/// Which handlers could end if everybody who is able to went on; `running` does so at once.
fn able_to_end(graph: &[Waits], running: Option<usize>) -> Vec<bool> {
    let mut able: Vec<bool> = (0..graph.len()).map(|number| Some(number) == running).collect();
    loop {
        let is_free = |gate: usize, but: usize, able: &[bool]| {
            (0..graph.len()).all(|other| {
                other == but || able[other] || !graph[other].keeps || GATES[graph[other].owner] != gate
            })
        };
        let goes_on = |number: usize| {
            let Waits { owner, keeps, target, call } = graph[number];
            let answered = match call {
                0 => {
                    let unclaimed = target != ACTOR
                        || (0..graph.len()).all(|other| able[other] || graph[other].owner != ACTOR);
                    is_free(GATES[target], usize::MAX, &able) && unclaimed
                }
                served => able[served as usize - 1],
            };
            answered && (keeps || is_free(GATES[owner], number, &able))
        };
        let more: Vec<usize> = (0..graph.len()).filter(|number| !able[*number] && goes_on(*number)).collect();
        if more.is_empty() {
            return able;
        }
        more.into_iter().for_each(|number| able[number] = true);
    }
}

/// All handlers that a graph of so many could have at that place.
fn handlers(many: u64, number: u64) -> Vec<Waits> {
    let mut all = Vec::new();
    for owner in 0..OWNERS {
        for keeps in [false, true] {
            for target in 0..OWNERS {
                for call in (0..=many).filter(|call| *call != number + 1) {
                    all.push(Waits { owner, keeps, target, call });
                }
            }
        }
    }
    all
}

/// Whether such handlers could have begun: one keeper a gate, and none of the gate that the last one holds while it
/// begins to wait; one handler of the Actor; calls served where they went, each by one caller.
fn is_possible(graph: &[Waits]) -> bool {
    let keepers = |gate| graph.iter().filter(|waits| waits.keeps && GATES[waits.owner] == gate).count();
    let actors = graph.iter().filter(|waits| waits.owner == ACTOR).count();
    let served = |waits: &Waits| waits.call == 0 || graph[waits.call as usize - 1].owner == waits.target;
    let once =
        (1..=graph.len() as u64).all(|call| graph.iter().filter(|waits| waits.call == call).count() <= 1);
    let (last, others) = graph.split_last().unwrap();
    let beside = others.iter().any(|waits| waits.keeps && GATES[waits.owner] == GATES[last.owner]);
    !beside && keepers(0) <= 1 && keepers(1) <= 1 && actors <= 1 && graph.iter().all(served) && once
}

fn is_refused(graph: &[Waits]) -> bool {
    let (last, others) = graph.split_last().unwrap();
    let number = graph.len();
    let asker = Asker {
        handler: number,
        owner: last.owner,
        gate: GATES[last.owner],
        keeps: last.keeps,
        claims: last.owner == ACTOR,
        serves: number as u64,
        answers: 0,
    };
    let call = if last.call == 0 { 99 } else { last.call };
    closing(&asker, Need { owner: last.target, call }, &Graph(others.to_vec())).is_some()
}

#[test]
fn model_reent_5_every_graph_of_three_waits_is_refused_exactly_if_it_could_not_end() {
    let [first, second, third] = [0, 1, 2].map(|number| handlers(3, number));
    let (mut refused, mut allowed) = (0_u64, 0_u64);
    for one in &first {
        for two in &second {
            for three in &third {
                let graph = [*one, *two, *three];
                // The first two were not refused, so while the third runs nothing keeps them for ever.
                if !is_possible(&graph) || able_to_end(&graph, Some(2)).contains(&false) {
                    continue;
                }
                let could_end = able_to_end(&graph, None)[2];
                assert_eq!(is_refused(&graph), !could_end, "{graph:?}");
                if could_end { allowed += 1 } else { refused += 1 }
            }
        }
    }
    println!("cycle: {allowed} graphs allowed, {refused} refused");
    assert!(refused > 1000 && allowed > 1000, "{allowed} {refused}");
}
