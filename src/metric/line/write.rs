//! Formatting of lines.

use std::fmt;
use std::time::Duration;

use super::MetricLine;
use crate::metric::{MetricEvent, SecondMetrics};
use crate::time::Timestamp;

impl fmt::Display for MetricLine {
    /// Formats the fat form, without a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.metrics.second;
        write!(f, "{}|{}|{}", second.as_millis(), date(second), self.resource)?;
        self.write_numbers(f)
    }
}

impl MetricLine {
    /// Returns the thin form, without a line break.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Timestamp};
    /// use leaparray::metric::{MetricLine, SecondMetrics};
    ///
    /// let mut metrics = SecondMetrics::new(Timestamp::from_secs(60));
    /// metrics.counts[MetricEvent::Pass] = 5;
    /// let line = MetricLine::new("/foo/*", 1, &metrics);
    /// assert_eq!(line.thin().to_string(), "60000|/foo/*|5|0|0|0|0|0|0|1");
    /// ```
    #[must_use]
    pub const fn thin(&self) -> ThinLine<'_> {
        ThinLine(self)
    }

    /// Writes the fields that both forms have after the name of the resource.
    fn write_numbers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SecondMetrics { counts, concurrency, .. } = &self.metrics;
        write!(f, "|{}|{}", counts[MetricEvent::Pass], counts[MetricEvent::Block])?;
        write!(f, "|{}|{}", self.completed, counts[MetricEvent::Exception])?;
        write!(f, "|{}|{}", self.rt_millis(), counts[MetricEvent::ReservedPass])?;
        write!(f, "|{concurrency}|{}", self.classification)
    }
}

/// Formats the thin form: see [`MetricLine::thin`].
#[derive(Clone, Copy, Debug)]
pub struct ThinLine<'a>(&'a MetricLine);

impl fmt::Display for ThinLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}", self.0.metrics.second.as_millis(), self.0.resource)?;
        self.0.write_numbers(f)
    }
}

/// Returns the date and the time of day of `second`, in UTC.
fn date(second: Timestamp) -> impl fmt::Display {
    // Does not overflow: a timestamp ends in 2554, and the calendar in 9999.
    let instant = jiff::Timestamp::UNIX_EPOCH + Duration::from_nanos(second.as_nanos());
    instant.strftime("%Y-%m-%d %H:%M:%S")
}
