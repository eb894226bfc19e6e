//! A line of Sentinel's metric log.

mod error;
mod read;
mod write;

use std::time::Duration;

use crate::metric::second::SecondMetrics;
use crate::time::{Timestamp, duration_of};

pub use error::MetricLineError;
pub use write::ThinLine;

/// The largest count, and the longest response time in milliseconds: Sentinel reads a signed 64-bit
/// number.
const MAX_COUNT: u64 = i64::MAX.unsigned_abs();

/// The highest concurrency: Sentinel reads a signed 32-bit number.
const MAX_CONCURRENCY: u64 = i32::MAX.unsigned_abs() as u64;

/// A line of Sentinel's metric log: the metrics of one resource in one second. Needs the feature
/// `sentinel-format`.
///
/// There are two forms, as in Sentinel:
///
/// | form | where Sentinel has it | written by | read by |
/// |---|---|---|---|
/// | fat | in the log file | [`Display`](std::fmt::Display) | [`FromStr`](std::str::FromStr) |
/// | thin | in the messages of an application to the dashboard | [`thin`](Self::thin) | [`from_thin`](Self::from_thin) |
///
/// ```text
/// fat:  timestamp|yyyy-MM-dd HH:mm:ss|resource|numbers
/// thin: timestamp|resource|numbers
///
/// numbers: pass|block|success|exception|rt|occupiedPass|concurrency|classification
/// ```
///
/// The timestamp and the mean response time `rt` are whole milliseconds. The date repeats the
/// timestamp for human readers, here in UTC, in Sentinel in local time. Neither parser reads the
/// date. A line contains no line break.
///
/// ```
/// use leaparray::{MetricLine, SecondMetrics, Timestamp};
/// use std::time::Duration;
///
/// let mut metrics = SecondMetrics::new(Timestamp::from_secs(1_564_382_218));
/// (metrics.pass, metrics.block, metrics.success) = (4, 9, 3);
/// (metrics.rt_sum, metrics.rt_count) = (Duration::from_millis(75), 3);
/// metrics.concurrency = 2;
///
/// let line = MetricLine::new("/foo/*", 1, &metrics);
/// let fat = "1564382218000|2019-07-29 06:36:58|/foo/*|4|9|3|0|25|0|2|1";
/// assert_eq!(line.to_string(), fat);
/// assert_eq!(fat.parse(), Ok(line));
/// ```
///
/// # What is lost
///
/// Information is lost when the line is [made](Self::new), not when it is written: a line has
/// exactly the values of its text, and parsing the text returns an equal line, in either form.
///
/// - Each `|` and each line break (`\n`, `\r`) in the name of a resource becomes `_`, as in
///   Sentinel for `|`. So two names can become one. Names of a [`Registry`](crate::Registry)
///   contain no line breaks.
/// - The second and the mean response time are rounded down to the millisecond, like Sentinel's
///   integer division. A mean below one millisecond is 0.
/// - Of the response times, a line has the mean only. The metrics of a line have as many response
///   times as successes and exceptions, and as their sum the product of that number and the mean.
///   If the mean is not 0 although the line counts neither, as with requests of 0 permits, there is
///   one response time. The shortest and the longest are `None`, and so is their histogram.
/// - `rt` has no value for an absent mean: Sentinel writes 0. So a 0 is a mean of
///   [`Duration::ZERO`] if the line counts a success or an exception, since each of them has a
///   response time, and otherwise there is none.
/// - Cancelled requests are not in a line.
/// - If the sum of the response times would exceed [`Duration::MAX`], the metrics of a line have
///   fewer of them, with the same mean.
/// - Numbers are cut to the range that Sentinel's dashboard reads: counts and the milliseconds of
///   `rt` at [`i64::MAX`], the concurrency at [`i32::MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricLine {
    resource: String,
    classification: i32,
    metrics: SecondMetrics,
}

