//! A set of 32 members in one word.

use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU64, Ordering};

/// A set of up to 32 places: `{ tag: 32, bits: 32 }`.
///
/// # Protocol
///
/// A place is removed by a thread that has found its cell idle, and inserted by the cell's owner
/// once the cell is no longer idle. An insertion changes the word even if the bit is set. If the
/// insertion precedes the load by the removing thread, that thread finds the cell in use; otherwise
/// the thread's compare-exchange fails. The masks of groups follow the same protocol: the groups of
/// a bit are removed by a thread that has found no active place in them, and inserted after the
/// place.
///
/// # Orderings
///
/// Insertions and removals release, and a load acquires. A reader that finds a place finds its cell
/// bound. A sweeper finds the binding, or its removal fails. A reader that misses a place that was
/// removed finds the bucket that has made the cell idle.
#[derive(Debug)]
pub(crate) struct Mask(AtomicU64);

impl Mask {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(crate) fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `insert`, so that a thread that sees the bit sees the
        // cell bound; and with the Release in `remove`, so that a reader that does not see the bit
        // sees the bucket that has made the cell idle.
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn insert(&self, bit: usize) {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let inserted = (word | 1 << bit).wrapping_add(1 << 32);
            // Release: pairs with the Acquire in `load`. Earlier stores by other threads stay
            // released: a read-modify-write continues their release sequences.
            match self.0.compare_exchange(word, inserted, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
    }

    /// Removes a place if it is in the set, and the set has not changed since it was `observed`.
    /// Returns whether it removed the place.
    pub(crate) fn remove(&self, observed: u64, bit: usize) -> bool {
        if observed & 1 << bit == 0 {
            return false;
        }
        stall::at(Point::IdleSeen);
        let removed = (observed & !(1 << bit)).wrapping_add(1 << 32);
        // Release: pairs with the Acquire in `load`.
        self.0.compare_exchange(observed, removed, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// The bits of a mask's word.
pub(super) const BITS: u64 = u32::MAX as u64;

/// Visits the bits of a mask's word.
#[inline]
pub(crate) fn for_each_bit(word: u64, mut visit: impl FnMut(usize)) {
    let _ = try_for_each_bit(word, |bit| {
        visit(bit);
        Some(())
    });
}

/// Visits the bits of a mask's word, until `visit` returns `None`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is the bits")]
pub(crate) fn try_for_each_bit(
    word: u64,
    mut visit: impl FnMut(usize) -> Option<()>,
) -> Option<()> {
    let mut bits = word as u32;
    while bits != 0 {
        visit(bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
    }
    Some(())
}

/// Returns whether a mask's word has no bit set.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is the bits")]
pub(crate) const fn is_empty(word: u64) -> bool {
    word as u32 == 0
}

/// Returns whether a mask's word has exactly one bit set.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is the bits")]
pub(crate) const fn has_one(word: u64) -> bool {
    (word as u32).is_power_of_two()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn removal_fails_after_an_insertion_of_the_same_place() {
        let mask = Mask::new();
        mask.insert(3);
        let observed = mask.load();
        mask.insert(3);
        assert!(!mask.remove(observed, 3));
        assert!(mask.remove(mask.load(), 3));
        assert_eq!(mask.load() & u64::from(u32::MAX), 0);
    }
}
