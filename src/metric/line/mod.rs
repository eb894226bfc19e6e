//! A line of Sentinel's metric log.

mod error;
mod read;
mod write;

use std::time::Duration;

use crate::metric::{EventCounts, MetricEvent, SecondMetrics};
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
/// `success` has Sentinel's meaning: the requests that completed, however they ended. It is the sum
/// of the counts of [`Success`](MetricEvent::Success), [`Exception`](MetricEvent::Exception) and
/// [`Cancelled`](MetricEvent::Cancelled), so each exception is counted in `success` and in
/// `exception`. `rt` is the mean over the requests that completed: Sentinel's dashboard multiplies
/// it by `success`.
///
/// ```
/// use leaparray::MetricEvent::{Block, Exception, Pass, Rt, Success};
/// use leaparray::{EventCounts, Timestamp};
/// use leaparray::metric::{MetricLine, SecondMetrics};
/// use std::time::Duration;
///
/// let mut metrics = SecondMetrics::new(Timestamp::from_secs(1_564_382_218));
/// metrics.counts =
///     EventCounts::from([(Pass, 4), (Block, 9), (Success, 2), (Exception, 1), (Rt, 3)]);
/// metrics.counts.set_rt_sum(Duration::from_millis(75));
/// metrics.concurrency = 2;
///
/// let line = MetricLine::new("/foo/*", 1, &metrics);
/// let fat = "1564382218000|2019-07-29 06:36:58|/foo/*|4|9|3|1|25|0|2|1";
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
///   times as requests that completed, and as their sum the product of that number and the mean. If
///   the mean is not 0 although no request completed, as with requests of 0 permits, there is one
///   response time. The shortest and the longest are `None`, and so is their histogram.
/// - `rt` has no value for an absent mean: Sentinel writes 0. So a 0 is a mean of
///   [`Duration::ZERO`] if a request completed, and otherwise there is none.
/// - Cancelled requests are not told apart: a line has them in `success`, and the metrics of a line
///   have them among the successes. A cancelled request has no response time of its own, so the
///   mean stands for it as well.
/// - Sentinel counts an exception when it is traced, and a success when the request completes,
///   perhaps a second later. So a line can have more exceptions than completed requests. Its
///   metrics then have no success, and [`completed`](Self::completed) has the number of the line.
/// - If the sum of the response times would exceed [`Duration::MAX`], the metrics of a line have
///   fewer of them, with the same mean.
/// - Numbers are cut to the range that Sentinel's dashboard reads: counts and the milliseconds of
///   `rt` at [`i64::MAX`], the concurrency at [`i32::MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricLine {
    resource: String,
    classification: i32,
    /// The field `success`.
    completed: u64,
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
    /// use leaparray::MetricEvent::{Rt, Success};
    /// use leaparray::{EventCounts, Timestamp};
    /// use leaparray::metric::{MetricLine, SecondMetrics};
    /// use std::time::Duration;
    ///
    /// let mut metrics = SecondMetrics::new(Timestamp::from_secs(60));
    /// metrics.counts = EventCounts::from([(Success, 2), (Rt, 2)]);
    /// metrics.counts.set_rt_sum(Duration::from_micros(3_998));
    /// let line = MetricLine::new("a|b", 0, &metrics);
    /// assert_eq!(line.resource(), "a_b");
    /// assert_eq!(line.metrics().avg_rt(), Some(Duration::from_millis(1)));
    /// assert_eq!(line.metrics().counts.rt_sum(), Duration::from_millis(2));
    /// ```
    #[must_use]
    pub fn new(resource: &str, classification: i32, metrics: &SecondMetrics) -> Self {
        let ends = [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled];
        let completed =
            ends.map(|end| metrics.counts[end]).into_iter().fold(0, u64::saturating_add);
        let millis = rt_millis(metrics.avg_rt());
        Self::of_fields(resource, classification, completed, millis, metrics)
    }

    /// Creates the line with these values of the fields `success` and `rt`. The other numbers are
    /// those of `metrics`.
    fn of_fields(
        resource: &str,
        classification: i32,
        completed: u64,
        millis: u64,
        metrics: &SecondMetrics,
    ) -> Self {
        let resource = resource.replace(['|', '\n', '\r'], "_");
        let completed = completed.min(MAX_COUNT);
        let metrics = as_written(metrics, completed, millis);
        Self { resource, classification, completed, metrics }
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

    /// Returns the number of requests that completed, the field `success` of the line: those that
    /// succeeded, failed or were cancelled.
    ///
    /// ```
    /// use leaparray::MetricEvent::{Exception, Rt, Success};
    /// use leaparray::metric::MetricLine;
    ///
    /// // 20 requests completed, 2 of them with an exception, after 5 ms in the mean.
    /// let line = MetricLine::from_thin("1795760020000|GET /orders|20|85|20|2|5|0|0|0")?;
    /// assert_eq!(line.completed(), 20);
    /// let counts = &line.metrics().counts;
    /// assert_eq!((counts[Success], counts[Exception], counts[Rt]), (18, 2, 20));
    /// # Ok::<_, leaparray::metric::MetricLineError>(())
    /// ```
    #[must_use]
    pub const fn completed(&self) -> u64 {
        self.completed
    }

    /// Returns the metrics of the resource. The successes are the completed requests without the
    /// exceptions. The mean response time is in whole milliseconds; the sum and the number of the
    /// response times [follow from it](Self#what-is-lost).
    #[must_use]
    pub const fn metrics(&self) -> &SecondMetrics {
        &self.metrics
    }

    /// Returns the mean response time in whole milliseconds; 0 if there is none.
    fn rt_millis(&self) -> u64 {
        rt_millis(self.metrics.avg_rt())
    }
}

/// Returns the metrics as a line has them, rounded and cut, with these values of its fields
/// `success` and `rt`.
fn as_written(metrics: &SecondMetrics, completed: u64, millis: u64) -> SecondMetrics {
    let mut counts = with_mean_rt(completed, millis);
    for event in [MetricEvent::Pass, MetricEvent::Block, MetricEvent::ReservedPass] {
        counts[event] = metrics.counts[event].min(MAX_COUNT);
    }
    let exception = metrics.counts[MetricEvent::Exception].min(MAX_COUNT);
    counts[MetricEvent::Exception] = exception;
    counts[MetricEvent::Success] = completed.saturating_sub(exception);
    SecondMetrics {
        counts,
        concurrency: metrics.concurrency.min(MAX_CONCURRENCY),
        ..SecondMetrics::new(Timestamp::from_millis(metrics.second.as_millis()))
    }
}

/// Returns counts that have only response times: one of `millis` for each completed request.
fn with_mean_rt(completed: u64, millis: u64) -> EventCounts {
    let mean = Duration::from_millis(millis);
    let completed = completed.max(u64::from(millis > 0));
    // Fewer, if the sum would otherwise be cut, so that it has the same mean.
    let most = Duration::MAX.as_nanos().checked_div(mean.as_nanos());
    let rt_count =
        most.map_or(completed, |most| completed.min(most.try_into().unwrap_or(u64::MAX)));
    let mut counts = EventCounts::from([(MetricEvent::Rt, rt_count)]);
    counts.set_rt_sum(duration_of(mean.as_nanos() * u128::from(rt_count)));
    counts
}

/// Returns `rt` as a line has it: in whole milliseconds, cut at [`MAX_COUNT`].
fn rt_millis(rt: Option<Duration>) -> u64 {
    let millis = rt.unwrap_or_default().as_millis();
    millis.try_into().unwrap_or(MAX_COUNT).min(MAX_COUNT)
}
