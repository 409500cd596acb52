//! Prices, quantities and names, exact in every digit.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use rust_decimal::Decimal;

/// The name of an instrument. Copies share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(Arc<str>);

/// Why a text or a number is no value of that kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// A symbol is one part of a topic.
    #[error("{text:?} is no symbol; write letters, digits and signs without dots, spaces, * and ?")]
    Symbol {
        /// The text.
        text: String,
    },
    /// A text that is no decimal number of at most 28 digits.
    #[error("{text:?} is no decimal number of at most 28 digits")]
    Number {
        /// The text.
        text: String,
    },
    /// A price is more than zero.
    #[error("{value} is no price; a price is more than zero")]
    Price {
        /// The number.
        value: Decimal,
    },
    /// A quantity is zero or more.
    #[error("{value} is no quantity; a quantity is zero or more")]
    Quantity {
        /// The number.
        value: Decimal,
    },
}

impl Symbol {
    /// A symbol.
    ///
    /// # Errors
    ///
    /// The text is empty or could not be a part of a topic.
    pub fn new(text: &str) -> Result<Self, ValueError> {
        let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '.' | '*' | '?');
        if text.is_empty() || text.contains(bad) {
            return Err(ValueError::Symbol { text: text.into() });
        }
        Ok(Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A price: an exact decimal of more than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(Decimal);

/// A quantity: an exact decimal of zero or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity(Decimal);

impl Price {
    /// A price.
    ///
    /// # Errors
    ///
    /// The number is zero or less.
    pub fn new(value: Decimal) -> Result<Self, ValueError> {
        if value > Decimal::ZERO { Ok(Self(value)) } else { Err(ValueError::Price { value }) }
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> Decimal {
        self.0
    }

    /// The price so much higher or lower, if it is one.
    #[must_use]
    pub fn plus(self, change: Decimal) -> Option<Self> {
        Self::new(self.0.checked_add(change)?).ok()
    }
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(Decimal::ZERO);
    /// One unit.
    pub const ONE: Self = Self(Decimal::ONE);

    /// A quantity.
    ///
    /// # Errors
    ///
    /// The number is less than zero.
    pub fn new(value: Decimal) -> Result<Self, ValueError> {
        if value >= Decimal::ZERO { Ok(Self(value)) } else { Err(ValueError::Quantity { value }) }
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> Decimal {
        self.0
    }

    /// What is left after taking another away; nothing if that is more.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self((self.0 - other.0).max(Decimal::ZERO))
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

/// Reads a decimal number exactly.
///
/// # Errors
///
/// The text is none, or has more digits than can be kept.
pub fn decimal(text: &str) -> Result<Decimal, ValueError> {
    Decimal::from_str_exact(text).map_err(|_| ValueError::Number { text: text.into() })
}

impl FromStr for Price {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::new(decimal(text)?)
    }
}

impl FromStr for Quantity {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::new(decimal(text)?)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Appends a number for a log: the same for equal numbers however many zeros they end in.
pub(crate) fn record(out: &mut Vec<u8>, value: Decimal) {
    let value = value.normalize();
    out.extend_from_slice(&value.mantissa().to_le_bytes());
    out.push(value.scale() as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_value_is_refused() {
        assert!(Symbol::new("SPX").is_ok());
        for text in ["", "A.B", "A B", "A*", "?"] {
            assert!(Symbol::new(text).is_err(), "{text}");
        }
        assert!("0".parse::<Price>().is_err() && "-1.5".parse::<Price>().is_err());
        assert!("x".parse::<Price>().is_err() && "1e3".parse::<Price>().is_err());
        assert!("0".parse::<Quantity>().is_ok() && "-1".parse::<Quantity>().is_err());
    }

    #[test]
    fn decimals_stay_exact_and_records_do_not_depend_on_zeros() {
        let sum: Decimal = (0..10).map(|_| decimal("0.1").unwrap()).sum();
        assert_eq!(sum, Decimal::ONE);
        let (mut long, mut short) = (Vec::new(), Vec::new());
        record(&mut long, decimal("1.500").unwrap());
        record(&mut short, decimal("1.5").unwrap());
        assert_eq!(long, short);
    }
}
