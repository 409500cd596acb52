//! What a delivery costs in memory: nothing, once the bus has warmed up.
#![allow(clippy::unwrap_used, reason = "tests end by it")]

use cap::Cap;
use std::alloc::System;
use std::sync::Mutex;

use turnkeep_bus::{Bus, Component, Context, Failure, Hosted, Limits, On, Topic};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The counter is the whole process's: one measurement at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Sum(u64);

impl Component for Sum {}

impl On<u64> for Sum {
    fn on(&mut self, _: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
        self.0 += number;
        Ok(())
    }
}

/// Answers each number with the next lower one, in a nested publication.
struct Chain(Topic<u64>);

impl Component for Chain {}

impl On<u64> for Chain {
    fn on(&mut self, ctx: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
        if *number > 0 {
            ctx.publish(self.0, number - 1);
        }
        Ok(())
    }
}

/// Bytes that `rounds` rounds allocate in all, after as many to warm up.
fn allocated(mut round: impl FnMut()) -> usize {
    (0..1000).for_each(|_| round());
    let before = ALLOCATOR.total_allocated();
    (0..1000).for_each(|_| round());
    ALLOCATOR.total_allocated() - before
}

#[test]
fn fault_5_d_no_delivery_allocates_in_the_steady_state() {
    let _alone = ALONE.lock().unwrap();
    let mut bus = Hosted::new(Bus::builder().limits(Limits::default()).build());
    let wide = bus.context().topic::<u64>("wide").unwrap();
    for number in 0..100 {
        let id = bus.context().register(&number.to_string(), Sum(0)).unwrap();
        bus.context().start(id).unwrap();
        bus.context().subscribe::<Sum, u64>(id, "wide", 0).unwrap();
    }
    let fan_out = allocated(|| {
        bus.context().publish(wide, 1);
        bus.boundary().drain(u32::MAX);
    });
    assert_eq!(fan_out, 0, "100,000 deliveries");
    let deep = bus.context().topic::<u64>("deep").unwrap();
    let id = bus.context().register("chain", Chain(deep)).unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Chain, u64>(id, "deep", 0).unwrap();
    let chains = allocated(|| {
        bus.context().publish(deep, 50);
        bus.boundary().drain(u32::MAX);
    });
    assert_eq!(chains, 0, "51,000 deliveries, each in a publication of its own");
}
