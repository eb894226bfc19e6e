//! The errors of histograms.

use std::error::Error;
use std::fmt;

use super::bins::{Bins, COARSEST};
use super::thresholds::MAX_SCALE;

/// The error of [`HistogramConfig`](super::HistogramConfig).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum HistogramConfigError {
    /// The scale is above [`HistogramConfig::MAX_SCALE`](super::HistogramConfig::MAX_SCALE).
    Scale {
        /// The scale.
        scale: u8,
    },
    /// The relative error is 0 or less, 1 or more, or no number.
    RelativeError {
        /// The relative error.
        error: f64,
    },
    /// The relative error is smaller than the error of the finest scale.
    TooFine {
        /// The relative error.
        error: f64,
    },
}

impl fmt::Display for HistogramConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finest = MAX_SCALE;
        match self {
            Self::Scale { scale } => write!(f, "scale {scale} is not between 0 and {finest}"),
            Self::RelativeError { error } => {
                write!(f, "a relative error of {error} is not above 0 and below 1")
            }
            Self::TooFine { error } => {
                let least = Bins::at(finest.cast_signed()).relative_error();
                write!(
                    f,
                    "a relative error of {error} is below {least:.6}, the error of the finest scale, {finest}"
                )
            }
        }
    }
}

impl Error for HistogramConfigError {}

/// The error of [`LatencyHistogram::downscaled`](crate::LatencyHistogram::downscaled).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistogramScaleError {
    /// The scale is finer than the scale of the histogram.
    Finer {
        /// The scale.
        scale: i8,
        /// The scale of the histogram.
        present: i8,
    },
    /// The scale is below −10.
    TooCoarse {
        /// The scale.
        scale: i8,
    },
}

impl fmt::Display for HistogramScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finer { scale, present } => {
                write!(f, "scale {scale} is finer than {present}, the scale of the histogram")
            }
            Self::TooCoarse { scale } => {
                write!(f, "scale {scale} is below {COARSEST}, the coarsest")
            }
        }
    }
}

impl Error for HistogramScaleError {}
