//! Errors of the configurations of controllers.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::CircuitState;
use crate::time::{ConfigError, WindowConfig};

/// The error of [`Rate::new`](super::Rate::new).
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

/// The error of a limit for a window: of a [`SlidingWindowLimiter`](super::SlidingWindowLimiter), a
/// [`FixedWindowLimiter`](super::FixedWindowLimiter) or a [`WarmUp`](super::WarmUp).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The interval is not valid for a window of one bucket.
    NoWindow(ConfigError),
    /// The limit of a [`WarmUp`](super::WarmUp) is zero.
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

/// The error of a [`WarmUpConfig`](super::WarmUpConfig).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum WarmUpError {
    /// The warm-up period is zero.
    ZeroPeriod {
        /// The cold factor that was asked for.
        cold_factor: f64,
    },
    /// The cold factor is not a finite number above 1.
    ColdFactor {
        /// The cold factor that was asked for.
        cold_factor: f64,
    },
}

impl fmt::Display for WarmUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroPeriod { cold_factor } => {
                write!(f, "to warm up by a cold factor of {cold_factor} takes more than 0 ns")
            }
            Self::ColdFactor { cold_factor } => {
                write!(f, "a cold factor is a number above 1, not {cold_factor}")
            }
        }
    }
}

impl Error for WarmUpError {}

/// The error of a [`BreakerConfig`](super::BreakerConfig).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum BreakerConfigError {
    /// `k` is infinite, or not a number.
    KNotFinite {
        /// The `k` that was asked for.
        k: f64,
    },
    /// `k` is below 1, so requests would be dropped although the backend accepts all of them.
    KBelowOne {
        /// The `k` that was asked for.
        k: f64,
    },
    /// The probe interval is zero.
    ZeroProbeInterval,
    /// The time of recovery is zero.
    ZeroRecovery,
    /// The configuration of a breaker that runs was to be replaced by one with another window. The
    /// counts of one window do not fit into the buckets of another.
    OtherWindow {
        /// The window of the breaker.
        window: WindowConfig,
        /// The window that was asked for.
        asked: WindowConfig,
    },
}

impl fmt::Display for BreakerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KNotFinite { k } => {
                write!(f, "k is {k}, but must be a finite number of at least 1")
            }
            Self::KBelowOne { k } => write!(f, "k is {k}, but must be at least 1"),
            Self::ZeroProbeInterval => {
                f.write_str("the probe interval is 0 ns, but must be longer")
            }
            Self::ZeroRecovery => f.write_str("the recovery takes 0 ns, but must take longer"),
            Self::OtherWindow { window, asked } => {
                write!(f, "a breaker keeps its window of {window}: it cannot change to {asked}")
            }
        }
    }
}

impl Error for BreakerConfigError {}

/// The error of a [`CircuitConfig`](super::CircuitConfig), a [`RatioLimit`](super::RatioLimit) or a
/// [`Wait`](super::Wait).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CircuitConfigError {
    /// The number of the last calls is 0 or too high.
    Calls {
        /// The number that was asked for.
        calls: u32,
        /// The highest number.
        max: u32,
    },
    /// A file has both a window of time and a number of last calls.
    WindowAndCalls {
        /// The number of the last calls.
        calls: u32,
    },
    /// The interval of the window is too long.
    Interval {
        /// The interval that was asked for.
        interval: Duration,
        /// The longest interval.
        max: Duration,
    },
    /// The time-out of a half-open breaker is 0.
    Timeout,
    /// The number of probes is 0 or too high.
    Probes {
        /// The number that was asked for.
        probes: u16,
        /// The highest number.
        max: u16,
    },
    /// A ratio that a share must be at least is not above 0 and at most 1.
    Ratio {
        /// The ratio that was asked for.
        ratio: f64,
    },
    /// A ratio that a share must be above is not at least 0 and below 1.
    RatioAbove {
        /// The ratio that was asked for.
        ratio: f64,
    },
    /// The factor by which a wait grows is not a finite number of at least 1.
    Factor {
        /// The factor that was asked for.
        factor: f64,
    },
    /// A wait in a file grows, but has no longest wait.
    NoMaxWait {
        /// The factor by which it grows.
        factor: f64,
    },
    /// The longest wait is shorter than the first one.
    MaxWait {
        /// The longest wait that was asked for.
        max: Duration,
        /// The first wait.
        first: Duration,
    },
    /// The jitter is not from 0 to 1.
    Jitter {
        /// The jitter that was asked for.
        jitter: f64,
    },
}

