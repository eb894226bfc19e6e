//! The encoding of a row: its numbers that are not 0.

use std::time::Duration;

use leaparray::{LatencyHistogram, Refusals, SecondMetrics, Timestamp};
use serde::{Deserialize, Serialize};

use super::super::codec::FormatError;
use super::super::counts::FleetCounts;
use super::Row;

/// The number of numbers of a row.
const FIELDS: usize = 20;

/// A row: the number of its name, a mask of the numbers that follow, those numbers, and the histogram.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireRow(u32, u32, Vec<u64>, Option<WireHistogram>);

/// A histogram: the scale; sum, shortest and longest response time, unless they are those of the row; and for each bucket
/// that is not empty, the distance of its index from the one before, and its count.
#[derive(Debug, Serialize, Deserialize)]
struct WireHistogram(i8, Option<[u64; 4]>, i32, Vec<(u32, u64)>);

impl WireRow {
    pub(super) fn new(name: u32, counts: &FleetCounts) -> Self {
        let FleetCounts { metrics, in_flight, refusals } = counts;
        // An extreme of 0 ns differs from one that is not known.
        let extreme = |it: Option<Duration>| it.map_or(0, |it| nanos(it).saturating_add(1));
        let numbers: [u64; FIELDS] = [
            metrics.pass,
            metrics.success,
            metrics.rt_count,
            u64::from(metrics.rt_sum.subsec_nanos()),
            metrics.rt_sum.as_secs(),
            extreme(metrics.min_rt),
            extreme(metrics.max_rt),
            metrics.concurrency,
            *in_flight,
            metrics.block,
            metrics.exception,
            metrics.cancelled,
            metrics.reserved_pass,
            refusals.limit_reached,
            refusals.wait_too_long,
            refusals.more_than_limit,
            refusals.failing,
            refusals.custom,
            refusals.queue_full,
            // For a number that later versions may add.
            0,
        ];
        let mask =
            numbers.iter().enumerate().fold(0, |mask, (i, it)| mask | u32::from(*it != 0) << i);
        let numbers = numbers.into_iter().filter(|it| *it != 0).collect();
        let histogram = metrics.histogram.as_ref().map(|it| WireHistogram::new(it, metrics));
        Self(name, mask, numbers, histogram)
    }

    pub(super) const fn name(&self) -> u32 {
        self.0
    }

    /// Returns the number of bytes.
    pub(super) fn size(&self) -> usize {
        postcard::experimental::serialized_size(self).unwrap_or(usize::MAX)
    }

    pub(super) fn row(self, second: Timestamp) -> Result<Row, FormatError> {
        let Self(name, mask, given, histogram) = self;
        let mut numbers = [0; FIELDS];
        let mut given = given.into_iter();
        for (i, number) in numbers.iter_mut().enumerate() {
            if mask & 1 << i != 0 {
                *number = given.next().ok_or(FormatError::Damaged)?;
            }
        }
        let [
            pass,
            success,
            rt_count,
            rt_nanos,
            rt_secs,
            min_rt,
            max_rt,
            concurrency,
            in_flight,
            block,
            exception,
            cancelled,
            reserved_pass,
            limit_reached,
            wait_too_long,
            more_than_limit,
            failing,
            custom,
            queue_full,
            _,
        ] = numbers;
        let mut metrics = SecondMetrics::new(second);
        (metrics.pass, metrics.block) = (pass, block);
        (metrics.success, metrics.exception) = (success, exception);
        (metrics.reserved_pass, metrics.cancelled) = (reserved_pass, cancelled);
        metrics.rt_count = rt_count;
        metrics.rt_sum =
            Duration::from_secs(rt_secs).saturating_add(Duration::from_nanos(rt_nanos));
        let extreme = |it: u64| it.checked_sub(1).map(Duration::from_nanos);
        (metrics.min_rt, metrics.max_rt) = (extreme(min_rt), extreme(max_rt));
        metrics.concurrency = concurrency;
        metrics.histogram = histogram.map(|it| it.histogram(&metrics)).transpose()?;
        let mut refusals = Refusals::default();
        (refusals.limit_reached, refusals.wait_too_long) = (limit_reached, wait_too_long);
        (refusals.more_than_limit, refusals.failing) = (more_than_limit, failing);
        (refusals.custom, refusals.queue_full) = (custom, queue_full);
        Ok(Row { name, counts: FleetCounts { metrics, in_flight, refusals } })
    }
}

impl WireHistogram {
    fn new(histogram: &LatencyHistogram, metrics: &SecondMetrics) -> Self {
        let mut before = None::<i32>;
        let mut first = 0;
        let buckets = histogram.buckets().map(|it| {
            let gap = it.index.abs_diff(before.unwrap_or_else(|| {
                first = it.index;
                it.index
            }));
            before = Some(it.index);
            (gap, it.count)
        });
        let buckets = buckets.collect();
        let is_of_row = histogram.sum() == metrics.rt_sum
            && histogram.min() == metrics.min_rt
            && histogram.max() == metrics.max_rt;
        let own = (!is_of_row).then(|| {
            let extreme = |it: Option<Duration>| it.map_or(0, nanos);
            let sum = histogram.sum();
            let [min, max] = [histogram.min(), histogram.max()].map(extreme);
            [sum.as_secs(), sum.subsec_nanos().into(), min, max]
        });
        Self(histogram.scale(), own, first, buckets)
    }

    fn histogram(self, metrics: &SecondMetrics) -> Result<LatencyHistogram, FormatError> {
        let Self(scale, own, first, gaps) = self;
        let (sum, min, max) = own.map_or_else(
            || {
                let extreme = |it: Option<Duration>| it.unwrap_or_default();
                (metrics.rt_sum, extreme(metrics.min_rt), extreme(metrics.max_rt))
            },
            |[secs, subsec, min, max]| {
                let sum = Duration::from_secs(secs).saturating_add(Duration::from_nanos(subsec));
                (sum, Duration::from_nanos(min), Duration::from_nanos(max))
            },
        );
        let mut index = first;
        let buckets = gaps.into_iter().map(|(gap, count)| {
            index = index.saturating_add_unsigned(gap);
            (index, count)
        });
        LatencyHistogram::from_buckets(scale, sum, min, max, buckets)
            .map_err(|_| FormatError::Damaged)
    }
}

/// Returns a time in nanoseconds, at most `u64::MAX`.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
