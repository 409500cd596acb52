//! The view of a running job: a live one on a terminal, a plain line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::latency::Quantiles;
use super::text::{duration, grouped};

const REDRAW: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(2);
const BAR: &str = "{bar:32} {human_pos} of {human_len} flights, {elapsed}\n{msg}";
/// How many airports the view names.
pub(crate) const BUSIEST: usize = 5;

/// A job's progress at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Rows whose work is done.
    pub(crate) flights: u64,
    /// Turns that have ended so far.
    pub(crate) turns: u64,
    /// The airports with the most departures and their number, busiest first.
    pub(crate) busiest: Vec<(String, u64)>,
    /// From sent to started, over all messages so far.
    pub(crate) start_latency: Quantiles,
}

/// Whatever can tell a job's progress at any time, from any thread.
pub(crate) trait Source: Send + Sync {
    /// The progress now.
    fn snapshot(&self) -> Snapshot;
}

/// Shows jobs over a known number of flights, on stderr.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    flights: u64,
    view: View,
}

#[derive(Clone, Copy)]
enum View {
    /// Redrawn in place: both stdout and stderr are terminals, so that this disturbs no one.
    Drawn,
    /// A line now and then.
    Lines,
    /// Nothing: the output belongs to the tests.
    #[cfg(test)]
    Hidden,
}

impl Live {
    pub(crate) fn new(flights: u64) -> Self {
        let on_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        Self { flights, view: if on_terminal { View::Drawn } else { View::Lines } }
    }

    /// Shows nothing.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Self { flights: 0, view: View::Hidden }
    }

    /// Shows the job of `source` from now on, on a thread of its own, until the value is dropped.
    #[must_use = "the view ends when this is dropped"]
    pub(crate) fn watch(&self, source: Arc<dyn Source>) -> Watch {
        let (stop, stopped) = mpsc::channel();
        let live = *self;
        let show = move || live.show(&*source, &stopped);
        // A job that cannot have a view goes on without one.
        let thread = thread::Builder::new().name("live".into()).spawn(show).ok();
        Watch { stop: Some(stop), thread }
    }

    fn show(self, source: &dyn Source, stopped: &Receiver<()>) {
        match self.view {
            View::Drawn => {
                let bar = bar(self.flights);
                ticks(stopped, REDRAW, source, |now, rate| draw(&bar, now, rate));
                bar.finish_and_clear();
            }
            View::Lines => ticks(stopped, LINE, source, |now, rate| {
                // Nobody reads on: no reason to stop the job.
                let _ = writeln!(io::stderr(), "{}", line(now, self.flights, rate));
            }),
            #[cfg(test)]
            View::Hidden => ticks(stopped, LINE, source, |_, _| {}),
        }
    }
}

/// A view that is on show; dropping it ends it.
pub(crate) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A view that panicked is no reason to stop the job.
            let _ = thread.join();
        }
    }
}

/// Shows a snapshot every `period` with the turns a second since the one before, and a last one at the end
/// with those of the whole time.
fn ticks(
    stopped: &Receiver<()>,
    period: Duration,
    source: &dyn Source,
    mut show: impl FnMut(&Snapshot, f64),
) {
    let begin = Instant::now();
    let (mut turns, mut since) = (0, begin);
    while matches!(stopped.recv_timeout(period), Err(RecvTimeoutError::Timeout)) {
        let now = source.snapshot();
        show(&now, rate(now.turns.saturating_sub(turns), since.elapsed()));
        (turns, since) = (now.turns, Instant::now());
    }
    let end = source.snapshot();
    show(&end, rate(end.turns, begin.elapsed()));
}

/// Turns a second; zero when no time has passed.
pub(crate) fn rate(turns: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { turns as f64 / time.as_secs_f64() }
}

fn bar(flights: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(flights), ProgressDrawTarget::stderr()).with_style(style)
}

fn draw(bar: &ProgressBar, now: &Snapshot, rate: f64) {
    bar.set_position(now.flights);
    bar.set_message(format!("{}\n{}", pace(now, rate), busiest(&now.busiest)));
}

fn line(now: &Snapshot, flights: u64, rate: f64) -> String {
    let (done, all) = (grouped(now.flights), grouped(flights));
    format!("{done} of {all} flights, {}, {}", pace(now, rate), busiest(&now.busiest))
}

fn pace(now: &Snapshot, rate: f64) -> String {
    let Quantiles { p50, p99, .. } = now.start_latency;
    format!("{} turns/s, start p50 {} p99 {}", grouped(rate as u64), duration(p50), duration(p99))
}

fn busiest(airports: &[(String, u64)]) -> String {
    let shown =
        airports.iter().take(BUSIEST).map(|(code, departures)| format!("{code} {}", grouped(*departures)));
    format!("busiest {}", shown.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn snapshot() -> Snapshot {
        let start_latency =
            Quantiles { count: 9, p50: Duration::from_micros(12), p99: Duration::from_millis(3) };
        let busiest = vec![("EWR".into(), 9_893), ("JFK".into(), 9_161)];
        Snapshot { flights: 12_000, turns: 50_000, busiest, start_latency }
    }

    #[test]
    fn a_line_holds_progress_pace_and_airports() {
        assert_eq!(
            line(&snapshot(), 27_004, 250_000.4),
            "12,000 of 27,004 flights, 250,000 turns/s, start p50 12 µs p99 3.0 ms, busiest EWR 9,893 JFK 9,161"
        );
    }

    #[test]
    fn the_rate_is_that_of_the_time_since() {
        assert_eq!(rate(500, Duration::from_millis(250)), 2_000.0);
        assert_eq!(rate(500, Duration::ZERO), 0.0);
    }

    #[test]
    fn a_dropped_watch_has_shown_the_last_snapshot() {
        struct Counted(AtomicUsize);
        impl Source for Counted {
            fn snapshot(&self) -> Snapshot {
                self.0.fetch_add(1, Ordering::SeqCst);
                snapshot()
            }
        }
        for view in [View::Drawn, View::Lines, View::Hidden] {
            let source = Arc::new(Counted(AtomicUsize::new(0)));
            drop(Live { flights: 27_004, view }.watch(Arc::clone(&source) as Arc<dyn Source>));
            assert!(source.0.load(Ordering::SeqCst) >= 1);
            assert_eq!(Arc::strong_count(&source), 1);
        }
    }

    #[test]
    fn the_template_of_the_bar_is_sound() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }
}
