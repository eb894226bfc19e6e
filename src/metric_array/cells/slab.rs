//! The process-wide slab of cells.

use super::thread_cell::ThreadCell;
use crate::sync::stall::{self, Point};
use crate::sync::{
    AtomicU32, AtomicU64, Ordering, RacyOnce, SLAB_CHUNK_LEN, process_static, racy_once_array,
};

process_static! {
    static SLAB: Slab = Slab {
        chunks: racy_once_array!(CHUNKS),
        ended_elsewhere: racy_once_array!(CHUNKS),
        made: AtomicU32::new(0),
        free: AtomicU64::new(0),
        free_len: AtomicU32::new(0),
    };
}

/// The cells of all windows: allocated in chunks, never freed, and recycled for ever.
///
/// A chunk is allocated privately and then published, so that no thread waits for another. Free cells are in a Treiber
/// stack.
///
/// # Orderings
///
/// `give` releases and `take` acquires: the next owner of a cell sees the last write of the previous owner, and all
/// writes of the next owner come after it.
#[derive(Debug)]
pub(crate) struct Slab {
    chunks: [RacyOnce<Box<[ThreadCell]>>; CHUNKS],
    /// A word for each cell of a chunk, made when a request that entered in a cell of this chunk first ends in another
    /// cell.
    ended_elsewhere: [RacyOnce<Box<[EndedElsewhere]>>; CHUNKS],
    /// The number of cells that were handed out at least once.
    made: AtomicU32,
    /// `{ tag: 32, index + 1: 32 }`: the top of the stack, with 0 for an empty stack. The tag grows with each change,
    /// so that a stale compare-exchange fails (ABA).
    free: AtomicU64,
    /// The number of cells on the stack: for [`memory`](Self::memory).
    free_len: AtomicU32,
}

/// The number of requests that entered in a cell and have ended in other cells. It has a cache line of its own, since
/// the threads that end requests write it, and the cell's owner should not lose a line that it writes itself.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct EndedElsewhere(pub(super) AtomicU32);

impl EndedElsewhere {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }
}

/// The numbers of cells that belong to a window and of free cells, and the bytes of all cells.
#[derive(Debug)]
pub(super) struct SlabMemory {
    pub(super) in_use: usize,
    pub(super) free: usize,
    pub(super) bytes: usize,
}

/// The number of chunks. Each chunk but the first doubles the slab.
const CHUNKS: usize = if cfg!(loom) { 4 } else { 24 };

pub(crate) fn slab() -> &'static Slab {
    &SLAB
}

