//! The error of a budget.

use std::error::Error;
use std::fmt;

/// The error of a budget whose settings are out of range.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum BudgetError {
    /// The share is below 0 or above 1,000, or is not a number.
    Share {
        /// The share that was asked for.
        share: f64,
    },
    /// The quantile is below 0 or above 1, or is not a number.
    Quantile {
        /// The quantile that was asked for.
        quantile: f64,
    },
    /// The minimum is higher than such a budget can count.
    Minimum {
        /// The minimum that was asked for.
        minimum: u64,
        /// The highest minimum there is.
        max: u64,
    },
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { share } => write!(f, "a share of {share} is not between 0 and 1,000"),
            Self::Quantile { quantile } => {
                write!(f, "a quantile of {quantile} is not between 0 and 1")
            }
            Self::Minimum { minimum, max } => {
                write!(f, "a minimum of {minimum} retries is above {max}, the highest")
            }
        }
    }
}

impl Error for BudgetError {}
