//! What one second held.

use std::time::Duration;

use crate::time::Timestamp;

/// What one resource did in one second: plain data, an item of Sentinel's metric log.
///
/// It is made by [`SecondMetrics::new`] and filled in field by field: further fields may come.
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
    /// Where the second begins.
    pub second: Timestamp,
    /// How many requests were let through.
    pub pass: u64,
    /// How many requests were refused.
    pub block: u64,
    /// How many requests that were let through succeeded.
    pub success: u64,
    /// How many requests that were let through failed.
    pub exception: u64,
    /// How many requests were let through on a permit of a bucket yet to come.
    pub reserved_pass: u64,
    /// The mean response time; `None` if there was none.
    #[cfg_attr(
        feature = "serde",
        serde(with = "crate::time::serde_nanos::option", rename = "avg_rt_nanos")
    )]
    pub avg_rt: Option<Duration>,
    /// How many requests were under way at once.
    pub concurrency: u64,
}

impl SecondMetrics {
    /// A second that begins at `second` and in which nothing happened.
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
