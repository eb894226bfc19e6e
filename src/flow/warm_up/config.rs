//! How a service warms up.

use std::time::Duration;

use crate::flow::WarmUpError;

/// How a service warms up: how long it takes, and how much less it admits when it is cold.
///
/// The default is Sentinel's: 10 seconds, and a third.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUpConfig {
    period: Duration,
    cold_factor: f64,
}

impl WarmUpConfig {
    /// Under full demand, a cold service admits `1 / cold_factor` of its limit at first, but one permit a
    /// window at least, and all of it after `period`.
    ///
    /// # Errors
    ///
    /// If `period` is zero, or `cold_factor` is not a number above 1.
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

    /// How long it takes under full demand.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// How many times less it admits when it is cold.
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
