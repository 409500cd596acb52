//! Indicators: numbers that follow a price, updated by maintenance before author code runs.

use std::fmt;

use yata::core::Window;
use yata::core::{Method, PeriodType};
use yata::methods::{EMA, SMA};

use crate::value::{Decimal, Price};

/// Why an indicator was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a period of {period} is none; give it 1 to {PERIOD_MAX}")]
pub struct BadPeriod {
    /// The period.
    pub period: usize,
}

/// The longest period of an indicator.
pub const PERIOD_MAX: usize = 1_000_000;

fn checked(period: usize) -> Result<PeriodType, BadPeriod> {
    if (1..=PERIOD_MAX).contains(&period) {
        PeriodType::try_from(period).map_err(|_| BadPeriod { period })
    } else {
        Err(BadPeriod { period })
    }
}

/// The plain average of the last prices, in exact decimals: two averages that are equal on paper are equal here, and
/// no rounding makes a crossing that is not there.
#[derive(Clone)]
pub struct Average {
    period: PeriodType,
    /// Made at the first price.
    window: Option<Window<Decimal>>,
    /// Prices so far, up to the period.
    seen: PeriodType,
    /// The sum of the prices in the window.
    sum: Decimal,
}

impl fmt::Debug for Average {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Average")
            .field("period", &self.period)
            .field("sum", &self.sum())
            .finish_non_exhaustive()
    }
}

impl Average {
    /// An average over so many prices.
    ///
    /// # Errors
    ///
    /// The period is zero or more than [`PERIOD_MAX`].
    pub fn new(period: usize) -> Result<Self, BadPeriod> {
        Ok(Self { period: checked(period)?, window: None, seen: 0, sum: Decimal::ZERO })
    }

    /// Takes a price in.
    pub fn update(&mut self, price: Price) {
        let window = self.window.get_or_insert_with(|| Window::new(self.period, Decimal::ZERO));
        self.sum += price.value() - window.push(price.value());
        self.seen = (self.seen + 1).min(self.period);
    }

    /// The sum of the last prices, once there are as many as the period.
    #[must_use]
    pub fn sum(&self) -> Option<Decimal> {
        (self.seen == self.period).then_some(self.sum)
    }

    /// The average, once there are as many prices as the period; rounded if it has more than 28 digits.
    #[must_use]
    pub fn value(&self) -> Option<Decimal> {
        self.sum().map(|sum| sum / Decimal::from(self.period))
    }

    /// How this average compares with another one, once both exist; exact, because sums are compared and not quotients.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let own = self.sum()?.checked_mul(Decimal::from(other.period))?;
        let other = other.sum()?.checked_mul(Decimal::from(self.period))?;
        Some(own.cmp(&other))
    }
}

/// The exponential average of prices, in floating point.
#[derive(Clone, Debug)]
pub struct Exponential {
    period: PeriodType,
    /// Made at the first price.
    method: Option<EMA>,
    /// Prices so far, up to the period.
    seen: PeriodType,
    value: f64,
}

impl Exponential {
    /// An average that gives old prices less and less weight.
    ///
    /// # Errors
    ///
    /// As [`Average::new`].
    pub fn new(period: usize) -> Result<Self, BadPeriod> {
        Ok(Self { period: checked(period)?, method: None, seen: 0, value: 0.0 })
    }

    /// Takes a price in.
    pub fn update(&mut self, price: Price) {
        let price = float(price);
        if self.method.is_none() {
            self.method = EMA::new(self.period, &price).ok();
        }
        if let Some(method) = &mut self.method {
            self.value = method.next(&price);
        }
        self.seen = (self.seen + 1).min(self.period);
    }

    /// The average, once there are as many prices as the period.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.seen == self.period).then_some(self.value)
    }
}

/// The plain average in floating point, for what needs no exactness.
#[derive(Clone, Debug)]
pub struct Rough {
    period: PeriodType,
    method: Option<SMA>,
    seen: PeriodType,
    value: f64,
}

impl Rough {
    /// A plain average.
    ///
    /// # Errors
    ///
    /// As [`Average::new`].
    pub fn new(period: usize) -> Result<Self, BadPeriod> {
        Ok(Self { period: checked(period)?, method: None, seen: 0, value: 0.0 })
    }

    /// Takes a price in.
    pub fn update(&mut self, price: Price) {
        let price = float(price);
        if self.method.is_none() {
            self.method = SMA::new(self.period, &price).ok();
        }
        if let Some(method) = &mut self.method {
            self.value = method.next(&price);
        }
        self.seen = (self.seen + 1).min(self.period);
    }

    /// The average, once there are as many prices as the period.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.seen == self.period).then_some(self.value)
    }
}

fn float(price: Price) -> f64 {
    use rust_decimal::prelude::ToPrimitive;
    price.value().to_f64().unwrap_or(f64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    fn price(text: &str) -> Price {
        text.parse().unwrap()
    }

    #[test]
    fn an_average_exists_from_its_period_on_and_forgets() {
        let mut average = Average::new(2).unwrap();
        average.update(price("1"));
        assert_eq!(average.value(), None);
        average.update(price("2"));
        assert_eq!(average.value(), Some(Decimal::new(15, 1)));
        average.update(price("4"));
        assert_eq!(average.value(), Some(Decimal::from(3)));
    }

    #[test]
    fn equal_averages_are_equal_whatever_their_periods() {
        let (mut two, mut three) = (Average::new(2).unwrap(), Average::new(3).unwrap());
        for _ in 0..1000 {
            two.update(price("0.1"));
            three.update(price("0.1"));
        }
        assert_eq!(two.compare(&three), Some(Ordering::Equal));
        two.update(price("0.2"));
        three.update(price("0.2"));
        assert_eq!(two.compare(&three), Some(Ordering::Greater));
    }

    #[test]
    fn floating_averages_agree_with_the_exact_one() {
        let (mut exact, mut rough) = (Average::new(5).unwrap(), Rough::new(5).unwrap());
        let mut exponential = Exponential::new(5).unwrap();
        for step in 1..50_u32 {
            let price = Price::new(Decimal::from(step)).unwrap();
            exact.update(price);
            rough.update(price);
            exponential.update(price);
        }
        assert_eq!(exact.value(), Some(Decimal::from(47)));
        assert!((rough.value().unwrap() - 47.0).abs() < 1e-9);
        assert!((exponential.value().unwrap() - 47.0).abs() < 0.01);
    }

    #[test]
    fn a_period_of_nothing_is_refused() {
        assert!(Average::new(0).is_err() && Exponential::new(PERIOD_MAX + 1).is_err());
    }
}
