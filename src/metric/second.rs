//! The metrics of one second.

use std::time::Duration;

use crate::time::Timestamp;

/// The metrics of one resource in one second: plain data, an item of Sentinel's metric log.
///
/// Create it by [`SecondMetrics::new`] and set the fields: later versions may have more fields.
///
/// ```
/// use leaparray::{SecondMetrics, Timestamp};
/// use std::time::Duration;
///
/// let mut metrics = SecondMetrics::new(Timestamp::from_secs(1_564_382_218));
/// metrics.pass = 4;
/// metrics.success = 3;
/// metrics.avg_rt = Some(Duration::from_millis(25));
/// assert_eq!((metrics.pass, metrics.block), (4, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SecondMetrics {
    /// The start of the second.
    pub second: Timestamp,
    /// The number of requests that were let through.
    pub pass: u64,
    /// The number of requests that were refused.
    pub block: u64,
    /// The number of requests that were let through and succeeded.
    pub success: u64,
    /// The number of requests that were let through and failed.
    pub exception: u64,
    /// The number of requests that were let through on a reserved permit.
    pub reserved_pass: u64,
    /// The number of requests that were let through and cancelled.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cancelled: u64,
    /// The mean response time; `None` if no response time was recorded.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::serde_time::option"))]
    pub avg_rt: Option<Duration>,
    /// The highest number of requests in flight.
    pub concurrency: u64,
}

impl SecondMetrics {
    /// Creates the metrics of the second that begins at `second`, without any event.
    ///
    /// ```
    /// use leaparray::{SecondMetrics, Timestamp};
    ///
    /// let metrics = SecondMetrics::new(Timestamp::from_secs(60));
    /// assert_eq!(metrics.second, Timestamp::from_secs(60));
    /// assert_eq!((metrics.pass, metrics.avg_rt), (0, None));
    /// ```
    #[must_use]
    pub fn new(second: Timestamp) -> Self {
        Self { second, ..Self::default() }
    }
}
