//! Turns one record into one flight, by the names in the header.

use std::io::BufRead;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::error::{Excerpt, Fault, Problem};
use super::records::Records;
use super::{Airport, Fate, Flight};

/// The longest value of a needed column, in bytes.
const VALUE_BYTES_MAX: usize = 255;

/// A column that the job needs.
#[derive(Clone, Copy)]
enum Column {
    Year,
    Month,
    Day,
    DepTime,
    SchedDepTime,
    DepDelay,
    ArrTime,
    ArrDelay,
    Carrier,
    Flight,
    Tailnum,
    Origin,
    Dest,
}

/// Every needed column with its name, in the order of the enum.
const COLUMNS: [(Column, &str); 13] = [
    (Column::Year, "year"),
    (Column::Month, "month"),
    (Column::Day, "day"),
    (Column::DepTime, "dep_time"),
    (Column::SchedDepTime, "sched_dep_time"),
    (Column::DepDelay, "dep_delay"),
    (Column::ArrTime, "arr_time"),
    (Column::ArrDelay, "arr_delay"),
    (Column::Carrier, "carrier"),
    (Column::Flight, "flight"),
    (Column::Tailnum, "tailnum"),
    (Column::Origin, "origin"),
    (Column::Dest, "dest"),
];

impl Column {
    fn name(self) -> &'static str {
        COLUMNS[self as usize].1
    }
}

/// Where the needed columns stand in a file.
pub(super) struct Header {
    places: [usize; COLUMNS.len()],
    width: usize,
}

impl Header {
    /// Reads the header from the current record.
    pub(super) fn read<R: BufRead>(records: &Records<R>) -> Result<Self, Fault> {
        let names: Vec<&[u8]> = (0..records.len()).map(|at| records.field(at).trim_ascii()).collect();
        if names.iter().any(|name| name.contains(&0)) {
            return Err(Fault::NotCsv("the first line holds binary data"));
        }
        let mut places = [0; COLUMNS.len()];
        let mut missing = Vec::new();
        for (column, name) in COLUMNS {
            let mut found = (0..names.len()).filter(|&at| names[at] == name.as_bytes());
            match (found.next(), found.next()) {
                (Some(place), None) => places[column as usize] = place,
                (Some(_), Some(_)) => return Err(Fault::ColumnTwice { line: records.line(), column: name }),
                (None, _) => missing.push(name),
            }
        }
        match missing.len() {
            0 => Ok(Self { places, width: names.len() }),
            all if all == COLUMNS.len() => Err(Fault::NotCsv("the first line names none of the columns")),
            _ => Err(Fault::MissingColumns { line: records.line(), columns: missing }),
        }
    }

    /// Reads a flight from the current record.
    pub(super) fn flight<R: BufRead>(&self, records: &Records<R>) -> Result<Flight, Fault> {
        if records.len() != self.width {
            let (line, found) = (records.line(), records.len());
            return Err(Fault::FieldCount { line, found, expected: self.width });
        }
        Row { header: self, records }.flight()
    }
}

struct Row<'a, R> {
    header: &'a Header,
    records: &'a Records<R>,
}

