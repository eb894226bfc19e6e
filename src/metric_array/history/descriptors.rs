//! The descriptors of one window, current and free.

use super::descriptor::Descriptor;
use super::tagged_index::{index_of, next_word};
use crate::collections::Pool;
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The number of descriptors inside the history itself: as many as alternate while one thread
/// publishes at a time.
const FIRST: u32 = 2;

/// The descriptors of a history, which its publishers take in turn, by their indices.
///
/// Descriptor 0 is the first current descriptor of a history, so it is not free at the beginning.
///
/// # Orderings
///
/// A push onto a stack releases, and the load of its top acquires: a thread that takes a descriptor
/// comes after all earlier fillings and publications of it and of its spare row. Readers may still
/// read both; see [`History`](super::History). The tag grows with each change, so a stale
/// compare-exchange fails (ABA).
#[derive(Debug)]
pub(crate) struct Descriptors {
    first: [Descriptor; FIRST as usize],
    more: Pool<Descriptor>,
    made: AtomicU32,
    /// Two Treiber stacks of free descriptors, `{ tag: 40, index + 1: 24 }` with 0 for an empty
    /// stack: one for the first descriptors, and one for the others.
    free: [AtomicU64; 2],
}

impl Descriptors {
    pub(crate) fn new() -> Self {
        Self {
            first: std::array::from_fn(|_| Descriptor::new()),
            more: Pool::with_capacity(1),
            made: AtomicU32::new(1),
            free: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Returns a descriptor, if it is one of the first.
    #[inline]
    pub(crate) fn first(&self, index: u32) -> Option<&Descriptor> {
        self.first.get(index as usize)
    }

    /// Returns the descriptor with that index, which must have been made.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Descriptor {
        let first = self.first.get(index as usize);
        first.unwrap_or_else(|| self.more.get(index - FIRST))
    }

    /// Takes a descriptor to fill: one of the first if one is free, since these are read without a
    /// look-up in the pool.
    #[inline]
    pub(crate) fn take(&self) -> (u32, &Descriptor) {
        if let Some(descriptor) = self.free.iter().find_map(|free| self.take_from(free)) {
            return descriptor;
        }
        let index = self.made.fetch_add(1, Ordering::Relaxed);
        let first = self.first.get(index as usize);
        let more = || self.more.make(index - FIRST, Descriptor::new);
        (index, first.unwrap_or_else(more))
    }

    /// Takes a descriptor from one of the two stacks.
    #[inline]
    fn take_from(&self, free: &AtomicU64) -> Option<(u32, &Descriptor)> {
        // Acquire: pairs with the Release in `give`. The head has moved on from the descriptor.
        let mut top = free.load(Ordering::Acquire);
        while let Some(index) = index_of(top).checked_sub(1) {
            let descriptor = self.get(index);
            // If another thread has taken the descriptor by now, the tag has changed, and the
            // compare-exchange fails.
            let next = descriptor.next_free().load(Ordering::Relaxed);
            stall::at(Point::FreeDescriptorSeen);
            let below = next_word(top, next);
            // Relaxed: this very word was acquired above.
            match free.compare_exchange(top, below, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return Some((index, descriptor)),
                Err(found) => top = found,
            }
        }
        None
    }

    /// Frees a descriptor that is no longer the current one.
    #[inline]
    pub(crate) fn give(&self, index: u32, descriptor: &Descriptor) {
        let free = &self.free[usize::from(index >= FIRST)];
        let mut top = free.load(Ordering::Relaxed);
        loop {
            descriptor.next_free().store(index_of(top), Ordering::Relaxed);
            let with_it = next_word(top, index + 1);
            // Release: pairs with the Acquire in `take_from`.
            match free.compare_exchange(top, with_it, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => top = found,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
impl Descriptors {
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the free descriptors, by their indices plus 1. No thread may publish during the
    /// call.
    pub(crate) fn free_ones(&self) -> impl Iterator<Item = u32> {
        self.free.iter().flat_map(|free| {
            let top = index_of(free.load(Ordering::Relaxed));
            let free = std::iter::successors(Some(top), |&index| {
                let descriptor = self.get(index.checked_sub(1)?);
                Some(descriptor.next_free().load(Ordering::Relaxed))
            });
            // One more than were made: enough to reveal a cycle in the list.
            free.take(self.made() as usize + 1)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn first_descriptors_are_taken_first() {
        let descriptors = Descriptors::new();
        let taken = [(); 3].map(|()| descriptors.take());
        assert_eq!(taken.map(|(index, _)| index), [1, 2, 3]);
        for (index, descriptor) in taken {
            descriptors.give(index, descriptor);
        }
        assert_eq!([(); 3].map(|()| descriptors.take().0), [1, 3, 2]);
    }
}
