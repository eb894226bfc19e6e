//! The sets of a thread's cache of cells: their entries, and what is done with one entry.

use super::gauge_watch::GaugeWatch;
use super::thread_cell::{CellState, ThreadCell};
use crate::metric_array::latency::LatencyRecorder;
use crate::sync::{AtomicCell, PrivateU32, PrivateU64};

/// The number of entries of a set.
pub(super) const WAYS: usize = 2;

/// Window ids are multiples of the size of a set, so the low bits of an id are the offset of its
/// set.
pub(super) const WINDOW_STRIDE: u64 = size_of::<Set>() as u64;

/// Marks the id of a window whose cell no record finds in the cache: each record takes the slow
/// path. No id has this bit.
pub(super) const LOOK_UP: u64 = 1;

/// The entries of windows that were made a multiple of [`THREAD_CACHE_SETS`] apart. A record reads
/// the first of the set's two cache lines.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Set {
    pub(super) entries: [CacheEntry; WAYS],
    pub(super) cold: [ColdEntry; WAYS],
}

/// The words that each record reads.
#[derive(Debug)]
pub(crate) struct CacheEntry {
    /// The window's id, with [`LOOK_UP`] if each record takes the slow path; 0 for an empty entry.
    pub(super) window: PrivateU64,
    /// The start of the bucket that the cell is bound to.
    pub(super) start: PrivateU64,
    pub(super) cell: AtomicCell<Option<&'static ThreadCell>>,
    /// The cell's recorder of response times; `None` if the window has no histogram.
    pub(super) recorder: AtomicCell<Option<&'static LatencyRecorder>>,
}

/// The words that only the gauge and a change of the bucket read.
#[derive(Debug)]
pub(crate) struct ColdEntry {
    pub(super) place: PrivateU32,
    pub(super) gauge: GaugeWatch,
}

impl ColdEntry {
    /// Creates the words of an empty entry.
    pub(crate) const fn new() -> Self {
        Self { place: PrivateU32::new(0), gauge: GaugeWatch::new() }
    }
}

impl CacheEntry {
    /// Returns whether this is the entry of that window.
    #[inline]
    pub(super) fn is_of(&self, window: u64) -> bool {
        self.window.get() & !LOOK_UP == window
    }

    /// Returns the cell. An entry of a window has one.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of every record")]
    pub(super) fn cell(&self) -> Option<&'static ThreadCell> {
        match self.cell.load() {
            Some(cell) => Some(cell),
            None => no_cell(),
        }
    }
}

/// Returns `None`. Not reached: an entry of a window has a cell. Out of line: otherwise the
/// compiler merges the two tests into one, which takes more instructions than two predicted
/// branches.
#[cold]
#[inline(never)]
fn no_cell() -> Option<&'static ThreadCell> {
    None
}

impl Set {
    /// Returns the states of an empty set.
    pub(super) const fn no_states() -> [PrivateU64; WAYS] {
        [const { PrivateU64::new(0) }; WAYS]
    }

    pub(super) const fn new() -> Self {
        Self {
            entries: [const {
                CacheEntry {
                    window: PrivateU64::new(0),
                    start: PrivateU64::new(0),
                    cell: AtomicCell::new(None),
                    recorder: AtomicCell::new(None),
                }
            }; WAYS],
            cold: [const { ColdEntry::new() }; WAYS],
        }
    }
}

/// One entry of a cache, with the words that belong to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) entry: &'static CacheEntry,
    pub(super) cold: &'static ColdEntry,
    pub(super) state: &'static PrivateU64,
}

impl Way {
    /// Returns a way of a set.
    #[inline]
    pub(super) fn at(set: &'static Set, states: &'static [PrivateU64; WAYS], way: usize) -> Self {
        Self { entry: &set.entries[way], cold: &set.cold[way], state: &states[way] }
    }

    /// Returns the ways of a set.
    #[inline]
    pub(super) fn all(set: &'static Set, states: &'static [PrivateU64; WAYS]) -> [Self; WAYS] {
        std::array::from_fn(|way| Self::at(set, states, way))
    }

    /// Returns whether this is empty, or the window of its entry was dropped.
    ///
    /// The state of a cell is as its owner has left it, until its window is dropped.
    pub(super) fn is_free(self) -> bool {
        let cell = self.entry.cell.load();
        cell.is_none_or(|cell| cell.state() != CellState(self.state.get()))
    }

    pub(super) fn set(
        self,
        window: u64,
        start: u64,
        cell: Option<&'static ThreadCell>,
        recorder: Option<&'static LatencyRecorder>,
        state: CellState,
    ) {
        self.entry.window.set(window);
        self.entry.start.set(start);
        self.entry.cell.store(cell);
        self.entry.recorder.store(recorder);
        self.state.set(state.0);
    }

    /// Empties the entry, and abandons its cell if there is one.
    pub(super) fn abandon(self) {
        if self.entry.window.get() != 0 {
            let (cell, state) = (self.entry.cell.load(), CellState(self.state.get()));
            self.set(0, 0, None, None, CellState(0));
            if let Some(cell) = cell {
                // If the window was dropped, the cell's state has changed, and this does nothing.
                cell.abandon(state);
            }
        }
    }

    pub(super) fn copy_from(self, from: Self) {
        let (window, start) = (from.entry.window.get(), from.entry.start.get());
        let (cell, recorder) = (from.entry.cell.load(), from.entry.recorder.load());
        self.set(window, start, cell, recorder, CellState(from.state.get()));
        self.cold.place.set(from.cold.place.get());
        self.cold.gauge.copy_from(&from.cold.gauge);
    }
}
