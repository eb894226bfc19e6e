//! A process-wide slab of items that are never freed.

use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU32, AtomicU64, Ordering, RacyOnce};

/// An item of a [`Slab`].
pub(crate) trait SlabItem {
    /// The number of items in the first chunk. Each chunk but the first doubles the slab.
    const FIRST_CHUNK: u32;

    /// Returns the item's index in the slab.
    fn index(&self) -> u32;

    /// Returns the word that refers to the next free item while this item is free. While the item
    /// is in use, the word belongs to its owner.
    fn link(&self) -> &AtomicU32;
}

/// Items that are allocated in chunks, never freed, and recycled for ever.
///
/// A chunk is allocated privately and then published, so that no thread waits for another. Free
/// items are in a Treiber stack.
///
/// # Orderings
///
/// `give` releases and `take` acquires: the next owner of an item sees the last write of the
/// previous owner, and all writes of the next owner come after it.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pub(crate) chunks: [RacyOnce<Box<[T]>>; SLAB_CHUNKS],
    /// The number of items that were handed out at least once.
    pub(crate) made: AtomicU32,
    /// `{ tag, index + 1 }`: the top of the stack, with 0 for an empty stack. The tag grows with
    /// each change, so that a stale compare-exchange fails (ABA). It has all bits that the largest
    /// index leaves: 36 for cells, and 40 for recorders.
    pub(crate) free: AtomicU64,
    /// The number of items on the stack: for [`usage`](Self::usage).
    pub(crate) free_len: AtomicU32,
}

/// The number of chunks. Further ones would take bits of the tag. A slab of cells with all chunks
/// takes 16 GiB.
pub(crate) const SLAB_CHUNKS: usize = if cfg!(loom) { 4 } else { 22 };

/// Creates an empty slab. A macro, since the constructors of loom's atomics are not `const`.
macro_rules! slab {
    () => {
        $crate::collections::Slab {
            chunks: $crate::sync::racy_once_array!($crate::collections::SLAB_CHUNKS),
            made: $crate::sync::AtomicU32::new(0),
            free: $crate::sync::AtomicU64::new(0),
            free_len: $crate::sync::AtomicU32::new(0),
        }
    };
}
pub(crate) use slab;

/// The numbers of items in use and of free items, and of the items that were allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabUsage {
    pub(crate) in_use: usize,
    pub(crate) free: usize,
    pub(crate) allocated: usize,
}

impl<T: SlabItem> Slab<T> {
    /// The number of items in all chunks.
    const CAPACITY: u32 = T::FIRST_CHUNK << (SLAB_CHUNKS - 1);

    /// The number of bits of an index plus 1.
    const INDEX_BITS: u32 = Self::CAPACITY.ilog2() + 1;

