//! Parts of a window, for models of each part alone: the rest of a window would multiply the
//! executions.

use std::time::Duration;

use super::cells::cell_table::CellTable;
use super::cells::slab::slab;
use super::cells::thread_cell::{CellState, ThreadCell};
use super::history::descriptor::GaugeCounts;
use super::history::descriptors::Descriptors;
use super::history::{History, SealRequest, SealedCounts, Target};
use super::latency::BinSource;
use crate::metric::{Counts, MetricEvent};
use crate::time::WindowConfig;

const PASS: MetricEvent = MetricEvent::Pass;

fn config(samples: u32) -> WindowConfig {
    WindowConfig::new(samples as usize, Duration::from_secs(samples.into())).expect("whole seconds")
}

/// A history without cells.
#[derive(Debug)]
pub struct BareHistory {
    config: WindowConfig,
    cells: CellTable,
    history: History,
}

impl BareHistory {
    /// Creates an empty history.
    #[must_use]
    pub fn new(samples: u32) -> Self {
        let config = config(samples);
        Self { config, cells: CellTable::new(), history: History::new(&config, false) }
    }

    /// Publishes `passes` passes in a bucket.
    pub fn seal(&self, number: u64, passes: u64) {
        let mut counts = Counts::ZERO;
        counts.events[PASS as usize] = passes;
        let gauge = GaugeCounts::default();
        let target = Target::Bucket { number, is_late: false };
        let bins = BinSource::None;
        let counts = &SealedCounts::of(number, &counts);
        let sealed = SealRequest { target, counts, gauge, bins, cell: None };
        self.history.publish(&self.config, &self.cells, &sealed);
    }

    /// Returns the passes in a bucket and the expired passes, at one moment.
    #[must_use]
    pub fn passes(&self, number: u64) -> [u64; 2] {
        loop {
            let head = self.history.complete_head(&self.cells);
            let row = self.history.row_in(self.config.slot_of(number));
            let row = row.filter(|row| row.bucket() == number);
            let passes = row.map_or(0, |row| row.event(PASS));
            let expired = self.history.descriptor(head).expired().events[PASS as usize];
            if self.history.is_still(head) {
                return [passes, expired];
            }
        }
    }
}

/// The descriptors of a history alone.
#[derive(Debug)]
pub struct BareDescriptors(Descriptors);

impl Default for BareDescriptors {
    fn default() -> Self {
        Self(Descriptors::new())
    }
}

impl BareDescriptors {
    /// Takes a free descriptor, or makes a new one.
    #[must_use]
    pub fn take(&self) -> u32 {
        self.0.take().0
    }

    /// Frees a descriptor.
    pub fn give(&self, index: u32) {
        self.0.give(index, self.0.get(index));
    }
}

/// A cell and its state when the caller became its owner.
#[derive(Clone, Copy, Debug)]
pub struct BareCell {
    place: u32,
    cell: &'static ThreadCell,
    state: CellState,
}

impl BareCell {
    /// Takes a cell from the slab.
    ///
    /// # Panics
    ///
    /// If the slab is full.
    #[must_use]
    pub fn take() -> Self {
        let cell = slab().take().expect("there is room");
        Self { place: 0, cell, state: cell.claim() }
    }

    /// Gives the cell back. Returns the state in which the cell is left, as a number.
    #[expect(clippy::must_use_candidate, reason = "not every model compares it")]
    pub fn give(self) -> u64 {
        self.cell.disown();
        let left = self.cell.state().0;
        slab().give(self.cell);
        left
    }

    /// Returns the index of the cell, and its state as a number.
    #[must_use]
    pub const fn identity(self) -> (u32, u64) {
        (self.cell.index(), self.state.0)
    }
}

/// A table of cells without a history.
#[derive(Debug)]
pub struct BareCells(CellTable);

impl Default for BareCells {
    fn default() -> Self {
        Self(CellTable::new())
    }
}

impl BareCells {
    /// Adds a new cell, which is bound to a bucket.
    ///
    /// # Panics
    ///
    /// If the table is full.
    #[must_use]
    pub fn add(&self, bucket: u64) -> BareCell {
        let (place, cell, state) = self.0.add().expect("there is room");
        let state = cell.bind(state, bucket, None);
        self.0.activate(place);
        self.0.make_present(place);
        BareCell { place, cell, state }
    }

    /// Seals a cell and binds it to another bucket, as its owner.
    pub fn rebind(&self, owned: BareCell, bucket: u64) {
        let sealed = owned.state.sealed();
        owned.cell.unbind(owned.state, sealed);
        owned.cell.bind(sealed, bucket, None);
        self.0.activate(owned.place);
    }

    /// Retires a cell.
    pub fn retire(&self, owned: BareCell) {
        owned.cell.unbind(owned.state, owned.state.retired());
    }

    /// Adopts a retired cell and binds it to a bucket.
    ///
    /// # Panics
    ///
    /// If there is no retired cell.
    pub fn adopt(&self, bucket: u64) {
        let (place, cell, state) = self.0.adopt().expect("there is a retired cell");
        cell.bind(state, bucket, None);
        self.0.activate(place);
    }

    /// Gives up ownership of a cell.
    pub fn abandon(&self, owned: BareCell) {
        owned.cell.abandon(owned.state);
    }

    /// Retires an abandoned cell. Returns `false` if this thread finds none.
    ///
    /// # Panics
    ///
    /// If no cell was ever added.
    pub fn retire_abandoned(&self) -> bool {
        let adopted = self.0.next_group().expect("there is a cell").adopt_abandoned();
        if let Some((_, cell, state)) = adopted {
            cell.unbind(state, state.retired());
        }
        adopted.is_some()
    }

    /// Lets readers skip the cells that are retired or bound to a bucket before `bucket`.
    ///
    /// # Panics
    ///
    /// If no cell was ever added.
    pub fn skip_before(&self, bucket: u64) {
        let _ = self.sweep_before(bucket);
    }

    /// Does the same, and returns whether it found a cell that is abandoned and not retired.
    ///
    /// # Panics
    ///
    /// If no cell was ever added.
    #[must_use]
    pub fn sweep_before(&self, bucket: u64) -> bool {
        let group = self.0.next_group().expect("there is a cell");
        let is_idle = |cell: &ThreadCell, state: CellState| {
            state.is_retired() || (state.is_bound() && cell.bucket() < bucket)
        };
        group.skip_idle(is_idle)
    }

    /// Returns the number of cells that a reader finds bound to a bucket.
    #[must_use]
    pub fn bound_to(&self, bucket: u64) -> usize {
        let mut found = 0;
        self.0.for_each_active(|cell| {
            found += usize::from(cell.state().is_bound() && cell.bucket() == bucket);
        });
        found
    }
}
