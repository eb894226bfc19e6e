//! Sums that a view keeps.

use leaparray::MetricEvent;
use leaparray::histogram::{CompactHistogram, HistogramBuckets};

use super::super::counts::FleetCounts;

/// The counts of a resource or a process in a second, with a histogram that takes few bytes: a view
/// keeps a sum for each of them and each second.
///
/// As in [`SecondMetrics`](leaparray::metric::SecondMetrics), the sum has no histogram if a part
/// with response times has none.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    /// Without the histogram.
    counts: FleetCounts,
    histogram: Option<CompactHistogram>,
}

impl Sum {
    pub(super) fn new(second: u64) -> Self {
        Self { counts: FleetCounts::new(second), histogram: None }
    }

    /// Creates a sum of some counts and the buckets of their histogram.
    pub(super) fn of(counts: FleetCounts, buckets: Option<&HistogramBuckets<'_>>) -> Self {
        Self { counts, histogram: buckets.map(Into::into) }
    }

    pub(super) const fn in_flight(&self) -> u64 {
        self.counts.in_flight
    }

    /// Adds some counts and the buckets of their histogram.
    pub(super) fn add(&mut self, counts: &FleetCounts, buckets: Option<&HistogramBuckets<'_>>) {
        let Self { counts: before, histogram } = self;
        match (&mut *histogram, buckets) {
            (Some(sum), Some(buckets)) => sum.merge_buckets(buckets),
            (None, Some(buckets)) if !has_rt(before) => *histogram = Some(buckets.into()),
            (_, None) if !has_rt(counts) => {}
            _ => *histogram = None,
        }
        self.counts.add(counts);
    }

    /// Adds this sum to the sum of earlier seconds.
    pub(super) fn add_to(&self, earlier: &mut FleetCounts) {
        let of_earlier = earlier.metrics.histogram.take();
        let histogram = match (of_earlier, &self.histogram) {
            (Some(mut sum), Some(histogram)) => {
                sum.merge_compact(histogram);
                Some(sum)
            }
            (None, Some(histogram)) if !has_rt(earlier) => Some(histogram.to_histogram()),
            (sum, None) if !has_rt(&self.counts) => sum,
            _ => None,
        };
        earlier.add_later(&self.counts);
        earlier.metrics.histogram = histogram;
    }
}

fn has_rt(counts: &FleetCounts) -> bool {
    counts.metrics.counts[MetricEvent::Rt] > 0
}
