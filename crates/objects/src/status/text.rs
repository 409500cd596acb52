//! The metrics of a node as Prometheus text, version 0.0.4: counters and gauges, and no ids as labels (STAT-2).

use std::fmt::Write;

use super::{NodeState, Status};

/// Writes the text.
pub(crate) fn text(status: &Status) -> String {
    let mut text = String::with_capacity(4096);
    let metrics = &status.metrics;
    let counters = [
        ("records_accepted_total", "Records admitted.", metrics.accepted),
        ("records_finished_total", "Records whose handler is over.", metrics.finished),
        ("turns_total", "Turns: grants of a gate.", metrics.turns),
        ("yields_total", "Waits of handlers with the gate given up.", metrics.yields),
        ("admissions_refused_total", "Admissions refused, at once or after a wait.", metrics.refused),
        ("panics_total", "Panics of user code.", metrics.panics),
        ("answers_late_total", "Answers that came after their caller had given up.", metrics.late),
        ("sends_failed_total", "Sends and ticks whose handler failed.", metrics.failed_sends),
    ];
    for (name, help, value) in counters {
        family(&mut text, name, help, "counter", [("", value)]);
    }
    let joins = [
        ("{outcome=\"accepted\"}", metrics.joins_accepted),
        ("{outcome=\"rejected\"}", metrics.joins_rejected),
        ("{outcome=\"failed\"}", metrics.joins_failed),
    ];
    family(&mut text, "joins_total", "Joins that have ended.", "counter", joins);
    let objects = [
        ("{kind=\"spot\"}", status.spots as u64),
        ("{kind=\"actor\"}", status.actors as u64),
        ("{kind=\"handler\"}", status.handlers as u64),
    ];
    family(&mut text, "objects", "Objects there are.", "gauge", objects);
    let gauges = [
        ("records_under_way", "Records accepted and not finished.", status.under_way),
        ("workers", "Workers that run turns.", status.workers as u64),
        ("workers_idle", "Workers with nothing to do.", status.idle_workers as u64),
        ("uptime_seconds", "Since the start of the node.", status.uptime.as_secs()),
    ];
    for (name, help, value) in gauges {
        family(&mut text, name, help, "gauge", [("", value)]);
    }
    let of = |state| u64::from(status.state == state);
    let states = [
        ("{state=\"open\"}", of(NodeState::Open)),
        ("{state=\"draining\"}", of(NodeState::Draining)),
        ("{state=\"stopped\"}", of(NodeState::Stopped)),
    ];
    family(&mut text, "node_state", "1 for the part of its life that the node is in.", "gauge", states);
    let version = format!("{{version=\"{}\"}}", status.version);
    family(&mut text, "build_info", "The version of the library.", "gauge", [(version.as_str(), 1)]);
    text
}

fn family<'a>(
    text: &mut String,
    name: &str,
    help: &str,
    kind: &str,
    samples: impl IntoIterator<Item = (&'a str, u64)>,
) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP turnkeep_{name} {help}\n# TYPE turnkeep_{name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(text, "turnkeep_{name}{labels} {value}");
    }
}