    /// Takes a free item, or a new one that `new` makes for its index; `None` if the slab is full.
    pub(crate) fn take(&'static self, new: impl Fn(u32) -> T) -> Option<&'static T> {
        let mut top = self.free.load(Ordering::Acquire);
        while let Some(index) = Self::next_of(top).checked_sub(1) {
            let Some(item) = self.get(index) else { break };
            // If another thread has taken the item by now, this is no longer its successor. Then
            // the tag has changed, and the compare-exchange fails.
            let next = item.link().load(Ordering::Relaxed);
            stall::at(Point::FreeCellSeen);
            let below = Self::word(top, next);
            // Relaxed: this very word was acquired above.
            match self.free.compare_exchange(top, below, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => {
                    self.free_len.fetch_sub(1, Ordering::Relaxed);
                    return Some(item);
                }
                Err(found) => top = found,
            }
        }
        self.make(new)
    }

    fn make(&'static self, new: impl Fn(u32) -> T) -> Option<&'static T> {
        // Relaxed: the update gives each thread a different index, and orders nothing.
        let index = self
            .made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| made.checked_add(1))
            .ok()?;
        let (chunk, offset) = place::<T>(index)?;
        let items = self.chunks.get(chunk)?.get_or_init(|| {
            let (first, len) = span::<T>(chunk);
            (first..first + len).map(new).collect()
        });
        items.get(offset)
    }

    /// Gives back an item that no thread may write any longer.
    pub(crate) fn give(&self, item: &T) {
        // Incremented before the item can be taken, so that the number never falls below zero.
        self.free_len.fetch_add(1, Ordering::Relaxed);
        let mut top = self.free.load(Ordering::Relaxed);
        loop {
            item.link().store(Self::next_of(top), Ordering::Relaxed);
            let with_item = Self::word(top, item.index() + 1);
            // Release: pairs with the Acquire in `take`.
            match self.free.compare_exchange(top, with_item, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(found) => top = found,
            }
        }
    }

    /// Returns the index at the top of the stack, plus 1; 0 if the stack is empty.
    #[expect(clippy::cast_possible_truncation, reason = "at most 32 bits")]
    const fn next_of(top: u64) -> u32 {
        (top & ((1 << Self::INDEX_BITS) - 1)) as u32
    }

    /// Returns the word that follows `top`, with `next` at the top: an index plus 1, or 0.
    const fn word(top: u64, next: u32) -> u64 {
        // The highest bit of the tag is shifted out.
        (((top >> Self::INDEX_BITS) + 1) << Self::INDEX_BITS) | next as u64
    }

    /// Returns the item with that index, if its chunk has been made.
    pub(crate) fn get(&'static self, index: u32) -> Option<&'static T> {
        let (chunk, offset) = place::<T>(index)?;
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// Returns the items that were allocated, whether they were handed out or not.
    pub(crate) fn allocated(&'static self) -> impl Iterator<Item = &'static T> {
        self.chunks.iter().filter_map(RacyOnce::get).flatten()
    }

    pub(crate) fn usage(&'static self) -> SlabUsage {
        let made = self.made.load(Ordering::Relaxed) as usize;
        let free = (self.free_len.load(Ordering::Relaxed) as usize).min(made);
        let chunks = self.chunks.iter().filter_map(RacyOnce::get);
        let allocated = chunks.map(|chunk| chunk.len()).sum();
        SlabUsage { in_use: made - free, free, allocated }
    }
}

/// Returns the chunk of the item with that index, and the item's offset in the chunk.
pub(crate) fn place<T: SlabItem>(index: u32) -> Option<(usize, usize)> {
    let chunk = (index / T::FIRST_CHUNK).checked_ilog2().map_or(0, |log| log as usize + 1);
    let (first, _) = span::<T>(chunk);
    Some((chunk, index.checked_sub(first)? as usize))
}

/// Returns the first index of a chunk, and the chunk's length.
pub(crate) fn span<T: SlabItem>(chunk: usize) -> (u32, u32) {
    match chunk.checked_sub(1) {
        None => (0, T::FIRST_CHUNK),
        Some(doublings) => (T::FIRST_CHUNK << doublings, T::FIRST_CHUNK << doublings),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Item {
        index: u32,
        link: AtomicU32,
    }

    impl SlabItem for Item {
        const FIRST_CHUNK: u32 = 64;

        fn index(&self) -> u32 {
            self.index
        }

        fn link(&self) -> &AtomicU32 {
            &self.link
        }
    }

    #[test]
    fn chunks_follow_each_other_without_gap_or_overlap() {
        let mut next = 0;
        for chunk in 0..10 {
            let (first, len) = span::<Item>(chunk);
            assert_eq!(first, next, "chunk {chunk}");
            for offset in [0, len - 1] {
                assert_eq!(place::<Item>(first + offset), Some((chunk, offset as usize)));
            }
            next += len;
        }
    }

    #[test]
    fn tag_has_the_bits_that_the_largest_index_leaves() {
        type Items = Slab<Item>;
        assert_eq!((Items::CAPACITY, Items::INDEX_BITS), (1 << 27, 28));
        let last = Items::word(u64::MAX, Items::CAPACITY);
        assert_eq!((last, Items::next_of(last)), (1 << 27, 1 << 27), "the tag wraps around to 0");
        assert_eq!(Items::word(last, 0), 1 << 28);
    }

    #[test]
    fn given_item_is_taken_again() {
        static SLAB: Slab<Item> = slab!();
        let new = |index| Item { index, link: AtomicU32::new(0) };
        let taken: Vec<_> = (0..200).filter_map(|_| SLAB.take(new)).collect();
        assert!(taken.iter().map(|item| item.index()).eq(0..200));
        for item in &taken {
            SLAB.give(item);
        }
        let usage = SLAB.usage();
        assert_eq!((usage.in_use, usage.free, usage.allocated), (0, 200, 256));
        let mut again: Vec<_> = (0..200).filter_map(|_| SLAB.take(new)).collect();
        again.sort_by_key(|item| item.index());
        assert!(again.iter().zip(&taken).all(|(one, other)| std::ptr::eq(*one, *other)));
        assert_eq!(SLAB.usage().in_use, 200);
    }
}