impl fmt::Display for CircuitConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls { calls, max } => {
                write!(f, "a breaker counts the last 1 to {max} calls, not {calls}")
            }
            Self::WindowAndCalls { calls } => {
                write!(
                    f,
                    "a breaker counts the calls of a window or the last {calls} calls, not both"
                )
            }
            Self::Interval { interval, max } => {
                write!(f, "a breaker has a window of at most {max:?}, not {interval:?}")
            }
            Self::Timeout => {
                f.write_str("a half-open breaker has a time-out of more than 0, or none")
            }
            Self::Probes { probes, max } => {
                write!(f, "a breaker has 1 to {max} probes, not {probes}")
            }
            Self::Ratio { ratio } => {
                write!(
                    f,
                    "a share of at least {ratio} is no limit: it must be above 0 and at most 1"
                )
            }
            Self::RatioAbove { ratio } => {
                write!(f, "a share above {ratio} is no limit: it must be at least 0 and below 1")
            }
            Self::Factor { factor } => {
                write!(f, "a wait grows by a finite factor of at least 1, not {factor}")
            }
            Self::NoMaxWait { factor } => {
                write!(f, "a wait that grows by a factor of {factor} needs `max`, the longest wait")
            }
            Self::MaxWait { max, first } => {
                write!(f, "the longest wait is {max:?}, but the first one is {first:?}")
            }
            Self::Jitter { jitter } => write!(f, "a jitter is from 0 to 1, not {jitter}"),
        }
    }
}

impl Error for CircuitConfigError {}

/// The error of [`CircuitBreaker::set_state`](super::CircuitBreaker::set_state): the breaker cannot
/// go from its state to the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircuitStateError {
    /// The state of the breaker.
    pub from: CircuitState,
    /// The state that was asked for.
    pub to: CircuitState,
}

impl fmt::Display for CircuitStateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "a breaker becomes {to} from open only, but it is {from}")
    }
}

impl Error for CircuitStateError {}

/// The error of a [`LimitRange`](super::LimitRange) or of an algorithm of an
/// [`AdaptiveLimiter`](super::AdaptiveLimiter).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AdaptiveConfigError {
    /// The limits are not in ascending order, or beyond the lowest or the highest possible one.
    Range {
        /// The lowest limit that was asked for.
        min: u64,
        /// The first limit that was asked for.
        initial: u64,
        /// The highest limit that was asked for.
        max: u64,
        /// The highest possible limit.
        highest: u64,
    },
    /// The factor of a decrease is not from 0.5 to below 1.
    Backoff {
        /// The factor that was asked for.
        backoff: f64,
    },
    /// The factor of the headroom is not from 0.5 to 10.
    Headroom {
        /// The factor that was asked for.
        factor: f64,
    },
}

impl fmt::Display for AdaptiveConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { min, initial, max, highest } => write!(
                f,
                "limits are 1 <= lowest <= first <= highest <= {highest}, not {min}, {initial}, {max}"
            ),
            Self::Backoff { backoff } => {
                write!(f, "a limit backs off by a factor from 0.5 to below 1, not {backoff}")
            }
            Self::Headroom { factor } => {
                write!(f, "a headroom has a factor from 0.5 to 10, not {factor}")
            }
        }
    }
}

impl Error for AdaptiveConfigError {}