impl MetricLine {
    /// Creates the line of the metrics of `resource` in one second, less [what is
    /// lost](Self#what-is-lost).
    ///
    /// The classification is the kind of the resource. Sentinel has 0 for any kind, 1 for the web,
    /// 2 for RPC, 3 for an API gateway, 4 for SQL, and in Go 5 for a cache and 6 for a message
    /// queue. Any other number is valid as well.
    ///
    /// ```
    /// use leaparray::{MetricLine, SecondMetrics, Timestamp};
    /// use std::time::Duration;
    ///
    /// let mut metrics = SecondMetrics::new(Timestamp::from_secs(60));
    /// (metrics.success, metrics.rt_sum, metrics.rt_count) =
    ///     (2, Duration::from_micros(3_998), 2);
    /// let line = MetricLine::new("a|b", 0, &metrics);
    /// assert_eq!(line.resource(), "a_b");
    /// assert_eq!(line.metrics().avg_rt(), Some(Duration::from_millis(1)));
    /// assert_eq!(line.metrics().rt_sum, Duration::from_millis(2));
    /// ```
    #[must_use]
    pub fn new(resource: &str, classification: i32, metrics: &SecondMetrics) -> Self {
        let resource = resource.replace(['|', '\n', '\r'], "_");
        Self { resource, classification, metrics: as_written(metrics) }
    }

    /// Returns the name of the resource, without `|` and line breaks.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the kind of the resource; 0 if the line has none.
    #[must_use]
    pub const fn classification(&self) -> i32 {
        self.classification
    }

    /// Returns the metrics of the resource. The mean response time is in whole milliseconds; the
    /// sum and the number of the response times [follow from it](Self#what-is-lost).
    #[must_use]
    pub const fn metrics(&self) -> &SecondMetrics {
        &self.metrics
    }

    /// Returns the mean response time in whole milliseconds; 0 if there is none.
    fn rt_millis(&self) -> u64 {
        rt_millis(self.metrics.avg_rt())
    }
}

/// Returns the metrics as a line has them: rounded and cut.
fn as_written(metrics: &SecondMetrics) -> SecondMetrics {
    SecondMetrics {
        second: Timestamp::from_millis(metrics.second.as_millis()),
        pass: metrics.pass.min(MAX_COUNT),
        block: metrics.block.min(MAX_COUNT),
        success: metrics.success.min(MAX_COUNT),
        exception: metrics.exception.min(MAX_COUNT),
        reserved_pass: metrics.reserved_pass.min(MAX_COUNT),
        concurrency: metrics.concurrency.min(MAX_CONCURRENCY),
        ..with_mean_rt(metrics, rt_millis(metrics.avg_rt()))
    }
}

/// Returns metrics that have only response times: of the mean `millis`, and one for each request
/// that succeeded or failed in `metrics`.
fn with_mean_rt(metrics: &SecondMetrics, millis: u64) -> SecondMetrics {
    let mean = Duration::from_millis(millis);
    let [success, exception] = [metrics.success, metrics.exception].map(|it| it.min(MAX_COUNT));
    // Does not overflow: two counts of 63 bits.
    let ended = (success + exception).max(u64::from(millis > 0));
    // Fewer, if the sum would otherwise be cut, so that it has the same mean.
    let most = Duration::MAX.as_nanos().checked_div(mean.as_nanos());
    let rt_count = most.map_or(ended, |most| ended.min(most.try_into().unwrap_or(u64::MAX)));
    let rt_sum = duration_of(mean.as_nanos() * u128::from(rt_count));
    SecondMetrics { rt_sum, rt_count, ..SecondMetrics::default() }
}

/// Returns `rt` as a line has it: in whole milliseconds, cut at [`MAX_COUNT`].
fn rt_millis(rt: Option<Duration>) -> u64 {
    let millis = rt.unwrap_or_default().as_millis();
    millis.try_into().unwrap_or(MAX_COUNT).min(MAX_COUNT)
}
