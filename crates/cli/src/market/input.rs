//! Reads daily bars from a CSV file, plain or gzipped, one row at a time and within fixed memory.

use std::fmt;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use turnkeep::market::{Bar, Price, Quantity, Symbol, decimal};

use super::date::Date;
use crate::flights::input::records::Records;
use crate::flights::input::{Excerpt, Fault, open_records, stop_fault};

/// The columns that are read, in the order of their use.
const COLUMNS: [&str; 6] = ["Date", "Open", "High", "Low", "Close", "Volume"];

/// A file that cannot be used; the text names the place, `help` the way out.
#[derive(Debug)]
pub(crate) struct BadFile {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The file itself, as for every CSV file.
    File(Fault),
    /// Nothing but a header.
    NoBars,
    /// One value.
    Value { line: u64, column: &'static str, value: Excerpt, problem: Problem },
}

/// What is wrong with one value.
#[derive(Debug)]
enum Problem {
    Missing,
    Date,
    Number,
    Price,
    Volume,
    /// High or low do not enclose the other prices.
    Range,
    /// Not after the bar before, which was of that date.
    Unordered(Date),
    Duplicate,
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.kind {
            Kind::File(fault) => fault.fmt(f),
            Kind::NoBars => f.write_str("has a header and no bars"),
            Kind::Value { line, column, value, problem } => {
                write!(f, "line {line}, column {column}: {value} ")?;
                match problem {
                    Problem::Missing => f.write_str("is no value, and every bar needs one"),
                    Problem::Date => f.write_str("is no date from 1970 on"),
                    Problem::Number => f.write_str("is no decimal number"),
                    Problem::Price => f.write_str("is no price: a price is more than zero"),
                    Problem::Volume => f.write_str("is no volume: a volume is zero or more"),
                    Problem::Range => f.write_str("does not enclose the bar's other prices"),
                    Problem::Unordered(before) => write!(f, "comes after {before}: bars must rise in time"),
                    Problem::Duplicate => f.write_str("has a bar already"),
                }
            }
        }
    }
}

impl BadFile {
    /// What the user can do.
    pub(crate) fn help(&self) -> &'static str {
        match &self.kind {
            Kind::File(Fault::NotFound) => {
                "name a CSV file of daily bars; without a name, run inside the project"
            }
            Kind::File(fault) => fault.help(),
            Kind::NoBars => "add a row a day: Date,Open,High,Low,Close,Volume",
            Kind::Value { problem, .. } => match problem {
                Problem::Missing => "fill the value in, or remove the row",
                Problem::Date => "write month/day/year, such as 1/4/1999, or 1999-01-04",
                Problem::Number => "write digits with a decimal point and no other signs, at most 28 digits",
                Problem::Price => "correct the price, or remove the row",
                Problem::Volume => "correct the volume, or write 0 if it is unknown",
                Problem::Range => "look for columns that have changed places",
                Problem::Unordered(_) => "sort the rows by date, oldest first",
                Problem::Duplicate => "remove one of the two rows",
            },
        }
    }
}

/// The bars of a file in its order; the first error is the last item.
pub(crate) struct Bars {
    path: PathBuf,
    symbol: Symbol,
    records: Records<Box<dyn BufRead + Send>>,
    gzip: bool,
    /// Where each column stands, and how many there are.
    places: [usize; COLUMNS.len()],
    width: usize,
    /// The date of the bar before.
    before: Option<Date>,
    over: bool,
}

