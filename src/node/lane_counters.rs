//! Counters that are rarely read, of which threads write different cache lines.

use std::fmt;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering, RacyOnce, lanes, stripe};

/// Counters that begin at 0 and saturate. Memory is taken for the first count.
///
/// Threads are spread over *lanes*, each with counters of its own, which the first count in the
/// lane makes. There are at least two lanes for each processor, so threads rarely share one. The
/// sums are those of all lanes, which stay while the counters do: no count is lost when a thread
/// ends.
pub(crate) struct LaneCounters<const N: usize>(RacyOnce<Box<[RacyOnce<Lane<N>>]>>);

type Lane<const N: usize> = CachePadded<[AtomicU64; N]>;

impl<const N: usize> LaneCounters<N> {
    pub(crate) fn new() -> Self {
        Self(RacyOnce::new())
    }

    /// Adds `count` to the counter with that index.
    #[inline]
    pub(crate) fn add(&self, index: usize, count: u64) {
        // Relaxed: a count that orders nothing. Few threads share it, so a compare-exchange rarely
        // fails.
        let add = |sum: u64| Some(sum.saturating_add(count));
        let _ = self.counter(index).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Adds one to the counter with that index, which is only counted one by one: it does not
    /// overflow within centuries, so the sum needs no check.
    #[inline]
    pub(crate) fn add_one(&self, index: usize) {
        // Relaxed: a count that orders nothing.
        self.counter(index).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counter with that index in the lane of this thread.
    #[inline]
    fn counter(&self, index: usize) -> &AtomicU64 {
        let lanes = self.0.get_or_init(|| (0..lanes()).map(|_| RacyOnce::new()).collect());
        // Their number is a power of two.
        let lane = &lanes[stripe().number() & (lanes.len() - 1)];
        let lane =
            lane.get_or_init(|| CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0))));
        &lane[index]
    }

    /// Returns whether something was counted.
    pub(crate) fn is_used(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns the sums. They are read one by one, beside threads that count.
    pub(crate) fn sums(&self) -> [u64; N] {
        let mut sums = [0_u64; N];
        for lane in self.0.get().into_iter().flatten().filter_map(RacyOnce::get) {
            for (sum, count) in sums.iter_mut().zip(lane.iter()) {
                *sum = sum.saturating_add(count.load(Ordering::Relaxed));
            }
        }
        sums
    }
}

impl<const N: usize> fmt::Debug for LaneCounters<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sums().fmt(f)
    }
}
