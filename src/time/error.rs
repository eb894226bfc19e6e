//! Errors of window configurations and of texts of times, each with the values that are wrong.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::decimal_seconds::DecimalSeconds;

/// The error of [`WindowConfig::new`](crate::WindowConfig::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The sample count is zero: there is no bucket to record in.
    ZeroSamples {
        /// The interval that was asked for.
        interval: Duration,
    },
    /// The sample count is above
    /// [`WindowConfig::MAX_SAMPLE_COUNT`](crate::WindowConfig::MAX_SAMPLE_COUNT).
    TooManySamples {
        /// The sample count that was asked for.
        sample_count: usize,
        /// The largest valid sample count.
        max: usize,
    },
    /// The interval is zero: the window covers no time.
    ZeroInterval {
        /// The sample count that was asked for.
        sample_count: usize,
    },
    /// The interval is above `u64::MAX` nanoseconds, the span of a [`Timestamp`](crate::Timestamp).
    IntervalTooLong {
        /// The interval that was asked for.
        interval: Duration,
        /// The longest valid interval.
        max: Duration,
    },
    /// A bucket would be shorter than two nanoseconds.
    BucketTooShort {
        /// The sample count that was asked for.
        sample_count: usize,
        /// The interval that was asked for.
        interval: Duration,
    },
    /// The interval is not a whole number of nanoseconds for each bucket.
    Indivisible {
        /// The sample count that was asked for.
        sample_count: usize,
        /// The interval that was asked for.
        interval: Duration,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSamples { interval } => {
                write!(f, "a window of {interval:?} needs at least one sample, not 0")
            }
            Self::TooManySamples { sample_count, max } => {
                write!(f, "{sample_count} samples are more than the {max} a window can have")
            }
            Self::ZeroInterval { sample_count } => {
                write!(f, "a window of {sample_count} samples needs an interval above 0 ns")
            }
            Self::IntervalTooLong { interval, max } => {
                write!(f, "an interval of {interval:?} is longer than the longest, {max:?}")
            }
            Self::BucketTooShort { sample_count, interval } => {
                write!(f, "{sample_count} samples in {interval:?} are shorter than 2 ns each")
            }
            Self::Indivisible { sample_count, interval } => write!(
                f,
                "{interval:?} does not divide into {sample_count} samples of whole nanoseconds"
            ),
        }
    }
}

impl Error for ConfigError {}

/// The error of [`SlidingWindow::view`](crate::SlidingWindow::view): the geometry of the view does
/// not fit the geometry of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// The view's bucket length is not a multiple of the array's.
    BucketNotAMultiple {
        /// The bucket length of the view.
        view: Duration,
        /// The bucket length of the array.
        array: Duration,
    },
    /// The view's interval does not divide the array's.
    IntervalNotADivisor {
        /// The interval of the view.
        view: Duration,
        /// The interval of the array.
        array: Duration,
    },
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BucketNotAMultiple { view, array } => {
                write!(f, "a view's buckets of {view:?} are no multiple of the array's, {array:?}")
            }
            Self::IntervalNotADivisor { view, array } => {
                write!(f, "a view's interval of {view:?} does not divide the array's, {array:?}")
            }
        }
    }
}

impl Error for ViewError {}

/// The error of reading a [`Timestamp`](crate::Timestamp) from a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseTimestampError {
    /// The text is not a number of seconds: digits, or digits, a point and digits.
    NotSeconds {
        /// The text.
        text: String,
    },
    /// The text has more than nine decimals, so it may not be a whole number of nanoseconds.
    TooManyDecimals {
        /// The text.
        text: String,
    },
    /// The time is above [`Timestamp::MAX`](crate::Timestamp::MAX).
    AboveMax {
        /// The text.
        text: String,
    },
}

impl fmt::Display for ParseTimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSeconds { text } => write!(
                f,
                "{text:?} is no time: write seconds with at most nine decimals, \
                 such as \"60\" or \"0.025\""
            ),
            Self::TooManyDecimals { text } => {
                write!(f, "{text:?} has more than nine decimals: a time is in whole nanoseconds")
            }
            Self::AboveMax { text } => {
                let max = DecimalSeconds(u64::MAX.into());
                write!(f, "{text:?} is above the largest time, {max}")
            }
        }
    }
}

impl Error for ParseTimestampError {}
