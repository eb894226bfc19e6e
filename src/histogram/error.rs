//! The error of a histogram's configuration.

use std::error::Error;
use std::fmt;

/// The error of [`HistogramConfig`](crate::HistogramConfig).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum HistogramConfigError {
    /// The scale is out of range.
    Scale {
        /// The scale.
        scale: u8,
    },
}

impl fmt::Display for HistogramConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { scale } => write!(f, "scale {scale} is not between 0 and 8"),
        }
    }
}

impl Error for HistogramConfigError {}
