//! The ledgers of one window, current and free.

use super::ledger::Ledger;
use super::tagged_index::{index_of, next_word};
use crate::collections::Pool;
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// How many ledgers stand in the history itself: as many as take turns while one thread publishes at a
/// time.
const FIRST: u32 = 2;

/// The ledgers that a history's publishers take in turn, by their indices.
///
/// Ledger 0 is the history's first current one, and not free at the beginning.
#[derive(Debug)]
pub(crate) struct Ledgers {
    first: [Ledger; FIRST as usize],
    more: Pool<Ledger>,
    made: AtomicU32,
    /// The stack of free ledgers among the first, and that of the others, by index + 1; 0 if there is none.
    free: [AtomicU64; 2],
}

impl Ledgers {
    pub(crate) fn new() -> Self {
        Self {
            first: std::array::from_fn(|_| Ledger::new()),
            more: Pool::with_capacity(1),
            made: AtomicU32::new(1),
            free: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// A ledger, if it is one of the first.
    #[inline]
    pub(crate) fn first(&self, index: u32) -> Option<&Ledger> {
        self.first.get(index as usize)
    }

    /// The ledger of that index, which was made.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Ledger {
        let first = self.first.get(index as usize);
        first.unwrap_or_else(|| self.more.get(index - FIRST))
    }

    /// A ledger to fill: one of the first if one is free, so that it is read without a look-up in the pool.
    #[inline]
    pub(crate) fn take(&self) -> (u32, &Ledger) {
        if let Some(ledger) = self.free.iter().find_map(|free| self.take_from(free)) {
            return ledger;
        }
        let index = self.made.fetch_add(1, Ordering::Relaxed);
        let first = self.first.get(index as usize);
        let more = || self.more.make(index - FIRST, Ledger::new);
        (index, first.unwrap_or_else(more))
    }

    /// A ledger of one of the two stacks.
    #[inline]
    fn take_from(&self, free: &AtomicU64) -> Option<(u32, &Ledger)> {
        // Acquire: pairs with the Release in `give`. The head has moved on from it.
        let mut top = free.load(Ordering::Acquire);
        while let Some(index) = index_of(top).checked_sub(1) {
            let ledger = self.get(index);
            // If another thread has taken it by now, the tag has changed.
            let next = ledger.next_free().load(Ordering::Relaxed);
            stall::at(Point::FreeLedgerSeen);
            let below = next_word(top, next);
            // Relaxed: this very word was acquired above.
            match free.compare_exchange(top, below, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return Some((index, ledger)),
                Err(found) => top = found,
            }
        }
        None
    }

    /// Frees a ledger that is not the current one any more.
    #[inline]
    pub(crate) fn give(&self, index: u32, ledger: &Ledger) {
        let free = &self.free[usize::from(index >= FIRST)];
        let mut top = free.load(Ordering::Relaxed);
        loop {
            ledger.next_free().store(index_of(top), Ordering::Relaxed);
            let with_it = next_word(top, index + 1);
            match free.compare_exchange(top, with_it, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => top = found,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
impl Ledgers {
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// The free ledgers, counted from 1. No thread may publish at this time.
    pub(crate) fn free_ones(&self) -> impl Iterator<Item = u32> {
        self.free.iter().flat_map(|free| {
            let top = index_of(free.load(Ordering::Relaxed));
            let free = std::iter::successors(Some(top), |&index| {
                let ledger = self.get(index.checked_sub(1)?);
                Some(ledger.next_free().load(Ordering::Relaxed))
            });
            // One more than were made: enough to show a list that runs in a circle.
            free.take(self.made() as usize + 1)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn first_ledgers_are_taken_first() {
        let ledgers = Ledgers::new();
        let taken = [(); 3].map(|()| ledgers.take());
        assert_eq!(taken.map(|(index, _)| index), [1, 2, 3]);
        for (index, ledger) in taken {
            ledgers.give(index, ledger);
        }
        assert_eq!([(); 3].map(|()| ledgers.take().0), [1, 3, 2]);
    }
}
