//! The configuration of a warm-up.

use std::time::Duration;

use crate::flow::limiters::WarmUpError;

/// The configuration of a [`WarmUp`](super::WarmUp): its period, and the factor by which a cold
/// service admits less.
///
/// The default is the default of Sentinel: 10 seconds, and a factor of 3.
///
/// With the feature `serde`, it can be [read from a file](crate::guide::configuration),
/// with the fields `period` and `cold_factor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUpConfig {
    period: Duration,
    cold_factor: f64,
}

impl WarmUpConfig {
    /// Creates a configuration. Under full demand, a cold service admits at `1 / cold_factor` of
    /// its rate at first, and at the whole rate after `period`. In the period, it admits
    /// `2 / (1 + cold_factor)` of the permits of a warm service.
    ///
    /// # Errors
    ///
    /// Returns a [`WarmUpError`] if `period` is zero, or if `cold_factor` is not a finite number
    /// above 1.
    ///
    /// ```
    /// use leaparray::flow::{WarmUpConfig, WarmUpError};
    /// use std::time::Duration;
    ///
    /// let period = Duration::from_secs(10);
    /// assert_eq!(WarmUpConfig::new(period, 3.0)?, WarmUpConfig::default());
    /// let refused = WarmUpConfig::new(period, 1.0);
    /// assert_eq!(refused, Err(WarmUpError::ColdFactor { cold_factor: 1.0 }));
    /// # Ok::<_, WarmUpError>(())
    /// ```
    pub const fn new(period: Duration, cold_factor: f64) -> Result<Self, WarmUpError> {
        if period.is_zero() {
            return Err(WarmUpError::ZeroPeriod { cold_factor });
        }
        if !(cold_factor > 1.0 && cold_factor.is_finite()) {
            return Err(WarmUpError::ColdFactor { cold_factor });
        }
        Ok(Self { period, cold_factor })
    }

    /// Returns the time that the warm-up takes under full demand.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Returns the factor by which a cold service admits less.
    #[must_use]
    pub const fn cold_factor(&self) -> f64 {
        self.cold_factor
    }
}

impl Default for WarmUpConfig {
    fn default() -> Self {
        Self { period: Duration::from_secs(10), cold_factor: 3.0 }
    }
}