impl Slab {
    /// Takes a free cell, or a new one; `None` if the slab is full, with 2²⁹ cells.
    pub(crate) fn take(&'static self) -> Option<&'static ThreadCell> {
        let mut top = self.free.load(Ordering::Acquire);
        while let Some(index) = index_of(top) {
            let Some(cell) = self.cell(index) else { break };
            // If another thread has taken the cell by now, this is no longer its successor. Then the tag has changed,
            // and the compare-exchange fails.
            let next = cell.next().load(Ordering::Relaxed);
            stall::at(Point::FreeCellSeen);
            let below = word(top, next);
            // Relaxed: this very word was acquired above.
            match self.free.compare_exchange(top, below, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => {
                    self.free_len.fetch_sub(1, Ordering::Relaxed);
                    return Some(cell);
                }
                Err(found) => top = found,
            }
        }
        self.make()
    }

    fn make(&'static self) -> Option<&'static ThreadCell> {
        // Relaxed: the update gives each thread a different index, and orders nothing.
        let index = self
            .made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| made.checked_add(1))
            .ok()?;
        let (chunk, offset) = place(index)?;
        let cells = self.chunks.get(chunk)?.get_or_init(|| {
            let (first, len) = span(chunk);
            (first..first + len).map(ThreadCell::new).collect()
        });
        cells.get(offset)
    }

    /// Gives back a cell that no thread may write any longer.
    pub(crate) fn give(&self, cell: &ThreadCell) {
        // Incremented before the cell can be taken, so that the number never falls below zero.
        self.free_len.fetch_add(1, Ordering::Relaxed);
        let mut top = self.free.load(Ordering::Relaxed);
        loop {
            #[expect(clippy::cast_possible_truncation, reason = "the low half")]
            cell.next().store(top as u32, Ordering::Relaxed);
            let with_cell = word(top, cell.index() + 1);
            // Release: pairs with the Acquire in `take`.
            match self.free.compare_exchange(top, with_cell, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(found) => top = found,
            }
        }
    }

    /// Returns the word of the cell's requests that have ended elsewhere, if any cell of its chunk had such a request.
    pub(super) fn ended_elsewhere(&self, cell: &ThreadCell) -> Option<&EndedElsewhere> {
        let (chunk, offset) = place(cell.index())?;
        self.ended_elsewhere.get(chunk)?.get()?.get(offset)
    }

    pub(super) fn make_ended_elsewhere(&self, cell: &ThreadCell) -> Option<&EndedElsewhere> {
        let (chunk, offset) = place(cell.index())?;
        let words = self.ended_elsewhere.get(chunk)?.get_or_init(|| {
            let (_, len) = span(chunk);
            (0..len).map(|_| EndedElsewhere::new()).collect()
        });
        words.get(offset)
    }

    fn cell(&'static self, index: u32) -> Option<&'static ThreadCell> {
        let (chunk, offset) = place(index)?;
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    pub(super) fn memory(&self) -> SlabMemory {
        let made = self.made.load(Ordering::Relaxed) as usize;
        let free = (self.free_len.load(Ordering::Relaxed) as usize).min(made);
        let cells: usize =
            self.chunks.iter().filter_map(RacyOnce::get).map(|chunk| chunk.len()).sum();
        let words = self.ended_elsewhere.iter().filter_map(RacyOnce::get);
        let word_bytes: usize = words.map(|chunk| size_of_val::<[_]>(chunk)).sum();
        let bytes = cells * size_of::<ThreadCell>() + word_bytes;
        SlabMemory { in_use: made - free, free, bytes }
    }
}

/// Returns the index at the top of the stack; `None` if the stack is empty.
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
const fn index_of(top: u64) -> Option<u32> {
    (top as u32).checked_sub(1)
}

/// Returns the word that follows `top`, with `next` at the top: an index plus 1, or 0.
const fn word(top: u64, next: u32) -> u64 {
    ((top >> 32).wrapping_add(1) << 32) | next as u64
}

/// Returns the chunk of the cell with that index, and the cell's offset in the chunk.
fn place(index: u32) -> Option<(usize, usize)> {
    let chunk = (index / SLAB_CHUNK_LEN).checked_ilog2().map_or(0, |log| log as usize + 1);
    let (first, _) = span(chunk);
    Some((chunk, index.checked_sub(first)? as usize))
}

/// Returns the first index of a chunk, and the chunk's length.
const fn span(chunk: usize) -> (u32, u32) {
    match chunk.checked_sub(1) {
        None => (0, SLAB_CHUNK_LEN),
        Some(doublings) => (SLAB_CHUNK_LEN << doublings, SLAB_CHUNK_LEN << doublings),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other_without_gap_or_overlap() {
        let mut next = 0;
        for chunk in 0..10 {
            let (first, len) = span(chunk);
            assert_eq!(first, next, "chunk {chunk}");
            for offset in [0, len - 1] {
                assert_eq!(place(first + offset), Some((chunk, offset as usize)));
            }
            next += len;
        }
    }

    #[test]
    fn given_cell_is_taken_again() {
        static SLAB: Slab = Slab {
            chunks: [const { RacyOnce::new() }; CHUNKS],
            ended_elsewhere: [const { RacyOnce::new() }; CHUNKS],
            made: AtomicU32::new(0),
            free: AtomicU64::new(0),
            free_len: AtomicU32::new(0),
        };
        let taken: Vec<_> = (0..200).filter_map(|_| SLAB.take()).collect();
        assert_eq!(
            taken.iter().map(|cell| cell.index()).collect::<Vec<_>>(),
            (0..200).collect::<Vec<_>>()
        );
        for cell in &taken {
            SLAB.give(cell);
        }
        let memory = SLAB.memory();
        assert_eq!((memory.in_use, memory.free, memory.bytes), (0, 200, 256 * 128));
        let mut again: Vec<_> = (0..200).filter_map(|_| SLAB.take()).collect();
        again.sort_by_key(|cell| cell.index());
        assert!(again.iter().zip(&taken).all(|(one, other)| std::ptr::eq(*one, *other)));
        assert_eq!(SLAB.memory().in_use, 200);
    }
}
