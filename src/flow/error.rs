//! What can be wrong with what a controller is made of: one enum for each question.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why so many permits in an interval are no [`Rate`](super::Rate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// There is no permit.
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
    /// A permit takes less than a nanosecond.
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

/// Why a [`BreakerConfig`](super::BreakerConfig) cannot be so.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum BreakerConfigError {
    /// k is infinite, or not a number.
    KNotFinite {
        /// The k that was asked for.
        k: f64,
    },
    /// k is below 1: requests would be dropped though all are accepted.
    KBelowOne {
        /// The k that was asked for.
        k: f64,
    },
    /// The probe interval is zero.
    ZeroProbeInterval,
}

impl fmt::Display for BreakerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KNotFinite { k } => write!(f, "a k of {k} is no finite number"),
            Self::KBelowOne { k } => write!(f, "a k of {k} is below 1"),
            Self::ZeroProbeInterval => f.write_str("a probe interval is above 0 ns"),
        }
    }
}

impl Error for BreakerConfigError {}
