//! The counters of one bucket.

use std::time::Duration;

use crate::bucket::Bucket;
use crate::cell::CEILING;
use crate::cell_list::{CellNode, Place};
use crate::event::MetricEvent;
use crate::metric_cell::{CellWriter, MetricCell};
use crate::metric_totals::MetricTotals;
use crate::sync::{Ordering, ThreadToken, fence};
use crate::timestamp::saturating_nanos;

/// One counter for each [`MetricEvent`], the extremes of the response time, and the highest
/// concurrency; what Sentinel calls `MetricBucket`.
///
/// Counters neither wrap nor lose: each thread's ends at [`MetricBucket::CEILING`], and a sum that
/// reads as much says "at least that".
///
/// ```
/// use leaparray::{Bucket, MetricBucket, MetricEvent};
/// use std::time::Duration;
///
/// let bucket = MetricBucket::default();
/// bucket.add(MetricEvent::Pass, 2);
/// bucket.record_rt(Duration::from_millis(3));
/// bucket.record_rt(Duration::from_millis(5));
/// assert_eq!(bucket.sum(MetricEvent::Pass), 2);
///
/// let totals = bucket.total();
/// assert_eq!(totals.avg_rt(), Some(Duration::from_millis(4)));
/// assert_eq!(totals.min_rt(), Some(Duration::from_millis(3)));
/// ```
#[derive(Debug)]
pub struct MetricBucket {
    /// The first of its cells, and the list of the others.
    first: CellNode<MetricCell>,
}

impl MetricBucket {
    /// Where one thread's counter in one bucket saturates: 2⁶², in nanoseconds 146 years.
    pub const CEILING: u64 = CEILING;

    /// Adds `count` of `event`. A count cannot be negative: a total only grows.
    ///
    /// A count of [`MetricEvent::Rt`] is one response time of so many nanoseconds.
    pub fn add(&self, event: MetricEvent, count: u64) {
        self.write(|cell| cell.add(event, count));
    }

    /// Records one response time, at most [`Self::CEILING`] nanoseconds.
    pub fn record_rt(&self, rt: Duration) {
        self.write(|cell| cell.record_rt(saturating_nanos(rt)));
    }

    /// Records that `concurrency` requests were under way at once.
    pub fn record_concurrency(&self, concurrency: u64) {
        self.write(|cell| cell.record_concurrency(concurrency));
    }

    fn write(&self, op: impl FnOnce(CellWriter<'_>)) {
        // Release: as in `BucketWrap::hold`, for a thread that was lent the bucket by the one that
        // holds it. A hand is its own thread's, and does without.
        fence(Ordering::Release);
        op(self.writer(&self.place(ThreadToken::current())));
    }

    /// Where the thread of that token is to write.
    pub(crate) fn place(&self, token: ThreadToken) -> Place<MetricCell> {
        self.first.place(token)
    }

    /// The cell that is part of the bucket.
    #[inline]
    pub(crate) const fn first_cell(&self) -> &MetricCell {
        self.first.cell()
    }

    pub(crate) fn writer<'a>(&'a self, place: &'a Place<MetricCell>) -> CellWriter<'a> {
        let cell = place.further_cell().unwrap_or(self.first_cell());
        CellWriter { cell, owned: place.is_owned() }
    }

    /// The sum of what was added of `event`: for [`MetricEvent::Rt`] in nanoseconds.
    #[must_use]
    #[inline]
    pub fn sum(&self, event: MetricEvent) -> u64 {
        self.fold(0, |sum: u64, cell| sum.saturating_add(cell.sum(event)))
    }

    /// The sum of the response times in nanoseconds, and how many there were.
    #[inline]
    pub(crate) fn rt(&self) -> (u128, u64) {
        self.fold((0, 0), |(nanos, count), cell| {
            let (more_nanos, more_count) = cell.rt();
            (nanos + u128::from(more_nanos), count + more_count)
        })
    }

    /// The shortest response time recorded.
    #[must_use]
    pub fn min_rt(&self) -> Option<Duration> {
        self.fold(None, |min: Option<_>, cell| min.into_iter().chain(cell.min_rt()).min())
    }

    /// The longest response time recorded.
    #[must_use]
    pub fn max_rt(&self) -> Option<Duration> {
        self.fold(None, |max: Option<_>, cell| max.max(cell.max_rt()))
    }

    /// The highest concurrency recorded.
    #[must_use]
    pub fn max_concurrency(&self) -> Option<u64> {
        self.fold(None, |max: Option<_>, cell| max.max(cell.max_concurrency()))
    }

    #[inline]
    fn fold<T>(&self, init: T, mut add: impl FnMut(T, &MetricCell) -> T) -> T {
        let folded = add(init, self.first_cell());
        // Apart: most buckets have no more than that one.
        match self.first.next() {
            Some(next) => next.list().fold(folded, |folded, node| add(folded, node.cell())),
            None => folded,
        }
    }
}

impl Default for MetricBucket {
    fn default() -> Self {
        Self { first: CellNode::new(ThreadToken::NONE) }
    }
}

impl Bucket for MetricBucket {
    type Total = MetricTotals;

