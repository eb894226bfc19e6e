//! The grammar of rates, shares and times: the only place that reads and writes them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use leaparray::flow::shadow::Share;
use leaparray::flow::{Rate, RateError};

/// A number of requests in an interval, such as `1000 per second`.
///
/// The interval is `second`, `minute`, `hour`, `day`, or a time such as `10s`. The number may have
/// underscores.
///
/// ```
/// use leaparray_rules::Per;
/// use std::time::Duration;
///
/// let per: Per = "1_000 per 10s".parse()?;
/// assert_eq!((per.count, per.interval), (1_000, Duration::from_secs(10)));
/// assert_eq!(per.to_string(), "1000 per 10s");
/// let error = "1000 per sec ond".parse::<Per>().unwrap_err();
/// assert_eq!(error.to_string(), "\"sec ond\" is no interval");
/// # Ok::<_, leaparray_rules::QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Per {
    /// The number of requests.
    pub count: u64,
    /// The interval.
    pub interval: Duration,
}

/// A share in percent, such as `50 %`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percent(pub(crate) f64);

/// A time, such as `5s` or `1m 30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

/// The part of a text that is no quantity, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuantityError {
    /// The part that was found.
    pub found: String,
    /// The quantity that it should be.
    pub expected: &'static str,
}

/// The intervals that have a name.
const NAMED: [(&str, u64); 4] = [("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400)];

impl QuantityError {
    pub(crate) fn new(found: &str, expected: &'static str) -> Self {
        Self { found: found.trim().to_owned(), expected }
    }
}

impl Per {
    /// Returns the rate of a bucket, or why there is none.
    pub(crate) fn rate(self) -> Result<Rate, RateError> {
        Rate::new(self.count, self.interval)
    }

    /// Returns the slower one of two rates.
    pub(crate) fn slower(self, other: Self) -> Self {
        let weight = |it: Self, over: Self| u128::from(it.count) * over.interval.as_nanos();
        if weight(self, other) <= weight(other, self) { self } else { other }
    }
}

impl Percent {
    /// Returns the nearest share in parts of a million.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 10⁶")]
    pub(crate) fn share(self) -> Share {
        Share::per_million((self.0 * 10_000.0).round() as u32).unwrap_or(Share::ALL)
    }
}

/// Reads a number, which may have underscores between its digits.
pub(crate) fn number(text: &str) -> Result<u64, QuantityError> {
    let text = text.trim();
    let is_number = text.starts_with(|it: char| it.is_ascii_digit())
        && text.bytes().all(|it| it.is_ascii_digit() || it == b'_');
    let digits: String = text.chars().filter(|it| *it != '_').collect();
    let number = if is_number { digits.parse().ok() } else { None };
    number.ok_or_else(|| QuantityError::new(text, "whole number"))
}

impl FromStr for Per {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (count, interval) =
            text.split_once(" per ").ok_or_else(|| QuantityError::new(text, "rate"))?;
        let interval = interval.trim();
        let named = NAMED.into_iter().find(|(name, _)| *name == interval);
        let interval = match named {
            Some((_, seconds)) => Duration::from_secs(seconds),
            None => match interval.parse() {
                Ok(Time(interval)) if !interval.is_zero() => interval,
                _ => return Err(QuantityError::new(interval, "interval")),
            },
        };
        Ok(Self { count: number(count)?, interval })
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, interval } = *self;
        match NAMED.into_iter().find(|(_, seconds)| Duration::from_secs(*seconds) == interval) {
            Some((name, _)) => write!(f, "{count} per {name}"),
            None => write!(f, "{count} per {}", Time(interval)),
        }
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let time = humantime::parse_duration(text.trim());
        time.map(Self).map_err(|_| QuantityError::new(text, "time"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl FromStr for Percent {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let number = text.trim().strip_suffix('%').and_then(|it| it.trim_end().parse().ok());
        let percent = number.filter(|it| (0.0..=100.0).contains(it));
        percent.map(Self).ok_or_else(|| QuantityError::new(text, "share from 0 % to 100 %"))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no {}", self.found, self.expected)
    }
}

impl std::error::Error for QuantityError {}
