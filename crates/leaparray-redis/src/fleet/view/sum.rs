//! Sums that a view keeps.

use leaparray::histogram::CompactHistogram;
use leaparray::{MetricEvent, Timestamp};

use super::super::counts::FleetCounts;
use super::super::second::{Distribution, Numbers, RowNumbers};

/// The counts of a resource or a process in a second, in few bytes: a view keeps a sum for each of
/// them and each second.
///
/// As in [`SecondMetrics`](leaparray::metric::SecondMetrics), the sum has no histogram if a part
/// with response times has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    counts: Numbers,
    histogram: Option<CompactHistogram>,
}

impl Sum {
    /// Creates a sum of some counts and their histogram.
    pub(super) fn of(counts: Numbers, histogram: Option<Distribution<'_>>) -> Self {
        Self { counts, histogram: histogram.map(Distribution::to_sum) }
    }

    pub(super) const fn in_flight(&self) -> u64 {
        self.counts.in_flight()
    }

    /// Adds some counts and their histogram.
    pub(super) fn add(&mut self, counts: RowNumbers<'_>, times: Option<Distribution<'_>>) {
        let Self { counts: before, histogram } = self;
        match (&mut *histogram, times) {
            (Some(sum), Some(times)) => times.add_to(sum),
            (None, Some(times)) if !before.has_rt() => *histogram = Some(times.to_sum()),
            (_, None) if !counts.has_rt() => {}
            _ => *histogram = None,
        }
        before.add(counts);
    }

    /// Adds this sum, which is of a second, to the sum of earlier ones.
    pub(super) fn add_to(&self, earlier: &mut FleetCounts, second: u64) {
        let of_earlier = earlier.metrics.histogram.take();
        let histogram = match (of_earlier, &self.histogram) {
            (Some(mut sum), Some(histogram)) => {
                sum.merge_compact(histogram);
                Some(sum)
            }
            (None, Some(histogram)) if !has_rt(earlier) => Some(histogram.to_histogram()),
            (sum, None) if !self.counts.has_rt() => sum,
            _ => None,
        };
        earlier.add_later(&self.counts.to_counts(Timestamp::from_secs(second)));
        earlier.metrics.histogram = histogram;
    }
}

fn has_rt(counts: &FleetCounts) -> bool {
    counts.metrics.counts[MetricEvent::Rt] > 0
}