impl<R: BufRead> Row<'_, R> {
    fn flight(&self) -> Result<Flight, Fault> {
        self.check_unused()?;
        let origin = self.airport(Column::Origin)?;
        let destination = self.airport(Column::Dest)?;
        let fate = self.fate()?;
        if matches!(fate, Fate::Departed { arr_delay: None, .. }) && origin == destination {
            return Err(self.fault(Column::Dest, Problem::Nowhere));
        }
        let release_min = self.release_min(&fate)?;
        Ok(Flight { line: self.records.line(), origin, destination, release_min, fate })
    }

    /// The scheduled time plus the delay of those that left; what is missing counts as nothing.
    fn release_min(&self, fate: &Fate) -> Result<i64, Fault> {
        let part = |column, range, kind| Ok(i64::from(self.number(column, range, kind)?.unwrap_or(1)));
        let year = part(Column::Year, 1..=9999, "a year")?;
        let month = part(Column::Month, 1..=12, "a month from 1 to 12")?;
        let day = part(Column::Day, 1..=31, "a day from 1 to 31")?;
        let reading = i64::from(self.clock(Column::SchedDepTime)?.unwrap_or(0));
        let delay = match fate {
            Fate::Cancelled => 0,
            Fate::Departed { .. } => i64::from(self.minutes(Column::DepDelay)?.unwrap_or(0)),
        };
        Ok(days_since_1970(year, month, day) * 1440 + reading / 100 * 60 + reading % 100 + delay)
    }

    fn fate(&self) -> Result<Fate, Fault> {
        let departed = self.clock(Column::DepTime)?.is_some();
        let arr_delay = self.minutes(Column::ArrDelay)?;
        let tailnum = self.name(Column::Tailnum)?;
        match (departed, tailnum) {
            (false, _) => Ok(Fate::Cancelled),
            (true, Some(tailnum)) => Ok(Fate::Departed { tailnum: Arc::from(tailnum), arr_delay }),
            (true, None) => Err(self.fault(Column::Tailnum, Problem::Missing("a row with a dep_time"))),
        }
    }

    /// Looks at the columns that the job carries no further: a bad value there is a bad file all the same.
    fn check_unused(&self) -> Result<(), Fault> {
        self.required(Column::Year, self.number(Column::Year, 1..=9999, "a year")?)?;
        self.required(Column::Month, self.number(Column::Month, 1..=12, "a month from 1 to 12")?)?;
        self.required(Column::Day, self.number(Column::Day, 1..=31, "a day from 1 to 31")?)?;
        self.required(Column::Flight, self.number(Column::Flight, 0..=i32::MAX, "a flight number")?)?;
        self.required(Column::Carrier, self.name(Column::Carrier)?)?;
        self.clock(Column::SchedDepTime)?;
        self.clock(Column::ArrTime)?;
        self.minutes(Column::DepDelay)?;
        Ok(())
    }

    fn airport(&self, column: Column) -> Result<Airport, Fault> {
        let code = self.required(column, self.text(column)?)?;
        Airport::new(code).ok_or_else(|| self.fault(column, Problem::Code))
    }

    fn name(&self, column: Column) -> Result<Option<&str>, Fault> {
        match self.text(column)? {
            Some(name) if name.contains(char::is_control) => Err(self.fault(column, Problem::Name)),
            name => Ok(name),
        }
    }

    fn minutes(&self, column: Column) -> Result<Option<i32>, Fault> {
        self.number(column, i32::MIN..=i32::MAX, "a whole number of minutes")
    }

    /// A clock reading such as `517` for 05:17.
    fn clock(&self, column: Column) -> Result<Option<i32>, Fault> {
        const KIND: &str = "a clock reading such as 517 or 2359";
        match self.number(column, 0..=2400, KIND)? {
            Some(reading) if reading % 100 > 59 => Err(self.fault(column, Problem::Number(KIND))),
            reading => Ok(reading),
        }
    }

    fn number(
        &self,
        column: Column,
        range: RangeInclusive<i32>,
        kind: &'static str,
    ) -> Result<Option<i32>, Fault> {
        let Some(text) = self.text(column)? else { return Ok(None) };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(self.fault(column, Problem::Number(kind))),
        }
    }

    /// The value without space around it; none if it is empty or `NA`.
    fn text(&self, column: Column) -> Result<Option<&str>, Fault> {
        let bytes = self.bytes(column).trim_ascii();
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(self.fault(column, Problem::TooLong(bytes.len())));
        }
        match str::from_utf8(bytes) {
            Ok("" | "NA") => Ok(None),
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(self.fault(column, Problem::Encoding)),
        }
    }

    fn required<T>(&self, column: Column, value: Option<T>) -> Result<T, Fault> {
        value.ok_or_else(|| self.fault(column, Problem::Missing("every row")))
    }

    fn bytes(&self, column: Column) -> &[u8] {
        self.records.field(self.header.places[column as usize])
    }

    fn fault(&self, column: Column, problem: Problem) -> Fault {
        let value = Excerpt::of(self.bytes(column));
        Fault::Value { line: self.records.line(), column: column.name(), value, problem }
    }
}

/// Days from 1 January 1970 to a date of the Gregorian calendar, after Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms" (2013): years begin in March, so that the leap day is their last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::days_since_1970;

    #[test]
    fn days_are_counted_over_leap_years_and_centuries() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((1970, 3, 1), 59),
            ((1969, 12, 31), -1),
            ((2000, 2, 29), 11_016),
            ((2013, 1, 1), 15_706),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }
}
