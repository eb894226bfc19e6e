//! The error of the configuration.

use std::error::Error;
use std::fmt;

/// The error of a [`AdaptiveBreakerConfig`](crate::flow::breaker::AdaptiveBreakerConfig).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AdaptiveBreakerConfigError {
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
}

impl fmt::Display for AdaptiveBreakerConfigError {
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
        }
    }
}

impl Error for AdaptiveBreakerConfigError {}
