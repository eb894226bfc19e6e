//! The unit of time of the whole crate.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use super::decimal_seconds::{self, DecimalSeconds, Malformed};
use super::error::ParseTimestampError;

/// A point in time: whole nanoseconds since the Unix epoch, on a monotonic timeline.
///
/// A newtype, so that units cannot be confused. It spans the years 1970 to 2554; arithmetic
/// saturates at both ends instead of wrapping or panicking.
///
/// With the feature `serde`, it is [serialized](crate::reference::serialized_times) as a string
/// of seconds in formats for people, such as JSON, and as an integer of nanoseconds in binary
/// formats.
///
/// ```
/// use leaparray::Timestamp;
/// use std::time::Duration;
///
/// let t = Timestamp::from_millis(1_500);
/// assert_eq!(t.as_nanos(), 1_500_000_000);
/// assert_eq!(t.saturating_add(Duration::from_millis(500)), Timestamp::from_secs(2));
/// assert_eq!(t.saturating_since(Timestamp::from_secs(1)), Duration::from_millis(500));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch, 0 ns.
    pub const MIN: Self = Self(0);
    /// The last representable instant, `u64::MAX` ns.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the Unix epoch.
    #[must_use]
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the instant `micros` microseconds after the Unix epoch, at most [`Timestamp::MAX`].
    #[must_use]
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns the instant `millis` milliseconds after the Unix epoch, at most [`Timestamp::MAX`].
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the instant `secs` seconds after the Unix epoch, at most [`Timestamp::MAX`].
    #[must_use]
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the instant of a system time, rounded down to the nanosecond: at least
    /// [`Timestamp::MIN`] and at most [`Timestamp::MAX`].
    ///
    /// Leap seconds are not counted, as in a [`SystemTime`].
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
    /// assert_eq!(Timestamp::from_system_time(time), Timestamp::from_millis(1_500));
    /// assert_eq!(SystemTime::from(Timestamp::from_millis(1_500)), time);
    /// ```
    #[must_use]
    pub fn from_system_time(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(saturating_nanos(since_epoch))
    }

    /// Returns the nanoseconds since the Unix epoch.
    #[must_use]
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the whole microseconds since the Unix epoch, rounded down.
    #[must_use]
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the whole milliseconds since the Unix epoch, rounded down.
    #[must_use]
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the whole seconds since the Unix epoch, rounded down.
    #[must_use]
    #[inline]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Returns the instant `span` later, at most [`Timestamp::MAX`].
    #[must_use]
    #[inline]
    pub const fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(span)))
    }

    /// Returns the instant `span` earlier, at least [`Timestamp::MIN`].
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(span)))
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later than `self`.
    #[must_use]
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Timestamp> for SystemTime {
    /// Returns the system time of an instant, to the precision of the platform.
    fn from(time: Timestamp) -> Self {
        Self::UNIX_EPOCH + Duration::from_nanos(time.0)
    }
}

impl fmt::Display for Timestamp {
    /// Formats the time as seconds since the Unix epoch, with nine decimals:
    /// `1540629334.619000000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DecimalSeconds(self.0.into()).fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    /// Reads seconds since the Unix epoch, with nine decimals as in the [`Display`](fmt::Display)
    /// output, with fewer, or with none. The result is exact to the nanosecond.
    ///
    /// # Errors
    ///
    /// Returns a [`ParseTimestampError`] if the text is anything other than digits with at most one
    /// decimal point between them (a sign, a space or an exponent, for example), if it has more
    /// than nine decimals, or if the time is above [`Timestamp::MAX`].
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::time::ParseTimestampError;
    ///
    /// let time: Timestamp = "1540629334.619".parse()?;
    /// assert_eq!(time, Timestamp::from_millis(1_540_629_334_619));
    /// assert_eq!(time.to_string().parse(), Ok(time));
    ///
    /// let refused = "-1".parse::<Timestamp>();
    /// assert_eq!(refused, Err(ParseTimestampError::NotSeconds { text: "-1".to_owned() }));
    /// # Ok::<_, ParseTimestampError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        let above_max = || ParseTimestampError::AboveMax { text: text.to_owned() };
        match decimal_seconds::parse(text) {
            Ok(nanos) => u64::try_from(nanos).map(Self).map_err(|_| above_max()),
            Err(Malformed::TooLarge) => Err(above_max()),
            Err(Malformed::NotSeconds) => {
                Err(ParseTimestampError::NotSeconds { text: text.to_owned() })
            }
            Err(Malformed::TooManyDecimals) => {
                Err(ParseTimestampError::TooManyDecimals { text: text.to_owned() })
            }
        }
    }
}

