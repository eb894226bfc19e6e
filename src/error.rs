//! What can be wrong with a geometry: one enum per question, each naming the values.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::geometry::WindowConfig;

/// Why a sample count and an interval do not make a [`WindowConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The sample count is zero: there is no bucket to record in.
    ZeroSamples {
        /// The interval that was asked for.
        interval: Duration,
    },
    /// The sample count is above [`WindowConfig::MAX_SAMPLE_COUNT`].
    TooManySamples {
        /// The sample count that was asked for.
        sample_count: usize,
        /// The largest sample count there is.
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
        /// The longest interval there is.
        max: Duration,
    },
    /// A bucket would be shorter than one nanosecond.
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
                write!(f, "{sample_count} samples in {interval:?} are shorter than 1 ns each")
            }
            Self::Indivisible { sample_count, interval } => write!(
                f,
                "{interval:?} does not divide into {sample_count} samples of whole nanoseconds"
            ),
        }
    }
}

impl Error for ConfigError {}

/// Why a window of one geometry is no view over an array of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// The view's bucket length is not a multiple of the array's.
    BucketNotAMultiple {
        /// The geometry that was asked for.
        view: WindowConfig,
        /// The geometry of the array.
        array: WindowConfig,
    },
    /// The view's interval does not divide the array's.
    IntervalNotADivisor {
        /// The geometry that was asked for.
        view: WindowConfig,
        /// The geometry of the array.
        array: WindowConfig,
    },
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BucketNotAMultiple { view, array } => write!(
                f,
                "a view of {view} over an array of {array}: buckets of {:?} are not a multiple of {:?}",
                view.bucket_len(),
                array.bucket_len()
            ),
            Self::IntervalNotADivisor { view, array } => write!(
                f,
                "a view of {view} over an array of {array}: {:?} does not divide {:?}",
                view.interval(),
                array.interval()
            ),
        }
    }
}

impl Error for ViewError {}
