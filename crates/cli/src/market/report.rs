//! What a run has come to, for people and as JSON.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;

use super::date::Date;
use super::job::Outcome;
use super::options::Options;

/// The columns and rows of the plot.
const WIDTH: usize = 72;
const HEIGHT: usize = 10;

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    file: String,
    symbol: &'a str,
    mode: String,
    fast: u32,
    slow: u32,
    bars: u64,
    orders: u64,
    fills: u64,
    closed_trades: u64,
    pnl_closed: Box<RawValue>,
    pnl_open: Box<RawValue>,
    open_position: Box<RawValue>,
    callbacks: u64,
    publications: u64,
    commands: u64,
    roots: u64,
    max_chain: u64,
    cancelled: u64,
    refused: u64,
    digest: String,
    wall_s: f64,
    callbacks_per_s: f64,
}

impl Outcome {
    fn callbacks_per_s(&self) -> f64 {
        self.metrics.deliveries as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// One JSON object. Sums have all their digits.
    pub(crate) fn json(&self, options: &Options, path: &Path) -> serde_json::Result<String> {
        let exact = |number: turnkeep::market::Decimal| RawValue::from_string(number.normalize().to_string());
        let report = Report {
            file: path.display().to_string(),
            symbol: self.symbol.as_str(),
            mode: options.mode.to_string(),
            fast: options.fast,
            slow: options.slow,
            bars: self.tally.bars,
            orders: self.tally.orders,
            fills: self.tally.fills,
            closed_trades: self.closed_trades,
            pnl_closed: exact(self.pnl_closed)?,
            pnl_open: exact(self.pnl_open)?,
            open_position: exact(self.open_position)?,
            callbacks: self.metrics.deliveries,
            publications: self.metrics.publications,
            commands: self.metrics.commands,
            roots: self.metrics.roots,
            max_chain: self.metrics.max_chain,
            cancelled: self.metrics.cancelled,
            refused: self.metrics.refused,
            digest: format!("{:016x}", self.digest),
            wall_s: self.wall.as_secs_f64(),
            callbacks_per_s: self.callbacks_per_s(),
        };
        serde_json::to_string(&report)
    }

    /// Trades, gain, plot, and what the bus did.
    pub(crate) fn text(&self, options: &Options, path: &Path) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = self.write(&mut out, options, path);
        out
    }

    fn write(&self, out: &mut String, options: &Options, path: &Path) -> std::fmt::Result {
        let (mode, fast, slow) = (options.mode, options.fast, options.slow);
        writeln!(out, "{}: {mode}, averages of {fast} and {slow} closes\n", path.display())?;
        self.write_rounds(out)?;
        plot(out, &self.tally.course)?;
        let (tally, metrics) = (&self.tally, &self.metrics);
        writeln!(out, "bars        {} of {}", count(tally.bars), self.symbol)?;
        writeln!(out, "orders      {}, {} fills", count(tally.orders), count(tally.fills))?;
        writeln!(
            out,
            "trades      {} closed, {} points of profit",
            count(self.closed_trades),
            self.pnl_closed.normalize()
        )?;
        if !self.open_position.is_zero() {
            writeln!(
                out,
                "open        {}, {} points so far",
                self.open_position.normalize(),
                self.pnl_open.normalize()
            )?;
        }
        let a_second = count(self.callbacks_per_s() as u64);
        writeln!(
            out,
            "bus         {} callbacks in {:.0?}, {a_second} a second",
            count(metrics.deliveries),
            self.wall
        )?;
        writeln!(
            out,
            "            {} publications, {} commands, {} roots, longest chain {}",
            count(metrics.publications),
            count(metrics.commands),
            count(metrics.roots),
            metrics.max_chain
        )?;
        writeln!(
            out,
            "            {} cancelled, {} refused, {} faults",
            count(metrics.cancelled),
            count(metrics.refused),
            metrics.faults
        )?;
        writeln!(out, "digest      {:016x}", self.digest)
    }

    fn write_rounds(&self, out: &mut String) -> std::fmt::Result {
        if self.tally.rounds.is_empty() {
            return writeln!(out, "no trade was closed\n");
        }
        writeln!(out, "bought                      sold                             gain")?;
        for round in &self.tally.rounds {
            let (opened, closed) = (Date::at(round.opened_ns), Date::at(round.closed_ns));
            let (bought, sold) = (round.bought.to_string(), round.sold.to_string());
            writeln!(out, "{opened} {bought:>15}  {closed} {sold:>15} {:>15}", round.gain.to_string())?;
        }
        match self.closed_trades.saturating_sub(self.tally.rounds.len() as u64) {
            0 => writeln!(out),
            more => writeln!(out, "and {} before\n", count(more)),
        }
    }
}

/// Draws the course of the gain.
fn plot(out: &mut String, course: &[f64]) -> std::fmt::Result {
    if course.len() < 2 {
        return Ok(());
    }
    let width = WIDTH.min(course.len());
    let at = |column: usize| course[column * (course.len() - 1) / (width - 1).max(1)];
    let points: Vec<f64> = (0..width).map(at).collect();
    let high = points.iter().copied().fold(f64::MIN, f64::max);
    let low = points.iter().copied().fold(f64::MAX, f64::min);
    let step = ((high - low) / (HEIGHT - 1) as f64).max(f64::MIN_POSITIVE);
    let row_of = |gain: f64| ((high - gain) / step).round() as usize;
    for row in 0..HEIGHT {
        let label = high - step * row as f64;
        let line: String =
            points.iter().map(|&gain| if row_of(gain).min(HEIGHT - 1) == row { '•' } else { ' ' }).collect();
        writeln!(out, "{label:>10.2} │{}", line.trim_end())?;
    }
    writeln!(out, "{:>10} └{}\n", "", "─".repeat(width))
}

/// A number with commas between its thousands.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_is_drawn_from_its_highest_to_its_lowest_point() {
        let mut out = String::new();
        plot(&mut out, &[0.0, 5.0, 9.0]).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "      9.00 │  •");
        assert_eq!(lines[4], "      5.00 │ •");
        assert_eq!(lines[9], "      0.00 │•");
        plot(&mut out, &[1.0, 1.0]).unwrap();
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
