//! The token buckets of rules, which lie beside each other.

use std::array;
use std::mem::offset_of;
use std::ops::Deref;
use std::sync::Arc;

use leaparray::flow::{Ask, Decision, Rate, TokenBucket};
use leaparray::{Clock, MonotonicClock};

use super::RuleClock;
use super::fast::{Endless, of_process};

/// A group of token buckets, which were created by one change of the rules.
///
/// With 10,000 rules, cache misses are most of the cost of a decision. A version of the rules has a
/// pointer to each group, and a resource has the number of its bucket, so a decision reads no
/// further line between the resource and the bucket: the pointers stay in the cache of the core.
///
/// A group is freed with the last of its buckets. So one bucket retains the memory of
/// [`LEN`](Self::LEN) of them, which bounds the length.
pub(crate) struct Buckets<C>([Slot<C>; BUCKETS]);

/// The number of buckets in a group. With 8, a decision takes as long, and one bucket retains
/// 1.4 KiB of other ones.
pub(crate) const BUCKETS: usize = 4;

/// A bucket, such that a decision reads and writes one cache line.
#[repr(C, align(64))]
struct Slot<C> {
    before: [u64; BEFORE],
    bucket: TokenBucket<C>,
}

/// The words in front of a bucket.
const BEFORE: usize = (64 - TokenBucket::<MonotonicClock>::DECISION_OFFSET) / size_of::<u64>();

const _: () = {
    let bucket = offset_of!(Slot<MonotonicClock>, bucket);
    let read = bucket + TokenBucket::<MonotonicClock>::DECISION_OFFSET;
    let line = align_of::<Slot<MonotonicClock>>();
    assert!(read.is_multiple_of(line), "not at the beginning of a cache line");
};

/// A token bucket of a group.
pub(crate) struct Bucket<C> {
    buckets: Arc<Buckets<C>>,
    slot: usize,
}

impl<C> Buckets<C> {
    /// Returns a bucket by its number in the group, or by a number of all groups of a version.
    #[inline]
    pub(crate) const fn get(&self, number: usize) -> &TokenBucket<C> {
        &self.0[number % BUCKETS].bucket
    }
}

impl<C> Bucket<C> {
    /// Returns the group.
    pub(crate) const fn group(&self) -> &Arc<Buckets<C>> {
        &self.buckets
    }

    /// Returns the number of the bucket in the group.
    pub(crate) const fn slot(&self) -> usize {
        self.slot
    }
}

impl<C: Clock + Clone> Bucket<C> {
    /// Puts a bucket into a group, alone.
    pub(super) fn alone(bucket: TokenBucket<C>, clock: &C) -> Self {
        Self::grouped(vec![bucket], clock).swap_remove(0)
    }

    /// Puts buckets into groups, in their order.
    pub(super) fn grouped(buckets: Vec<TokenBucket<C>>, clock: &C) -> Vec<Self> {
        let mut grouped = Vec::with_capacity(buckets.len());
        let mut buckets = buckets.into_iter();
        while buckets.len() > 0 {
            let slots = 0..buckets.len().min(BUCKETS);
            // The last group has buckets that no rule asks.
            let mut next = || buckets.next().unwrap_or_else(|| nothing(clock));
            let slot = |_| Slot { before: [0; BEFORE], bucket: next() };
            let group = Arc::new(Buckets(array::from_fn(slot)));
            grouped.extend(slots.map(|slot| Self { buckets: Arc::clone(&group), slot }));
        }
        grouped
    }
}

/// Returns a bucket that admits no request.
fn nothing<C: Clock + Clone>(clock: &C) -> TokenBucket<C> {
    let rate = Rate::per_second(1).expect("not zero");
    TokenBucket::with_clock(rate, 0, clock.clone())
}

impl<C: RuleClock> Bucket<C> {
    /// Returns the bucket as one with the clock of a process, if it has that.
    pub(crate) fn of_process(&self) -> Option<Bucket<MonotonicClock>> {
        Some(Bucket { buckets: of_process(&self.buckets)?, slot: self.slot })
    }
}

impl<C> Clone for Bucket<C> {
    fn clone(&self) -> Self {
        Self { buckets: Arc::clone(&self.buckets), slot: self.slot }
    }
}

impl<C> Deref for Bucket<C> {
    type Target = TokenBucket<C>;

    #[inline]
    fn deref(&self) -> &TokenBucket<C> {
        self.buckets.get(self.slot)
    }
}

impl<C: RuleClock> Endless for Bucket<C> {
    fn admits(&self, ask: &Ask<'_>, other: &mut Decision) -> bool {
        Endless::admits(&**self, ask, other)
    }

    fn would_admit(&self, ask: &Ask<'_>) -> bool {
        Endless::would_admit(&**self, ask)
    }

    fn refund(&self, ask: &Ask<'_>) {
        Endless::refund(&**self, ask);
    }
}
