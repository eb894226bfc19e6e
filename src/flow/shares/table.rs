//! The tenants that hold permits, or have asked for more than they got.

use crate::sync::{AtomicU64, Ordering, zeros};

/// A tenant in a slot: `{ tag: 24, epoch: 15, hungry: 1, in use: 24 }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

const USE_BITS: u32 = 24;
const HUNGRY: u64 = 1 << USE_BITS;
const EPOCH_BITS: u32 = 15;
const EPOCH_SHIFT: u32 = USE_BITS + 1;
const TAG_SHIFT: u32 = EPOCH_SHIFT + EPOCH_BITS;

/// The epochs, which wrap around.
pub(super) const EPOCHS: u64 = 1 << EPOCH_BITS;

impl Word {
    /// The most permits of a tenant.
    pub(super) const MOST: u64 = HUNGRY - 1;

    pub(super) const fn in_use(self) -> u64 {
        self.0 & Self::MOST
    }

    pub(super) const fn is_flagged(self) -> bool {
        self.0 & HUNGRY != 0
    }

    pub(super) const fn epoch(self) -> u64 {
        self.0 >> EPOCH_SHIFT & (EPOCHS - 1)
    }

    const fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    /// Returns whether the tenant is hungry: flagged in this epoch or in the one before.
    pub(super) const fn is_hungry(self, epoch: u64) -> bool {
        self.is_flagged() && epoch.wrapping_sub(self.epoch()) % EPOCHS <= 1
    }

    /// Returns the word of a tenant that is hungry in an epoch.
    pub(super) const fn hungry_in(self, epoch: u64) -> Self {
        let kept = self.0 >> TAG_SHIFT << TAG_SHIFT | self.in_use();
        Self(kept | epoch << EPOCH_SHIFT | HUNGRY)
    }

    /// Returns the word of a tenant that is not hungry.
    pub(super) const fn sated(self) -> Self {
        Self(self.0 & !HUNGRY)
    }

    pub(super) const fn plus(self, permits: u64) -> Self {
        Self(self.0 + permits)
    }

    pub(super) const fn minus(self, permits: u64) -> Self {
        Self(self.0 - permits)
    }
}

/// One cache line of slots, of which a tenant has one.
#[derive(Debug)]
#[repr(align(64))]
struct Bucket([AtomicU64; SLOTS]);

const SLOTS: usize = 8;

/// A table of a fixed size. A slot is free if its tenant holds nothing and is not hungry.
///
/// Two threads that claim a slot for one tenant at the same time claim the same one, unless another
/// slot of the bucket becomes free in between. The tenant then has two slots until one of them is
/// free, and permits of each are given back to the slot from which they were taken.
#[derive(Debug)]
pub(super) struct Table(Box<[Bucket]>);

/// A slot of a tenant, and its word.
pub(super) struct Found<'a> {
    pub(super) slot: &'a AtomicU64,
    pub(super) number: usize,
    pub(super) word: Word,
    /// The word as the tenant has it: without what is left of another one.
    pub(super) own: Word,
}

impl Table {
    /// Creates a table with four slots for each tenant.
    pub(super) fn new(tenants: usize) -> Self {
        let empty = |_| Bucket(zeros());
        Self((0..tenants.div_ceil(2).max(1)).map(empty).collect())
    }

    /// Returns the slot of a tenant, or a free one; `None` if the other tenants have all slots of
    /// the bucket.
    pub(super) fn find(&self, hash: u64, epoch: u64) -> Option<Found<'_>> {
        // The high bits of the hash, as a fraction of the buckets. The lowest ones are the tag.
        #[expect(clippy::cast_possible_truncation, reason = "below the number of buckets")]
        let bucket = ((u128::from(hash) * self.0.len() as u128) >> 64) as usize;
        let (tag, mut free) = (hash & ((1 << 24) - 1), None);
        for (number, slot) in self.0[bucket].0.iter().enumerate() {
            let word = Word(slot.load(Ordering::Relaxed));
            let number = bucket * SLOTS + number;
            if word.tag() == tag {
                return Some(Found { slot, number, word, own: word });
            }
            if free.is_none() && word.in_use() == 0 && !word.is_hungry(epoch) {
                let own = Word(tag << TAG_SHIFT);
                free = Some(Found { slot, number, word, own });
            }
        }
        free
    }

    pub(super) fn slot(&self, number: usize) -> &AtomicU64 {
        &self.0[number / SLOTS].0[number % SLOTS]
    }
}
