//! Counters that are rarely read, of which threads write different cache lines.

use std::{fmt, iter};

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering, RacyOnce, lanes, stripe, zeros};

/// Counters that begin at 0 and saturate. Memory is taken for the first count.
///
/// Threads are spread over *lanes*, each with counters of its own, which the first count in the
/// lane makes. There are at least two lanes for each processor, so threads rarely share one. The
/// sums are those of all lanes, which stay while the counters do: no count is lost when a thread
/// ends.
///
/// The thread that makes a lane is its *owner*: it alone writes the lane's own counters, so it
/// needs no read-modify-write. No later thread gets its number, so the own counters of a thread
/// that has ended keep their values. The other threads of the lane share counters beside them.
pub(crate) struct LaneCounters<const N: usize>(RacyOnce<Box<[RacyOnce<CachePadded<Lane<N>>>]>>);

struct Lane<const N: usize> {
    /// The number of the thread that has made the lane.
    owner: usize,
    own: Counters<N>,
    /// The counters of the other threads, once there are some.
    shared: RacyOnce<CachePadded<Counters<N>>>,
}

type Counters<const N: usize> = [AtomicU64; N];

impl<const N: usize> LaneCounters<N> {
    pub(crate) fn new() -> Self {
        Self(RacyOnce::new())
    }

    /// Adds `count` to the counter with that index.
    #[inline]
    pub(crate) fn add(&self, index: usize, count: u64) {
        let lanes = self.0.get_or_init(|| (0..lanes()).map(|_| RacyOnce::new()).collect());
        let thread = stripe().number();
        // Their number is a power of two.
        let lane = lanes[thread & (lanes.len() - 1)].get_or_init(|| {
            CachePadded::new(Lane { owner: thread, own: zeros(), shared: RacyOnce::new() })
        });
        // Relaxed, as all accesses: a count that orders nothing.
        if lane.owner == thread {
            // No other thread writes it.
            let counter = &lane.own[index];
            let sum = counter.load(Ordering::Relaxed).saturating_add(count);
            counter.store(sum, Ordering::Relaxed);
        } else {
            lane.add_shared(index, count);
        }
    }

    /// Adds one to the counter with that index.
    #[inline]
    pub(crate) fn add_one(&self, index: usize) {
        self.add(index, 1);
    }

    /// Returns whether something was counted.
    pub(crate) fn is_used(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns the sums. They are read one by one, beside threads that count.
    pub(crate) fn sums(&self) -> [u64; N] {
        let mut sums = [0_u64; N];
        for lane in self.0.get().into_iter().flatten().filter_map(RacyOnce::get) {
            let shared = lane.shared.get().map(|it| &**it);
            for counters in iter::once(&lane.own).chain(shared) {
                for (sum, count) in sums.iter_mut().zip(counters) {
                    *sum = sum.saturating_add(count.load(Ordering::Relaxed));
                }
            }
        }
        sums
    }
}

impl<const N: usize> Lane<N> {
    /// Adds `count` to a counter of the threads that are not the owner.
    #[cold]
    fn add_shared(&self, index: usize, count: u64) {
        let counter = &self.shared.get_or_init(|| CachePadded::new(zeros()))[index];
        let add = |sum: u64| Some(sum.saturating_add(count));
        let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl<const N: usize> fmt::Debug for LaneCounters<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sums().fmt(f)
    }
}
