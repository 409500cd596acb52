//! What an idle Spot costs beside its own state, how fast Spots are made, and how many threads that takes.
//!
//! A million `SpotWide` Spots with a state of 48 bytes are made, then each handles one message. Bytes are
//! counted twice: what the program has asked the allocator for, and what the system holds resident for it.
//! Ends with status 1 if a Spot costs more than the limit beside its state, by either count, or if a million
//! Spots have more threads than ten.
#![allow(clippy::unwrap_used, reason = "a benchmark ends by it")]

use std::alloc::System;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cap::Cap;
use turnkeep::prelude::*;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What a Spot may cost beside its own state, in bytes.
const LIMIT: f64 = 512.0;
const FEW: usize = 10;
const MANY: usize = 100_000;
const ALL: usize = 1_000_000;
/// How many creations are under way at once where not one after another.
const IN_FLIGHT: usize = 64;

#[derive(Default)]
struct Idle([u64; 6]);

impl Spot for Idle {
    type Mode = SpotWide;
}

#[derive(Message)]
struct Touch(u64);

impl Handles<Touch> for Idle {
    async fn handle(turn: &mut Turn<'_, Self>, touch: Touch) -> Result<(), Never> {
        turn.0[0] += touch.0;
        Ok(())
    }
}

/// What the process holds at one moment.
#[derive(Clone, Copy)]
struct Held {
    allocated: usize,
    resident: usize,
}

impl Held {
    fn now() -> Self {
        Self { allocated: ALLOCATOR.allocated(), resident: kibibytes_of("VmRSS:") * 1024 }
    }
}

/// A number of the process's status, in the unit it has there.
fn kibibytes_of(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this benchmark runs on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the status has that line");
    let number = line.split_whitespace().next().and_then(|number| number.parse().ok());
    number.expect("the line begins with a number")
}

fn threads() -> usize {
    kibibytes_of("Threads:")
}

/// Prints what each of `count` Spots costs beside its state since `before`; whether that is within the limit.
fn print_cost(when: &str, count: usize, before: Held) -> bool {
    let now = Held::now();
    let each = |now: usize, before: usize| {
        now.saturating_sub(before) as f64 / count as f64 - size_of::<Idle>() as f64
    };
    let (allocated, resident) = (each(now.allocated, before.allocated), each(now.resident, before.resident));
    println!(
        "{count:>9} Spots, {when:<15} {allocated:>6.1} B allocated, {resident:>6.1} B resident beside state"
    );
    allocated <= LIMIT && resident <= LIMIT
}

fn main() -> ExitCode {
    let outside = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    let node = outside.block_on(Node::builder().workers(2).spot::<Idle>("idle").start());
    let node = node.expect("the node starts");
    let (told, verdict) = std::sync::mpsc::channel();
    let measured = node.clone();
    let _task = node.spawn(async move {
        let verdict = measure(&measured).await;
        let _ = told.send(verdict);
    });
    let is_within = verdict.recv().unwrap_or(false);
    let _report = outside.block_on(node.shutdown_within(Duration::from_secs(120)));
    if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn measure(node: &Node) -> bool {
    // The first calls start what the process has once.
    make(node, 0..FEW).await;
    touch(node, FEW).await;
    let few_threads = threads();
    let before = Held::now();

    let mut is_within = true;
    print_rate("one after another", FEW..MANY, make(node, FEW..MANY).await);
    is_within &= print_cost("fresh", MANY - FEW, before);
    touch(node, MANY).await;
    is_within &= print_cost("used once", MANY - FEW, before);

    print_rate("64 in flight", MANY..ALL, make_in_flight(node, MANY..ALL).await);
    // The first tenth has been used, the rest is fresh.
    is_within &= print_cost("mostly fresh", ALL - FEW, before);
    touch(node, ALL).await;
    is_within &= print_cost("used once", ALL - FEW, before);

    let all_threads = threads();
    println!("{few_threads} threads with {FEW} Spots, {all_threads} with {ALL}");
    if !is_within {
        println!("an idle Spot costs over {LIMIT} bytes beside its state");
    }
    is_within && few_threads == all_threads
}

fn id(number: usize) -> String {
    format!("spot-{number}")
}

/// Makes Spots one after another.
async fn make(node: &Node, numbers: std::ops::Range<usize>) -> Duration {
    let start = Instant::now();
    for number in numbers {
        node.spot::<Idle>(&id(number)).get_or_create().await.expect("a Spot is made");
    }
    start.elapsed()
}

/// Makes Spots from so many tasks at once.
async fn make_in_flight(node: &Node, numbers: std::ops::Range<usize>) -> Duration {
    let start = Instant::now();
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(numbers.start));
    let tasks: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (of, next, end) = (node.clone(), next.clone(), numbers.end);
            node.spawn(async move {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= end {
                        return;
                    }
                    of.spot::<Idle>(&id(number)).get_or_create().await.expect("a Spot is made");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task ends");
    }
    start.elapsed()
}

/// Lets each of the first `count` Spots handle a message.
async fn touch(node: &Node, count: usize) {
    for number in 0..count {
        node.spot::<Idle>(&id(number)).ask(Touch(1)).await.expect("the Spot is there");
    }
}

fn print_rate(how: &str, numbers: std::ops::Range<usize>, took: Duration) {
    let rate = numbers.len() as f64 / took.as_secs_f64();
    println!("{:>9} Spots made, {how}: {rate:.0} a second", numbers.len());
}
