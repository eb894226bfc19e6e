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
/// To free a descriptor releases, and to take it acquires: a thread that takes a descriptor comes
/// after all earlier fillings and publications of it and of its spare row. Readers may still read
/// both; see [`History`](super::History). The tag of the stack grows with each change, so a stale
/// compare-exchange fails (ABA).
#[derive(Debug)]
pub(crate) struct Descriptors {
    first: [Descriptor; FIRST as usize],
    /// For each of the first descriptors, 1 while it is current or taken, and 0 while it is free.
    is_taken: [AtomicU32; FIRST as usize],
    more: Pool<Descriptor>,
    /// The number of further descriptors that were made.
    made: AtomicU32,
    /// A Treiber stack of further descriptors that are free, `{ tag: 40, index + 1: 24 }` with 0
    /// for an empty stack.
    free: AtomicU64,
}

impl Descriptors {
    pub(crate) fn new() -> Self {
        Self {
            first: std::array::from_fn(|_| Descriptor::new()),
            is_taken: [AtomicU32::new(1), AtomicU32::new(0)],
            more: Pool::with_capacity(1),
            made: AtomicU32::new(0),
            free: AtomicU64::new(0),
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
        // Not a loop, which takes twice as many instructions.
        let first = if self.take_first(0) {
            0
        } else if self.take_first(1) {
            1
        } else {
            return self.take_further();
        };
        (first, &self.first[first as usize])
    }

    /// Takes one of the first descriptors. Returns whether it was free.
    #[inline]
    fn take_first(&self, index: usize) -> bool {
        let is_taken = &self.is_taken[index];
        if is_taken.load(Ordering::Relaxed) != 0 {
            return false;
        }
        stall::at(Point::FreeDescriptorSeen);
        // Acquire: pairs with the Release in `give`. The head has moved on from the descriptor. If
        // two threads have found it free, only one of them succeeds.
        is_taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn take_further(&self) -> (u32, &Descriptor) {
        self.take_from(&self.free).unwrap_or_else(|| {
            let index = self.made.fetch_add(1, Ordering::Relaxed);
            (FIRST + index, self.more.make(index, Descriptor::new))
        })
    }

    /// Takes a descriptor from the stack.
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
        match self.is_taken.get(index as usize) {
            // Release: pairs with the Acquire in `take`. A store, since no other thread changes the
            // word while the descriptor is taken.
            Some(is_taken) => is_taken.store(0, Ordering::Release),
            None => self.give_further(index, descriptor),
        }
    }

    #[cold]
    #[inline(never)]
    fn give_further(&self, index: u32, descriptor: &Descriptor) {
        let free = &self.free;
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
        FIRST + self.made.load(Ordering::Relaxed)
    }

    /// Returns the free descriptors, by their indices plus 1. No thread may publish during the
    /// call.
    pub(crate) fn free_ones(&self) -> impl Iterator<Item = u32> {
        let first = (1..).zip(&self.is_taken);
        let first = first.filter(|(_, is_taken)| is_taken.load(Ordering::Relaxed) == 0);
        let top = index_of(self.free.load(Ordering::Relaxed));
        let further = std::iter::successors(Some(top), |&index| {
            let descriptor = self.get(index.checked_sub(1)?);
            Some(descriptor.next_free().load(Ordering::Relaxed))
        });
        // One more than were made: enough to reveal a cycle in the list.
        first.map(|(index, _)| index).chain(further.take(self.made() as usize + 1))
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