/// Returns a span in nanoseconds, cut at `u64::MAX` (584 years).
#[inline]
pub(crate) const fn saturating_nanos(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000_000_000).saturating_add(span.subsec_nanos() as u64)
}

/// Returns a span of that many nanoseconds, cut at [`Duration::MAX`].
pub(crate) fn duration_of(nanos: u128) -> Duration {
    const NANOS_PER_SEC: u128 = 1_000_000_000;
    let subsec = u32::try_from(nanos % NANOS_PER_SEC).unwrap_or(0);
    u64::try_from(nanos / NANOS_PER_SEC).map_or(Duration::MAX, |secs| Duration::new(secs, subsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_down_and_saturate() {
        assert_eq!(Timestamp::from_nanos(1_999_999).as_millis(), 1);
        assert_eq!(Timestamp::from_micros(1_999).as_millis(), 1);
        assert_eq!(Timestamp::from_nanos(1_999).as_micros(), 1);
        assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_millis(1_999).as_secs(), 1);
        assert_eq!(Timestamp::from_millis(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_secs(u64::MAX), Timestamp::MAX);
    }

    #[test]
    fn system_times_are_cut_at_both_ends() {
        let epoch = SystemTime::UNIX_EPOCH;
        let time = Timestamp::from_nanos(1_600_000_000_123_456_700);
        assert_eq!(Timestamp::from_system_time(time.into()), time);
        assert_eq!(Timestamp::from_system_time(epoch), Timestamp::MIN);
        assert_eq!(Timestamp::from_system_time(epoch - Duration::from_secs(1)), Timestamp::MIN);
        let end = Duration::from_nanos(u64::MAX);
        assert_eq!(SystemTime::from(Timestamp::MIN), epoch);
        assert_eq!(Timestamp::from_system_time(epoch + end + end), Timestamp::MAX);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let hour = Duration::from_secs(3_600);
        assert_eq!(Timestamp::MAX.saturating_add(hour), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_secs(1).saturating_sub(hour), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.saturating_since(Timestamp::MAX), Duration::ZERO);
    }

    #[test]
    fn displays_seconds_with_nine_decimals() {
        assert_eq!(Timestamp::from_nanos(1_000_000_042).to_string(), "1.000000042");
    }

    #[test]
    fn text_with_up_to_nine_decimals_is_read_exactly() {
        for (text, nanos) in [
            ("0", 0),
            ("007", 7_000_000_000),
            ("1.5", 1_500_000_000),
            ("1.05", 1_050_000_000),
            ("1.000000042", 1_000_000_042),
            // An `f64` cannot hold this number of nanoseconds.
            ("1540629334.619000001", 1_540_629_334_619_000_001),
            ("18446744073.709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Timestamp(nanos)), "{text}");
        }
        for time in [Timestamp::MIN, Timestamp(1_540_629_334_619_000_001), Timestamp::MAX] {
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        let message = |text: &str| text.parse::<Timestamp>().unwrap_err().to_string();
        for text in [
            "", " 1", "1 ", "+1", "-1", "1.", ".5", "1.-5", "1.+5", "1.2.3", "1e9", "1_0", "a",
            "１",
        ] {
            let expected = format!(
                "{text:?} is no time: write seconds with at most nine decimals, \
                 such as \"60\" or \"0.025\""
            );
            assert_eq!(message(text), expected);
        }
        assert_eq!(
            message("1.0000000000"),
            "\"1.0000000000\" has more than nine decimals: a time is in whole nanoseconds"
        );
        for text in ["18446744073.709551616", "99999999999", &"9".repeat(60)] {
            let expected = format!("\"{text}\" is above the largest time, 18446744073.709551615");
            assert_eq!(message(text), expected);
        }
    }
}
