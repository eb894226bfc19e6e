//! The token buckets of rules, which lie beside each other if there are many.

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
/// A group is freed with the last of its buckets. So one bucket retains the memory of [`BUCKETS`]
/// of them, which bounds the length, and a change that creates fewer than [`MANY`] of them leaves
/// each alone.
pub(crate) struct Buckets<C>([Slot<C>; BUCKETS]);

/// The number of buckets in a group. With 8, a decision takes as long, and one bucket retains
/// 1.4 KiB of other ones.
pub(crate) const BUCKETS: usize = 4;

/// The number of buckets from which a change puts them into groups. The pointers to fewer buckets
/// take few cache lines, and a bucket that lies alone takes as much memory as by hand. The unused
/// buckets of the last group take at most 9 bytes for each of the others.
const MANY: usize = 64;

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

/// A group, and the number of a bucket in it.
type Slotted<'a, C> = (&'a Arc<Buckets<C>>, usize);

/// A token bucket of a rule.
pub(crate) struct Bucket<C>(Place<C>);

enum Place<C> {
    OfGroup {
        buckets: Arc<Buckets<C>>,
        /// The number of the bucket in the group.
        slot: u8,
    },
    Alone(Arc<TokenBucket<C>>),
}

impl<C> Buckets<C> {
    /// Returns a bucket by its number in the group, or by a number of all groups of a version.
    #[inline]
    pub(crate) const fn get(&self, number: usize) -> &TokenBucket<C> {
        &self.0[number % BUCKETS].bucket
    }
}

impl<C> Bucket<C> {
    /// Returns the group, and the number of the bucket in it.
    ///
    /// # Errors
    ///
    /// Returns the bucket if it is alone.
    pub(crate) fn group(&self) -> Result<Slotted<'_, C>, &Arc<TokenBucket<C>>> {
        match &self.0 {
            Place::OfGroup { buckets, slot } => Ok((buckets, (*slot).into())),
            Place::Alone(bucket) => Err(bucket),
        }
    }
}

impl<C: Clock + Clone> Bucket<C> {
    pub(super) fn alone(bucket: TokenBucket<C>) -> Self {
        Self(Place::Alone(Arc::new(bucket)))
    }

    /// Puts many buckets into groups, in their order.
    pub(super) fn of_all(buckets: Vec<TokenBucket<C>>, clock: &C) -> Vec<Self> {
        let mut all = Vec::with_capacity(buckets.len());
        let mut buckets = buckets.into_iter();
        if buckets.len() < MANY {
            return buckets.map(Self::alone).collect();
        }
        while buckets.len() > 0 {
            let slots = (0..).take(buckets.len().min(BUCKETS));
            // The last group has buckets that no rule asks.
            let mut next = || buckets.next().unwrap_or_else(|| nothing(clock));
            let slot = |_| Slot { before: [0; BEFORE], bucket: next() };
            let group = Arc::new(Buckets(array::from_fn(slot)));
            let of_group = |slot| Self(Place::OfGroup { buckets: Arc::clone(&group), slot });
            all.extend(slots.map(of_group));
        }
        all
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
        Some(Bucket(match &self.0 {
            Place::OfGroup { buckets, slot } => {
                Place::OfGroup { buckets: of_process(buckets)?, slot: *slot }
            }
            Place::Alone(bucket) => Place::Alone(of_process(bucket)?),
        }))
    }
}

impl<C> Clone for Bucket<C> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Place::OfGroup { buckets, slot } => {
                Place::OfGroup { buckets: Arc::clone(buckets), slot: *slot }
            }
            Place::Alone(bucket) => Place::Alone(Arc::clone(bucket)),
        })
    }
}

impl<C> Deref for Bucket<C> {
    type Target = TokenBucket<C>;

    #[inline]
    fn deref(&self) -> &TokenBucket<C> {
        match &self.0 {
            Place::OfGroup { buckets, slot } => buckets.get((*slot).into()),
            Place::Alone(bucket) => bucket,
        }
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
