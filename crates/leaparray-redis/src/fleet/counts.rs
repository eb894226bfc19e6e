//! The counts of a resource or a process, in a second or in several.

use std::time::Duration;

use leaparray::metric::SecondMetrics;
use leaparray::node::Refusals;
use leaparray::{MetricEvent, Timestamp};

/// The counts of a resource, of a process or of the fleet: plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetCounts {
    /// The recorded metrics. The second in them is the first one of the sum. The highest number of
    /// requests in flight is the highest of a single resource in a single process.
    pub metrics: SecondMetrics,
    /// The number of requests in flight when the newest second was read.
    pub in_flight: u64,
    /// The refusals by reason, of those in [`Block`](MetricEvent::Block): their sum is that
    /// number, or smaller, since some refusals have no reason. Those of a resource that was evicted
    /// since the reading before have none. The reasons are read a moment after the end of the
    /// second, so refusals of that moment with other reasons may change the proportion.
    pub refusals: Refusals,
}

impl FleetCounts {
    pub(crate) fn new(second: u64) -> Self {
        Self { metrics: SecondMetrics::new(Timestamp::from_secs(second)), ..Self::default() }
    }

    /// Returns whether there is no event, no response time, no request in flight and no refusal by
    /// reason.
    ///
    /// It compares the counts of all events, the number of response times among them,
    /// [`in_flight`](Self::in_flight) and [`refusals`](Self::refusals) with zero. It ignores the
    /// time of the second, the highest number of requests in flight, the histogram, and the sum,
    /// the minimum and the maximum of the response times.
    ///
    /// ```
    /// use leaparray_redis::fleet::FleetCounts;
    ///
    /// let mut counts = FleetCounts::default();
    /// counts.metrics.concurrency = 3;
    /// assert!(counts.is_empty());
    /// counts.in_flight = 3;
    /// assert!(!counts.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { metrics, in_flight, refusals } = self;
        let is_counted = metrics.counts.iter().any(|(_, count)| count > 0);
        !is_counted && *in_flight == 0 && *refusals == Refusals::default()
    }

    /// Returns the number of requests: passes and blocks.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let counts = &self.metrics.counts;
        counts[MetricEvent::Pass].saturating_add(counts[MetricEvent::Block])
    }

    /// Returns a quantile of the response times, with the relative error of the histogram; `None`
    /// if there are none, or if the histogram of some of them is not known.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        self.metrics.histogram.as_ref()?.quantile(q)
    }

    /// Adds the counts of another resource or process.
    pub(crate) fn add(&mut self, other: &Self) {
        let in_flight = self.in_flight.saturating_add(other.in_flight);
        self.add_later(other);
        self.in_flight = in_flight;
    }

    /// Adds the counts of a later second.
    pub(crate) fn add_later(&mut self, later: &Self) {
        self.metrics += &later.metrics;
        self.in_flight = later.in_flight;
        self.refusals += &later.refusals;
    }
}
