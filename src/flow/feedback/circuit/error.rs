//! Errors of the configuration, and of changes of the state.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::CircuitState;

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

/// The error of [`CircuitBreaker::set_state_at`](super::CircuitBreaker::set_state_at): the breaker
/// cannot go from its state to the one that was asked for.
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
