//! Messages and asks: Turnkeep beside plain tokio tasks, every scenario for each of them in one run.
//!
//! A *peer* (`peer.rs`) says how its objects are made, sent to and asked; the scenarios (`scenarios.rs`) are
//! the same code for all peers, and each checks the sum that its objects have reached. Senders and askers
//! run on the peer's own two workers, except where a row says "outside". `turnkeep_rec` is Turnkeep with
//! everything recorded to a file.
#![allow(clippy::unwrap_used, reason = "a benchmark ends by it")]

mod baseline;
mod peer;
mod scenarios;
mod table;
mod turnkeep_peer;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

use crate::baseline::{Boxed, Plain};
use crate::peer::Peer;
use crate::scenarios::{Bench, SCENARIOS, Scenario, latencies};
use crate::table::Table;
use crate::turnkeep_peer::Turnkeep;

fn main() {
    // A sender that panics would leave the measuring thread waiting for ever.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(1);
    }));
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(1_500))
        .configure_from_args();
    let mut table = Table::default();
    for scenario in SCENARIOS {
        run::<Turnkeep>(&mut criterion, scenario, &mut table);
        run::<Turnkeep<true>>(&mut criterion, scenario, &mut table);
        run::<Plain>(&mut criterion, scenario, &mut table);
        run::<Boxed>(&mut criterion, scenario, &mut table);
    }
    table.print();
    // `cargo bench` with nothing but `--bench`: the whole run.
    if std::env::args().skip(1).eq(["--bench"]) {
        latencies::<Turnkeep>();
        latencies::<Plain>();
        latencies::<Boxed>();
    }
    criterion.final_summary();
}

/// One scenario for one peer, as a benchmark of criterion's and as a row of the table.
fn run<P: Peer>(criterion: &mut Criterion, scenario: &Scenario, table: &mut Table) {
    let mut group = criterion.benchmark_group(scenario.name);
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(scenario.messages));
    group.bench_function(BenchmarkId::from_parameter(P::NAME), |bencher| {
        // Made once a scenario, at its first sample; ends with it.
        let bench = Bench::<P>::new(scenario);
        bencher.iter_custom(|rounds| {
            let took = bench.rounds(rounds);
            table.add(scenario, P::NAME, rounds * scenario.messages, took);
            took
        });
    });
    group.finish();
}
