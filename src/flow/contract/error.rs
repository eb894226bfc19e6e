//! Errors of rates and limits.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::time::ConfigError;

/// The error of [`Rate::new`](crate::flow::Rate::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// The number of permits is zero.
    ZeroPermits {
        /// The interval that was asked for.
        interval: Duration,
    },
    /// The interval is zero.
    ZeroInterval {
        /// The permits that were asked for.
        permits: u64,
    },
    /// The interval is above `u64::MAX` nanoseconds, the span of a [`Timestamp`](crate::Timestamp).
    IntervalTooLong {
        /// The interval that was asked for.
        interval: Duration,
        /// The longest interval there is.
        max: Duration,
    },
    /// The rate is above one permit per nanosecond.
    TooFast {
        /// The permits that were asked for.
        permits: u64,
        /// The interval that was asked for.
        interval: Duration,
    },
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroPermits { interval } => {
                write!(f, "a rate needs at least one permit in {interval:?}, not 0")
            }
            Self::ZeroInterval { permits } => {
                write!(f, "a rate of {permits} permits needs an interval above 0 ns")
            }
            Self::IntervalTooLong { interval, max } => {
                write!(f, "an interval of {interval:?} is longer than the longest, {max:?}")
            }
            Self::TooFast { permits, interval } => {
                write!(f, "{permits} permits in {interval:?} are more than one a nanosecond")
            }
        }
    }
}

impl Error for RateError {}

/// The error of a limit for a window: of a
/// [`SlidingWindowLimiter`](crate::flow::SlidingWindowLimiter), a
/// [`FixedWindowLimiter`](crate::flow::FixedWindowLimiter) or a [`WarmUp`](crate::flow::WarmUp).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The interval is not valid for a window of one bucket.
    NoWindow(ConfigError),
    /// The limit of a [`WarmUp`](crate::flow::WarmUp) is zero.
    Zero,
    /// The limit is above the maximum for buckets of that length.
    TooHigh {
        /// The limit that was asked for.
        limit: u64,
        /// The highest limit for buckets of that length.
        max: u64,
        /// The length of a bucket.
        bucket_len: Duration,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWindow(error) => error.fmt(f),
            Self::Zero => f.write_str("a limit of 0 has nothing to warm up to"),
            Self::TooHigh { limit, max, bucket_len } => write!(
                f,
                "a limit of {limit} is above {max}, the highest with buckets of {bucket_len:?}"
            ),
        }
    }
}

impl Error for LimitError {}
