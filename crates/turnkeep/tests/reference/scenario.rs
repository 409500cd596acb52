//! What clients do, made from a seed.

use turnkeep::testing::Random;

pub const CLIENTS: u64 = 4;
/// Spots that all share and nobody closes: two that share their gates, one that does not.
pub const SHARED: [&str; 3] = ["wide 0", "wide 1", "single 0"];
/// An Instance Spot that nobody is in and that asks nobody.
pub const LEAF: &str = "leaf";

/// One call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// One way: adds to the client's part of a Spot.
    Send(String, u64),
    /// The same, and tells what that came to.
    Ask(String, u64),
    /// A Spot yields for the leaf, and tells both sums; where it cannot yield it is refused.
    Yield(String, u64),
    /// An Actor asks the leaf with its gate kept, and tells that sum.
    Relay(String, u64),
    /// An Actor, under the gate of its Spot or not, asks the Spot it is in.
    Own(String, u64),
    /// An Actor goes to a Spot when its handler has ended.
    Go(String, String),
    /// The same, but the handler fails afterwards.
    GoAndFail(String, String),
    /// Where an Actor is.
    Where(String),
    /// A handler of a Spot panics; it goes on with the state that this leaves.
    Panic(String),
    Create(String),
    Close(String),
}

/// What every client does, one after the other.
pub type Scenario = Vec<Vec<Op>>;

/// A Spot of one client's own.
pub fn own_spot(client: u64, number: u64) -> String {
    format!("{} of {client}", ["wide", "single"][number as usize % 2])
}

pub fn actor(client: u64, number: u64) -> String {
    format!("actor {number} of {client}")
}

pub fn scenario(seed: u64, length: u64) -> Scenario {
    (0..CLIENTS).map(|client| script(client, &mut Random::new(seed * 1000 + client), length)).collect()
}

fn script(client: u64, random: &mut Random, length: u64) -> Vec<Op> {
    (0..length).map(|_| op(client, random)).collect()
}

fn op(client: u64, random: &mut Random) -> Op {
    let own = own_spot(client, random.below(2));
    let shared = SHARED[random.below(3) as usize].to_owned();
    let spot = if random.one_in(3) { own.clone() } else { shared };
    let actor = actor(client, random.below(2));
    let number = 1 + random.below(100);
    match random.below(20) {
        0..4 => Op::Send(spot, number),
        4..8 => Op::Ask(spot, number),
        8 | 9 => Op::Yield(spot, number),
        10 => Op::Relay(actor, number),
        11 => Op::Own(actor, number),
        12 | 13 => Op::Go(actor, spot),
        14 => Op::GoAndFail(actor, spot),
        15 => Op::Where(actor),
        16 => Op::Panic(spot),
        17 | 18 => Op::Create(own),
        _ => Op::Close(own),
    }
}
