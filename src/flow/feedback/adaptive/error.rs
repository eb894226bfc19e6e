//! The error of the configuration.

use std::error::Error;
use std::fmt;

/// The error of a [`LimitRange`](crate::flow::adaptive::LimitRange) or of an algorithm of an
/// [`AdaptiveLimiter`](crate::flow::AdaptiveLimiter).
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
