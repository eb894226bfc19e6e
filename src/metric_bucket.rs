//! The counters of one bucket.

use std::time::Duration;

use crate::bucket::Bucket;
use crate::cell::CEILING;
use crate::event::MetricEvent;
use crate::metric_cell::{CellWriter, MetricCell};
use crate::metric_totals::MetricTotals;
use crate::sync::stall::{self, Point};
use crate::sync::{Arc, AtomicU32, Lazy, Ordering, ThreadToken, cell_limit, fence};
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
    first: Node,
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

    /// The cell that the thread of that token is to write: its own, or the one that is shared by
    /// all for whom there is none.
    ///
    /// The first thread takes the cell that is part of the bucket. For each further one a cell is
    /// appended to it, as a list, up to a limit; the last one is shared. A cell goes with its
    /// token, to the next thread that has it.
    pub(crate) fn place(&self, token: ThreadToken) -> Place {
        let mut node: Option<&Arc<Node>> = None;
        for depth in 1.. {
            let here = node.map_or(&self.first, Arc::as_ref);
            if here.admits(token) {
                let owned = token != ThreadToken::SHARED && here.owner() == token;
                return Place { node: node.cloned(), owned };
            }
            let owner = if depth < cell_limit() { token } else { ThreadToken::SHARED };
            node = Some(here.next.get_or_make(|| Arc::new(Node::new(owner))));
        }
        unreachable!("a list of cells ends with one that admits everybody")
    }

    /// The cell that is part of the bucket.
    #[inline]
    pub(crate) const fn first_cell(&self) -> &MetricCell {
        &self.first.cell
    }

    pub(crate) fn writer<'a>(&'a self, place: &'a Place) -> CellWriter<'a> {
        let cell = place.further_cell().unwrap_or(self.first_cell());
        CellWriter { cell, owned: place.owned }
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
        match self.first.next.get() {
            Some(next) => next.list().fold(folded, |folded, node| add(folded, &node.cell)),
            None => folded,
        }
    }
}

impl Default for MetricBucket {
    fn default() -> Self {
        Self { first: Node::new(ThreadToken::NONE) }
    }
}

impl Bucket for MetricBucket {
    type Total = MetricTotals;

    /// Empties all cells, and frees them for whoever comes first.
    fn reset(&self) {
        for (depth, node) in self.first.list().enumerate() {
            node.reset(depth >= cell_limit());
        }
    }

    fn total(&self) -> MetricTotals {
        self.fold(MetricTotals::default(), |mut totals, cell| {
            totals += &cell.total();
            totals
        })
    }
}

/// Where in a bucket a thread writes. It goes with that bucket and that thread.
#[derive(Debug)]
pub(crate) struct Place {
    /// The node of the cell; `None` for the bucket's first.
    node: Option<Arc<Node>>,
    owned: bool,
}

impl Place {
    /// The cell, if it is not the bucket's first.
    #[inline]
    pub(crate) fn further_cell(&self) -> Option<&MetricCell> {
        self.node.as_deref().map(|node| &node.cell)
    }

    /// Whether the cell is one thread's own.
    pub(crate) fn is_owned(&self) -> bool {
        self.owned
    }
}

/// A cell, whose it is, and the list of those after it.
//
// In this order: what a sum needs of it is side by side.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// Made once, and kept for as long as the bucket's memory is.
    next: Lazy<Arc<Self>>,
    cell: MetricCell,
    owner: AtomicU32,
}

impl Node {
    fn new(owner: ThreadToken) -> Self {
        Self { next: Lazy::new(), cell: MetricCell::new(), owner: AtomicU32::new(owner.0) }
    }

    /// This one and those after it.
    #[inline]
    fn list(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |node| node.next.get().map(Arc::as_ref))
    }

    fn reset(&self, is_last: bool) {
        self.cell.reset();
        let owner = if is_last { ThreadToken::SHARED } else { ThreadToken::NONE };
        self.owner.store(owner.0, Ordering::Relaxed);
    }

    fn owner(&self) -> ThreadToken {
        ThreadToken(self.owner.load(Ordering::Relaxed))
    }

    /// Whether that thread may write here: it is the owner, or becomes it, or nobody is.
    fn admits(&self, token: ThreadToken) -> bool {
        let owner = self.owner();
        owner == token
            || owner == ThreadToken::SHARED
            || (owner == ThreadToken::NONE && self.claim(token))
    }

    fn claim(&self, token: ThreadToken) -> bool {
        stall::at(Point::CellFree);
        // Relaxed: an unclaimed cell has no counts that its owner would have to see. One that was
        // used before was emptied before its wrap was swapped into a slot.
        self.owner
            .compare_exchange(ThreadToken::NONE.0, token.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PASS: MetricEvent = MetricEvent::Pass;

    #[test]
    fn threads_have_a_cell_each_up_to_the_limit_and_then_share_one() {
        let bucket = MetricBucket::default();
        let places: Vec<_> = (2..1_000).map(|token| bucket.place(ThreadToken(token))).collect();
        let owned = places.iter().take_while(|place| place.owned).count();
        assert_eq!(owned, cell_limit());
        assert!(places[owned..].iter().all(|place| !place.owned));
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
        assert!(!bucket.place(ThreadToken::SHARED).owned);
        assert!(!bucket.place(ThreadToken(2)).owned, "the first cell is shared now");
        let bucket = MetricBucket::default();
        assert!(bucket.place(ThreadToken(2)).owned);
        assert!(!bucket.place(ThreadToken::SHARED).owned);
        assert!(bucket.place(ThreadToken(2)).owned);
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
                assert_eq!(place.owned, token < 2 + u32::try_from(cell_limit()).unwrap());
                bucket.writer(&place).add(PASS, 1);
            }
            assert_eq!(bucket.sum(PASS), 998);
        }
    }
}
