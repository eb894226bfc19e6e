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

/// The entries of up to two windows. A record reads the first of the set's two cache lines.
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
    pub(super) cell: CellSlot,
    /// The cell's recorder of response times; `None` if the window has no histogram.
    pub(super) recorder: AtomicCell<Option<&'static LatencyRecorder>>,
}

/// The cell of an entry.
#[derive(Debug)]
#[cfg(not(loom))]
pub(super) struct CellSlot(AtomicCell<&'static ThreadCell>);

#[cfg(not(loom))]
impl CellSlot {
    const fn empty() -> Self {
        Self(AtomicCell::new(&NO_CELL))
    }

    /// Returns the cell, if the entry is not empty.
    //
    // Not an option: a record has compared the window's id, so it need not ask once more.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of every record")]
    pub(super) fn get(&self) -> &'static ThreadCell {
        self.0.load()
    }

    fn set(&self, cell: Option<&'static ThreadCell>) {
        self.0.store(cell.unwrap_or(&NO_CELL));
    }
}

/// The cell in the slots of empty entries. No thread reads or writes it.
#[cfg(not(loom))]
static NO_CELL: ThreadCell = ThreadCell::new(0);

/// The cell of an entry. A static cannot have loom's atomics, so an empty slot has no cell.
#[derive(Debug)]
#[cfg(loom)]
pub(super) struct CellSlot(AtomicCell<Option<&'static ThreadCell>>);

#[cfg(loom)]
impl CellSlot {
    const fn empty() -> Self {
        Self(AtomicCell::new(None))
    }

    pub(super) fn get(&self) -> &'static ThreadCell {
        self.0.load().expect("the entry of a window has a cell")
    }

    fn set(&self, cell: Option<&'static ThreadCell>) {
        self.0.store(cell);
    }
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
    /// Creates an empty entry.
    const fn new() -> Self {
        Self {
            window: PrivateU64::new(0),
            start: PrivateU64::new(0),
            cell: CellSlot::empty(),
            recorder: AtomicCell::new(None),
        }
    }

    /// Returns whether this is the entry of that window.
    #[inline]
    pub(super) fn is_of(&self, window: u64) -> bool {
        self.window.get() & !LOOK_UP == window
    }
}

impl Set {
    /// Returns the states of an empty set.
    pub(super) const fn no_states() -> [PrivateU64; WAYS] {
        [const { PrivateU64::new(0) }; WAYS]
    }

    pub(super) const fn new() -> Self {
        Self {
            entries: [const { CacheEntry::new() }; WAYS],
            cold: [const { ColdEntry::new() }; WAYS],
        }
    }
}

/// One entry of a cache, with the words that belong to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    pub(super) entry: &'a CacheEntry,
    pub(super) cold: &'a ColdEntry,
    pub(super) state: &'a PrivateU64,
}

impl<'a> Way<'a> {
    /// Returns a way of a set.
    #[inline]
    pub(super) fn at(set: &'a Set, states: &'a [PrivateU64; WAYS], way: usize) -> Self {
        Self { entry: &set.entries[way], cold: &set.cold[way], state: &states[way] }
    }

    /// Returns the ways of a set.
    #[inline]
    pub(super) fn all(set: &'a Set, states: &'a [PrivateU64; WAYS]) -> [Self; WAYS] {
        std::array::from_fn(|way| Self::at(set, states, way))
    }

    /// Returns whether this has no entry.
    pub(super) fn is_empty(self) -> bool {
        self.entry.window.get() == 0
    }

    /// Returns whether this is empty, or the window of its entry was dropped.
    ///
    /// The state of a cell is as its owner has left it, until its window is dropped.
    pub(super) fn is_free(self) -> bool {
        self.is_empty() || self.entry.cell.get().state() != CellState(self.state.get())
    }

    pub(super) fn has_recorder(self) -> bool {
        self.entry.recorder.load().is_some()
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
        self.entry.cell.set(cell);
        self.entry.recorder.store(recorder);
        self.state.set(state.0);
    }

    /// Empties the entry. Its cell stays as it is.
    pub(super) fn clear(self) {
        self.set(0, 0, None, None, CellState(0));
    }

    /// Empties the entry, and abandons its cell if there is one.
    pub(super) fn abandon(self) {
        if !self.is_empty() {
            let (cell, state) = (self.entry.cell.get(), CellState(self.state.get()));
            self.clear();
            // If the window was dropped, the cell's state has changed, and this does nothing.
            cell.abandon(state);
        }
    }

    /// Copies the entry of another way, which is not empty.
    pub(super) fn copy_from(self, from: Way<'_>) {
        let (window, start) = (from.entry.window.get(), from.entry.start.get());
        let (cell, recorder) = (from.entry.cell.get(), from.entry.recorder.load());
        self.set(window, start, Some(cell), recorder, CellState(from.state.get()));
        self.cold.place.set(from.cold.place.get());
        self.cold.gauge.copy_from(&from.cold.gauge);
    }

    /// Returns a copy of the entry; `None` if the way is free.
    pub(super) fn moved(self) -> Option<MovedEntry> {
        if self.is_free() {
            return None;
        }
        let moved = MovedEntry {
            entry: CacheEntry::new(),
            cold: ColdEntry::new(),
            state: PrivateU64::new(0),
        };
        moved.way().copy_from(self);
        Some(moved)
    }
}

/// A copy of an entry, on its way to another set.
#[derive(Debug)]
pub(super) struct MovedEntry {
    entry: CacheEntry,
    cold: ColdEntry,
    state: PrivateU64,
}

impl MovedEntry {
    /// Returns the copy as a way.
    pub(super) const fn way(&self) -> Way<'_> {
        Way { entry: &self.entry, cold: &self.cold, state: &self.state }
    }

    /// Returns the id of the entry's window.
    pub(super) fn window(&self) -> u64 {
        self.entry.window.get() & !LOOK_UP
    }

    pub(super) fn has_recorder(&self) -> bool {
        self.way().has_recorder()
    }
}