impl Bars {
    /// Opens the file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Self, BadFile> {
        let bad = |fault| BadFile { path: path.into(), kind: Kind::File(fault) };
        let (records, gzip) = open_records(path).map_err(bad)?;
        let (places, width) = header(&records).map_err(bad)?;
        let symbol = symbol(path);
        Ok(Self { path: path.into(), symbol, records, gzip, places, width, before: None, over: false })
    }

    /// The name that the file gives its instrument.
    pub(crate) fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    fn read(&mut self) -> Result<Option<Bar>, Kind> {
        let more = self.records.advance();
        let line = self.records.line();
        if !more.map_err(|stop| Kind::File(stop_fault(stop, self.gzip, line)))? {
            return if self.before.is_none() { Err(Kind::NoBars) } else { Ok(None) };
        }
        let found = self.records.len();
        if found != self.width {
            return Err(Kind::File(Fault::FieldCount { line, found, expected: self.width }));
        }
        let date = self.date()?;
        let [open, high, low, close] = [self.price(1)?, self.price(2)?, self.price(3)?, self.price(4)?];
        if high < open.max(close).max(low) {
            return Err(self.fault(2, Problem::Range));
        }
        if low > open.min(close) {
            return Err(self.fault(3, Problem::Range));
        }
        let volume = self.volume()?;
        self.before = Some(date);
        let (symbol, time_ns) = (self.symbol.clone(), date.time_ns());
        Ok(Some(Bar { symbol, time_ns, open, high, low, close, volume }))
    }

    fn date(&self) -> Result<Date, Kind> {
        let date = Date::parse(self.text(0)?).ok_or_else(|| self.fault(0, Problem::Date))?;
        match self.before {
            Some(before) if date == before => Err(self.fault(0, Problem::Duplicate)),
            Some(before) if date < before => Err(self.fault(0, Problem::Unordered(before))),
            _ => Ok(date),
        }
    }

    fn price(&self, column: usize) -> Result<Price, Kind> {
        let number = decimal(self.text(column)?).map_err(|_| self.fault(column, Problem::Number))?;
        Price::new(number).map_err(|_| self.fault(column, Problem::Price))
    }

    fn volume(&self) -> Result<Quantity, Kind> {
        let number = decimal(self.text(5)?).map_err(|_| self.fault(5, Problem::Number))?;
        Quantity::new(number).map_err(|_| self.fault(5, Problem::Volume))
    }

    /// The value without space around it.
    fn text(&self, column: usize) -> Result<&str, Kind> {
        match str::from_utf8(self.bytes(column).trim_ascii()) {
            Ok("") => Err(self.fault(column, Problem::Missing)),
            Ok(text) => Ok(text),
            Err(_) => Err(self.fault(column, Problem::Number)),
        }
    }

    fn bytes(&self, column: usize) -> &[u8] {
        self.records.field(self.places[column])
    }

    fn fault(&self, column: usize, problem: Problem) -> Kind {
        let value = Excerpt::of(self.bytes(column));
        Kind::Value { line: self.records.line(), column: COLUMNS[column], value, problem }
    }
}

impl Iterator for Bars {
    type Item = Result<Bar, BadFile>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let read = self.read();
        self.over = !matches!(read, Ok(Some(_)));
        read.map_err(|kind| BadFile { path: self.path.clone(), kind }).transpose()
    }
}

fn header<R: BufRead>(records: &Records<R>) -> Result<([usize; COLUMNS.len()], usize), Fault> {
    let line = records.line();
    let names: Vec<&[u8]> = (0..records.len()).map(|at| records.field(at).trim_ascii()).collect();
    if names.iter().any(|name| name.contains(&0)) {
        return Err(Fault::NotCsv("the first line holds binary data"));
    }
    let mut places = [0; COLUMNS.len()];
    let mut missing = Vec::new();
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let mut found = (0..names.len()).filter(|&at| names[at] == column.as_bytes());
        match (found.next(), found.next()) {
            (Some(at), None) => *place = at,
            (Some(_), Some(_)) => return Err(Fault::ColumnTwice { line, column }),
            (None, _) => missing.push(column),
        }
    }
    match missing.len() {
        0 => Ok((places, names.len())),
        all if all == COLUMNS.len() => Err(Fault::NotCsv("the first line names none of the columns")),
        _ => Err(Fault::MissingColumns { line, columns: missing }),
    }
}

/// The start of the file's name, up to the first sign that a name cannot have.
fn symbol(path: &Path) -> Symbol {
    let stem = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    let name = stem.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    Symbol::new(name).or_else(|_| Symbol::new("INDEX")).unwrap_or_else(|_| unreachable!("INDEX is a symbol"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbol_is_the_start_of_the_files_name() {
        assert_eq!(symbol(Path::new("data/sp500-daily-1999-2018.csv.gz")).as_str(), "SP500");
        assert_eq!(symbol(Path::new("data/-.csv")).as_str(), "INDEX");
    }
}
