//! Dates of the common calendar, from 1970 on, as days.

use std::fmt;

const DAY_NS: u64 = 86_400_000_000_000;
/// Days that a clock of nanoseconds in 64 bits can count.
const DAYS_MAX: u64 = u64::MAX / DAY_NS;

/// A day, counted from 1 January 1970.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Date(u64);

impl Date {
    /// Reads `month/day/year` or `year-month-day`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts =
            |sign| text.split(sign).map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<u64>>>();
        match (parts('/').as_deref(), parts('-').as_deref()) {
            (Some(&[month, day, year]), _) | (_, Some(&[year, month, day])) => Self::of(year, month, day),
            _ => None,
        }
    }

    /// The day of that date, if there is one.
    fn of(year: u64, month: u64, day: u64) -> Option<Self> {
        if !(1970..=9999).contains(&year)
            || !(1..=12).contains(&month)
            || day == 0
            || day > length(year, month)
        {
            return None;
        }
        let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
        let months: u64 = (1..month).map(|month| length(year, month)).sum();
        Some(Self(years + months + day - 1)).filter(|date| date.0 < DAYS_MAX)
    }

    /// The day of an instant.
    pub(crate) fn at(time_ns: u64) -> Self {
        Self(time_ns / DAY_NS)
    }

    /// The beginning of the day, in nanoseconds.
    pub(crate) fn time_ns(self) -> u64 {
        self.0 * DAY_NS
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut days, mut year, mut month) = (self.0, 1970, 1);
        while days >= 365 + u64::from(is_leap(year)) {
            days -= 365 + u64::from(is_leap(year));
            year += 1;
        }
        while days >= length(year, month) {
            days -= length(year, month);
            month += 1;
        }
        write!(f, "{year:04}-{month:02}-{:02}", days + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_a_date_are_read() {
        assert_eq!(Date::parse("1/1/1970"), Some(Date(0)));
        assert_eq!(Date::parse("1999-01-04"), Date::parse("1/4/1999"));
        assert_eq!(Date::parse("1/4/1999").unwrap().to_string(), "1999-01-04");
        assert_eq!(Date::parse("12/31/2018").unwrap(), Date(17_896));
        assert_eq!(Date::parse("2/29/2000").unwrap().to_string(), "2000-02-29");
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "1/2",
            "2/29/1999",
            "2/29/1900",
            "13/1/1999",
            "0/1/1999",
            "1/1/1969",
            "1/1/9999",
            "a/b/c",
            "-1/1/1999",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }
}
