//! The table at the end of a run: median and spread of each scenario, and ratios to the baselines.

use std::time::Duration;

use crate::scenarios::Scenario;

/// The samples of one scenario and peer, in nanoseconds a message.
struct Row {
    scenario: &'static str,
    peer: &'static str,
    samples: Vec<f64>,
}

impl Row {
    /// Shortest, median, longest.
    fn spread(&self) -> (f64, f64, f64) {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
    }
}

#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Notes one sample. The first of a scenario and peer is the warm-up and does not count.
    pub(crate) fn add(&mut self, scenario: &Scenario, peer: &'static str, messages: u64, took: Duration) {
        let sample = took.as_nanos() as f64 / messages as f64;
        match self.rows.last_mut() {
            Some(row) if row.scenario == scenario.name && row.peer == peer => row.samples.push(sample),
            _ => self.rows.push(Row { scenario: scenario.name, peer, samples: Vec::new() }),
        }
    }

    /// Prints what was measured; with one sample each (a test run) there is nothing to print.
    pub(crate) fn print(&self) {
        let rows = || self.rows.iter().filter(|row| !row.samples.is_empty());
        if rows().next().is_none() {
            return;
        }
        println!("\n| scenario | peer | ns a message [min, max] | M a second | speed beside this one |");
        println!("|---|---|---|---|---|");
        for row in rows() {
            let (min, median, max) = row.spread();
            let ours = rows().find(|other| other.scenario == row.scenario).map(|other| other.spread().1);
            let ratio = ours.map_or(1.0, |ours| median / ours);
            println!(
                "| {} | {} | {median:.1} [{min:.1}, {max:.1}] | {:.2} | {ratio:.2} |",
                row.scenario,
                row.peer,
                1e3 / median
            );
        }
        println!();
    }
}
