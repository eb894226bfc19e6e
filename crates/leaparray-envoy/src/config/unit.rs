//! The units of time.

use std::fmt;
use std::time::Duration;

/// The unit of time of a limit: "n per unit" is n in any interval of this length.
///
/// ```
/// use leaparray_envoy::config::Unit;
/// use std::time::Duration;
///
/// assert_eq!(Unit::parse("MINUTE"), Some(Unit::Minute));
/// assert_eq!(Unit::Minute.interval(), Duration::from_secs(60));
/// assert_eq!(Unit::from_number(7), Some(Unit::Week));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// 24 hours.
    Day,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
    /// 7 days.
    Week,
}

impl Unit {
    /// All units, in the order of their [numbers](Self::number).
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Year, Self::Week];

    /// Returns the number of the unit in the protocol: `RateLimitResponse.RateLimit.Unit`, and
    /// `RateLimitUnit`, in which weeks are missing.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32 + 1
    }

    /// Returns the unit with that [number](Self::number); `None` for 0, which is no unit, and for
    /// a number that is not known.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        Self::ALL.get(index).copied()
    }

    /// Returns the unit with that name, in upper or lower case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Year => "year",
            Self::Week => "week",
        }
    }

    /// Returns the length.
    #[must_use]
    pub const fn interval(self) -> Duration {
        const DAY: u64 = 24 * 60 * 60;
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 60 * 60,
            Self::Day => DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
            Self::Week => 7 * DAY,
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
