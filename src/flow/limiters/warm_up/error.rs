//! The error of the configuration.

use std::error::Error;
use std::fmt;

/// The error of a [`WarmUpConfig`](crate::flow::WarmUpConfig).
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
