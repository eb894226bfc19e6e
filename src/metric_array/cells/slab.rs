//! The process-wide slab of cells.

use super::thread_cell::ThreadCell;
use crate::collections::{SLAB_CHUNKS, Slab, SlabItem, place, slab, span};
use crate::sync::{
    AtomicU32, AtomicU64, Ordering, RacyOnce, SLAB_CHUNK_LEN, process_static, racy_once_array,
};

process_static! {
    static CELLS: Cells = Cells {
        slab: slab!(),
        abandonments: AtomicU64::new(0),
        ended_elsewhere: racy_once_array!(SLAB_CHUNKS),
    };
}

/// The cells of all windows.
#[derive(Debug)]
pub(crate) struct Cells {
    slab: Slab<ThreadCell>,
    /// The number of times that a cell was abandoned or retired.
    abandonments: AtomicU64,
    /// A word for each cell of a chunk, made when a request that entered in a cell of this chunk
    /// first ends in another cell.
    ended_elsewhere: [RacyOnce<Box<[EndedElsewhere]>>; SLAB_CHUNKS],
}

/// The number of requests that entered in a cell and have ended in other cells. It has a cache line
/// of its own, since the threads that end requests write it, and the cell's owner should not lose a
/// line that it writes itself.
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

impl SlabItem for ThreadCell {
    const FIRST_CHUNK: u32 = SLAB_CHUNK_LEN;

    fn index(&self) -> u32 {
        self.index()
    }

    fn link(&self) -> &AtomicU32 {
        self.link()
    }
}

pub(crate) fn slab() -> &'static Cells {
    &CELLS
}

impl Cells {
    /// Returns a number that grows after each change of a cell that a sweep looks for.
    #[inline]
    pub(crate) fn abandonments(&self) -> u64 {
        // Acquire: pairs with the Release in `note_abandonment`. A thread that finds the number
        // finds the cells in the states that they had by then.
        self.abandonments.load(Ordering::Acquire)
    }

    /// Notes that a cell was abandoned or retired.
    pub(super) fn note_abandonment(&self) {
        // Release: pairs with the Acquire in `abandonments`.
        self.abandonments.fetch_add(1, Ordering::Release);
    }

    /// Takes a free cell, or a new one; `None` if the slab is full, with 2²⁷ cells.
    pub(crate) fn take(&'static self) -> Option<&'static ThreadCell> {
        self.slab.take(ThreadCell::new)
    }

    /// Gives back a cell that no thread may write any longer.
    pub(crate) fn give(&self, cell: &ThreadCell) {
        self.slab.give(cell);
    }

    /// Returns the word of the requests of the cell with that index that have ended elsewhere, if
    /// any cell of its chunk had such a request; `None` for an index that no cell has.
    pub(super) fn ended_elsewhere(&self, cell: u32) -> Option<&EndedElsewhere> {
        let (chunk, offset) = place::<ThreadCell>(cell)?;
        self.ended_elsewhere.get(chunk)?.get()?.get(offset)
    }

    /// Returns the same word, and makes the words of the chunk if there are none.
    pub(super) fn make_ended_elsewhere(&self, cell: u32) -> Option<&EndedElsewhere> {
        let (chunk, offset) = place::<ThreadCell>(cell)?;
        let words = self.ended_elsewhere.get(chunk)?.get_or_init(|| {
            let (_, len) = span::<ThreadCell>(chunk);
            (0..len).map(|_| EndedElsewhere::new()).collect()
        });
        words.get(offset)
    }

    pub(super) fn memory(&'static self) -> SlabMemory {
        let usage = self.slab.usage();
        let words = self.ended_elsewhere.iter().filter_map(RacyOnce::get);
        let word_bytes: usize = words.map(|chunk| size_of_val::<[_]>(chunk)).sum();
        let bytes = usage.allocated * size_of::<ThreadCell>() + word_bytes;
        SlabMemory { in_use: usage.in_use, free: usage.free, bytes }
    }
}
