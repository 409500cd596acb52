//! Numbers and durations as people read them.

use std::time::Duration;

/// A count with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A sum that may be below zero, with a comma between thousands.
pub(crate) fn grouped_signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

/// A duration in the unit that gives it one to three digits before the point.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (number, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    if number < 10.0 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let texts = [0, 7, 999, 1_000, 27_004, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "7", "999", "1,000", "27,004", "1,234,567"]);
        assert_eq!([-161_819, 12].map(grouped_signed), ["-161,819", "12"]);
        assert_eq!(grouped_signed(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn durations_find_their_unit() {
        let texts = [0, 850, 1_500, 42_000, 7_250_000, 1_900_000_000, 61_000_000_000]
            .map(|nanos| duration(Duration::from_nanos(nanos)));
        assert_eq!(texts, ["0.0 ns", "850 ns", "1.5 µs", "42 µs", "7.2 ms", "1.9 s", "61 s"]);
    }
}
