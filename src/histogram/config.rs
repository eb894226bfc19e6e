//! The resolution of a histogram.

use super::error::HistogramConfigError;

/// The resolution of a [`LatencyHistogram`](crate::LatencyHistogram).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistogramConfig {
    scale: u8,
}

impl HistogramConfig {
    /// The finest scale.
    pub const MAX_SCALE: u8 = 8;

    /// The number of scales.
    pub(crate) const SCALES: usize = Self::MAX_SCALE as usize + 1;

    /// Creates a configuration with that scale, from 0 to [`MAX_SCALE`](Self::MAX_SCALE).
    ///
    /// # Errors
    ///
    /// Returns a [`HistogramConfigError`] if the scale is above [`MAX_SCALE`](Self::MAX_SCALE).
    pub const fn with_scale(scale: u8) -> Result<Self, HistogramConfigError> {
        if scale > Self::MAX_SCALE {
            return Err(HistogramConfigError::Scale { scale });
        }
        Ok(Self { scale })
    }

    /// Returns the scale.
    #[must_use]
    pub const fn scale(self) -> u8 {
        self.scale
    }
}

impl Default for HistogramConfig {
    /// Returns scale 4.
    fn default() -> Self {
        Self { scale: 4 }
    }
}