    /// Empties all cells, and frees them for whoever comes first.
    fn reset(&self) {
        self.first.list().for_each(|node| node.cell().reset());
        self.first.free();
    }

    fn total(&self) -> MetricTotals {
        self.fold(MetricTotals::default(), |mut totals, cell| {
            totals += &cell.total();
            totals
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::cell_limit;

    const PASS: MetricEvent = MetricEvent::Pass;

    #[test]
    fn threads_have_a_cell_each_up_to_the_limit_and_then_share_one() {
        let bucket = MetricBucket::default();
        let places: Vec<_> = (2..1_000).map(|token| bucket.place(ThreadToken(token))).collect();
        let owned = places.iter().take_while(|place| place.is_owned()).count();
        assert_eq!(owned, cell_limit());
        assert!(places[owned..].iter().all(|place| !place.is_owned()));
        for place in &places {
            bucket.writer(place).add(PASS, 1);
        }
        assert_eq!(bucket.sum(PASS), 998);
        assert_eq!(bucket.fold(0, |cells, _| cells + 1), cell_limit() + 1);
        let again = bucket.place(ThreadToken(3));
        assert!(std::ptr::eq(bucket.writer(&again).cell, bucket.writer(&places[1]).cell));
    }

    #[test]
    fn a_thread_without_a_token_shares() {
        let bucket = MetricBucket::default();
        assert!(!bucket.place(ThreadToken::SHARED).is_owned());
        assert!(!bucket.place(ThreadToken(2)).is_owned(), "the first cell is shared now");
        let bucket = MetricBucket::default();
        assert!(bucket.place(ThreadToken(2)).is_owned());
        assert!(!bucket.place(ThreadToken::SHARED).is_owned());
        assert!(bucket.place(ThreadToken(2)).is_owned());
    }

    #[test]
    fn a_bucket_that_is_used_again_has_its_cells_to_give_away() {
        let bucket = MetricBucket::default();
        for token in [ThreadToken::SHARED, ThreadToken(2), ThreadToken(3)] {
            let place = bucket.place(token);
            bucket.writer(&place).add(PASS, 1);
        }
        assert_eq!(bucket.sum(PASS), 3);
        for round in 0..3 {
            bucket.reset();
            assert_eq!(bucket.total(), MetricTotals::default(), "round {round}");
            for token in 2..1_000 {
                let place = bucket.place(ThreadToken(token + round));
                assert_eq!(place.is_owned(), token < 2 + u32::try_from(cell_limit()).unwrap());
                bucket.writer(&place).add(PASS, 1);
            }
            assert_eq!(bucket.sum(PASS), 998);
        }
    }
}
