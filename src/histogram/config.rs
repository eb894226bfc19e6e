//! The resolution of a histogram.

use std::time::Duration;

use super::bins::Bins;
use super::error::HistogramConfigError;
use super::layout::{Layout, MAX_NANOS};
use super::thresholds::MAX_SCALE;
use crate::time::saturating_nanos;

/// The resolution of a [`LatencyHistogram`](crate::LatencyHistogram): its *scale*, from 0 to 8.
///
/// A histogram of scale s counts response times in bins whose bounds are 2^(i/2^s) seconds, for
/// each integer i. So an octave, from a time to twice that time, has 2^s bins. A quantile is known
/// to within the [relative error](Self::relative_error), and each step to a finer scale halves the
/// error and doubles the bins. The default is scale 4, whose error is 2.17 %.
///
/// | scale | bins in an octave | relative error |
/// |---|---|---|
/// | 0 | 1 | 33.3 % |
/// | 1 | 2 | 17.2 % |
/// | 2 | 4 | 8.64 % |
/// | 3 | 8 | 4.33 % |
/// | 4 | 16 | 2.17 % |
/// | 5 | 32 | 1.08 % |
/// | 6 | 64 | 0.542 % |
/// | 7 | 128 | 0.271 % |
/// | 8 | 256 | 0.135 % |
///
/// With the feature `serde`, it can be [read from a file](crate::guide::configuration),
/// with exactly one of the fields `scale` and `relative_error`.
///
/// ```
/// use leaparray::HistogramConfig;
///
/// let config = HistogramConfig::with_relative_error(0.02)?;
/// assert_eq!(config, HistogramConfig::with_scale(5)?);
/// assert!(config.relative_error() < 0.0109);
/// # Ok::<_, leaparray::histogram::HistogramConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistogramConfig {
    scale: u8,
}

impl HistogramConfig {
    /// The finest scale, 8.
    pub const MAX_SCALE: u8 = MAX_SCALE;

    /// The longest response time, 2⁶² ns: a longer one counts as this one.
    pub const MAX_RT: Duration = Duration::from_nanos(MAX_NANOS);

    /// The number of scales.
    pub(crate) const SCALES: usize = Self::MAX_SCALE as usize + 1;

    /// Returns the positions of the bins.
    pub(crate) const fn layout(self) -> Layout {
        Layout::at(self.scale)
    }

    /// Creates a configuration with that scale, from 0 to [`MAX_SCALE`](Self::MAX_SCALE).
    ///
    /// # Errors
    ///
    /// Returns [`HistogramConfigError::Scale`] if the scale is above
    /// [`MAX_SCALE`](Self::MAX_SCALE).
    ///
    /// ```
    /// use leaparray::HistogramConfig;
    /// use leaparray::histogram::HistogramConfigError;
    ///
    /// assert_eq!(HistogramConfig::with_scale(5)?.scale(), 5);
    /// let error = HistogramConfig::with_scale(9).unwrap_err();
    /// assert_eq!(error.to_string(), "scale 9 is not between 0 and 8");
    /// # Ok::<_, HistogramConfigError>(())
    /// ```
    pub const fn with_scale(scale: u8) -> Result<Self, HistogramConfigError> {
        if scale > Self::MAX_SCALE {
            return Err(HistogramConfigError::Scale { scale });
        }
        Ok(Self { scale })
    }

    /// Creates a configuration with the coarsest scale whose relative error is at most `error`.
    /// For 0.02, that is 2 %. An error of a third or more gives scale 0.
    ///
    /// # Errors
    ///
    /// Returns [`HistogramConfigError::RelativeError`] if the error is not above 0 and below 1, and
    /// [`HistogramConfigError::TooFine`] if the finest scale has a larger error, which is
    /// some 0.00135.
    ///
    /// ```
    /// use leaparray::HistogramConfig;
    /// use leaparray::histogram::HistogramConfigError;
    ///
    /// let scale =
    ///     |error| HistogramConfig::with_relative_error(error).map(HistogramConfig::scale);
    /// assert_eq!([0.9, 0.05, 0.01].map(scale), [Ok(0), Ok(3), Ok(6)]);
    /// assert_eq!(scale(2.0), Err(HistogramConfigError::RelativeError { error: 2.0 }));
    /// assert_eq!(scale(0.001), Err(HistogramConfigError::TooFine { error: 0.001 }));
    /// ```
    pub fn with_relative_error(error: f64) -> Result<Self, HistogramConfigError> {
        if !(error > 0.0 && error < 1.0) {
            return Err(HistogramConfigError::RelativeError { error });
        }
        (0..=Self::MAX_SCALE)
            .map(|scale| Self { scale })
            .find(|config| config.relative_error() <= error)
            .ok_or(HistogramConfigError::TooFine { error })
    }

    /// Returns the scale.
    #[must_use]
    pub const fn scale(self) -> u8 {
        self.scale
    }

    pub(super) const fn bins(self) -> Bins {
        Bins::at(self.scale.cast_signed())
    }

    /// Returns the index of the [bucket](crate::LatencyHistogram::buckets) of a response time, from
    /// that of 1 ns to that of 2⁶² ns: a shorter one counts as 1 ns, and a longer one as 2⁶² ns.
    ///
    /// ```
    /// use leaparray::HistogramConfig;
    /// use std::time::Duration;
    ///
    /// let octaves = HistogramConfig::with_scale(0)?;
    /// let index = |millis| octaves.index_of(Duration::from_millis(millis));
    /// // (0.5 s, 1 s] and (1 s, 2 s].
    /// assert_eq!([501, 1_000, 1_001].map(index), [-1, -1, 0]);
    /// # Ok::<_, leaparray::histogram::HistogramConfigError>(())
    /// ```
    #[must_use]
    pub fn index_of(self, rt: Duration) -> i32 {
        self.bins().index(saturating_nanos(rt))
    }

    /// Returns the largest relative error of a quantile: (γ − 1) / (γ + 1), where γ = 2^(2^−scale)
    /// is the upper bound of a bin divided by its lower bound.
    ///
    /// ```
    /// use leaparray::HistogramConfig;
    ///
    /// let error = HistogramConfig::default().relative_error();
    /// assert!((error - 0.0217).abs() < 0.0001);
    /// ```
    #[must_use]
    pub fn relative_error(self) -> f64 {
        self.bins().relative_error()
    }
}

impl Default for HistogramConfig {
    /// Returns scale 4.
    fn default() -> Self {
        Self { scale: 4 }
    }
}
