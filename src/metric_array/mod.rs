//! The counts of one window: a cell for each thread that records, and a history of sealed rows.
//!
//! # Roles
//!
//! - A **recorder** adds to its own cell, which is bound to the bucket of `now`, with plain loads
//!   and stores. When `now` is in another bucket, it seals its cell into the history and binds it
//!   again.
//! - A **reader** adds up rows and bound cells. It retries if the history's head or the newest
//!   bucket has changed in between, or, where buckets may be gone, if a thread has bound a cell.
//! - A **thread that ends** abandons its cells; other threads adopt them, or seal and retire them.
//!
//! A count is in a bound cell or in the history, and moves from one to the other when the history's
//! head changes: see [`history::History`].
//!
//! # Orderings
//!
//! `newest` is relaxed. A thread raises it before it binds a cell to a new bucket. A reader that
//! must find a count is ordered after it, and so finds its bucket. A reader that misses a cell has
//! acquired the mask from the thread that found the cell idle, and so finds the bucket that has
//! made it idle. Cells, masks, slab and history have their own sections.

mod cells;
mod gauge;
mod histogram_bytes;
mod history;
mod latency;
#[cfg(loom)]
pub mod parts;
mod read;
mod recorders;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;

pub use cells::CellMemory;
pub(crate) use cells::origin::Origin;
pub(crate) use cells::thread_cache::OwnedCell;
pub(crate) use gauge::Gauge;
pub(crate) use latency::Bin;
pub(crate) use shared::SharedArray;

use std::fmt;

use crate::histogram::HistogramConfig;
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU64, Ordering, RacyOnce};
use crate::time::{Timestamp, WindowConfig};
use cells::cache_set::ColdEntry;
use cells::cell_table::{CellTable, GroupOfCells};
use cells::thread_cache::{self, CachedCell};
use cells::thread_cell::{CellState, LATE, ThreadCell};
use history::descriptor::{CellStep, GaugeCounts};
use history::{History, SealRequest, SealedCounts, Target};
use latency::{BinSource, LatencyRecorder};
use read::Moment;
use recorders::{bins_of, recorder_of};

/// The maximum number of abandoned cells that a sweep retires. Each retirement is a publication, or
/// two if there is a histogram, by the thread that is first in a new bucket.
const RETIRED_PER_SWEEP: usize = 4;

/// How a thread proceeds when it begins to record in a bucket.
struct Arrival {
    /// Whether the bucket is gone: then its counts are late.
    is_late: bool,
    /// Whether the thread sweeps: no thread has recorded in the bucket or a newer one before, or
    /// the bucket is N or more behind the newest one.
    is_to_sweep: bool,
}

/// The counts of a [`SlidingWindow`](crate::SlidingWindow).
pub(crate) struct MetricArray {
    /// The id of this array: unique among all arrays that there ever were in this process, and
    /// never 0.
    id: u64,
    config: WindowConfig,
    /// The number of the newest bucket that a thread has recorded in, plus 1; 0 if there is none.
    newest: AtomicU64,
    /// The resolution of the histogram, if the array has one.
    histogram: Option<HistogramConfig>,
    cells: CellTable,
    history: RacyOnce<History>,
}

impl MetricArray {
    /// Creates an empty array, with a histogram of the response times if `histogram` is its
    /// resolution.
    pub(crate) fn new(config: WindowConfig, histogram: Option<HistogramConfig>) -> Self {
        Self {
            id: thread_cache::new_window_id(),
            config,
            histogram,
            newest: AtomicU64::new(0),
            cells: CellTable::new(),
            history: RacyOnce::new(),
        }
    }

    #[inline]
    pub(crate) const fn config(&self) -> &WindowConfig {
        &self.config
    }

    /// Returns the resolution of the histogram, if the array has one.
    pub(crate) const fn histogram(&self) -> Option<HistogramConfig> {
        self.histogram
    }

    /// Notes that a request that entered in another cell ends on the calling thread.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_end_elsewhere(&self, origin: Origin) {
        thread_cache::note_end_of_other(self.id);
        origin.note_end_elsewhere();
    }

    /// Does what [`SharedArray::record`] does, if the thread's cell is not bound to the bucket of
    /// `now`.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_slowly<R>(
        &self,
        now: Timestamp,
        op: impl Fn(OwnedCell<'_>, Origin) -> R,
    ) -> R {
        let further = thread_cache::get_further(self.id, self.config.bucket_nanos(), now);
        if let Some((cell, _)) = further {
            return op(cell, cell.origin());
        }
        match self.bound_cell(now) {
            Some((cell, _)) => op(cell, cell.origin()),
            None => self.record_directly(now, op),
        }
    }

    /// Returns the calling thread's cell, bound to the bucket of `now`, and its recorder, if the
    /// array has a histogram; `None` if the thread cannot have a cell.
    fn bound_cell(
        &self,
        now: Timestamp,
    ) -> Option<(OwnedCell<'static>, Option<&'static LatencyRecorder>)> {
        let cached = self.cached_cell()?;
        let number = self.config.bucket_number(now);
        let state = self.bind(cached, number);
        let start = self.config.start_of(number);
        // The last bucket of all time may be cut short.
        let is_whole = start.as_nanos().checked_add(self.config.bucket_nanos() - 1).is_some();
        let cell = thread_cache::rebind(self.id, cached, state, is_whole.then_some(start));
        Some((cell, cached.recorder()))
    }

    /// Returns the calling thread's cell; `None` if the thread cannot have a cell.
    fn cached_cell(&self) -> Option<CachedCell> {
        // Before `may_own`: a thread that may own no cell has none in its cache.
        let found = thread_cache::find(self.id);
        if found.is_some() || !thread_cache::may_own() {
            return found;
        }
        let (place, cell, state) = self.cells.adopt().or_else(|| self.cells.add())?;
        stall::at(Point::CellTaken);
        let recorder = self.histogram.map(|config| recorder_of(cell, config));
        if let Some(None) = recorder {
            // No recorder is left, so the thread records directly.
            cell.abandon(state);
            return None;
        }
        Some(thread_cache::insert(self.id, place, cell, state, recorder.flatten()))
    }

    /// Binds the calling thread's cell to a bucket, unless it is already bound to it, and returns
    /// its state.
    fn bind(&self, cached: CachedCell, number: u64) -> CellState {
        let CachedCell { place, cell, state, .. } = cached;
        if state.is_bound() && cell.bucket() & !LATE == number {
            return state;
        }
        let recorder = cached.recorder();
        let sealed = if state.is_bound() { self.seal(place, cell, state) } else { state };
        stall::at(Point::Unbound);
        let Arrival { is_late, is_to_sweep } = self.arrive(number);
        let late = if is_late { LATE } else { 0 };
        let bound = cell.bind(sealed, number | late, recorder);
        self.cells.activate(place);
        if sealed.is_retired() {
            self.cells.make_present(place);
        }
        if is_to_sweep {
            self.sweep(number, place);
        }
        stall::at(Point::Bound);
        bound
    }

    /// Notes that the calling thread records in a bucket.
    fn arrive(&self, number: u64) -> Arrival {
        // Relaxed: if this thread's adds happen before a read, then so does this load or update, so
        // that the read finds this number or a higher one. A load where it is enough: of the threads
        // that arrive in a bucket, only the first takes the line of the word from the others.
        let mut newest = self.newest.load(Ordering::Relaxed);
        if newest <= number {
            newest = self.newest.fetch_max(number + 1, Ordering::Relaxed);
        }
        if newest <= number + 1 {
            return Arrival { is_late: false, is_to_sweep: newest <= number };
        }
        let is_behind = number + (self.config.sample_count() as u64) < newest;
        Arrival { is_late: is_behind && self.is_gone(number), is_to_sweep: is_behind }
    }

    /// Returns whether a thread has recorded in a later bucket of the same slot.
    #[cold]
    fn is_gone(&self, number: u64) -> bool {
        loop {
            let moment = Moment::of(self);
            let is_gone = moment.is_gone(number);
            if moment.is_still() {
                return is_gone;
            }
        }
    }

    /// Moves a cell's counts into the history, as its owner, and returns the state of the sealed
    /// cell.
    fn seal(&self, place: u32, cell: &'static ThreadCell, state: CellState) -> CellState {
        self.publish_cell(place, cell, state, state.sealed(), GaugeCounts::default())
    }

    /// Moves the counts and the gauge counts of a cell into the history. The caller has adopted the
    /// abandoned cell.
    fn retire(&self, place: u32, cell: &'static ThreadCell, state: CellState) {
        let gauge = GaugeCounts { entered: cell.entered(), ended: cell.ended() };
        match self.histogram {
            None => {
                self.publish_cell(place, cell, state, state.retired(), gauge);
            }
            Some(config) => self.retire_with_recorder(place, cell, state, gauge, config),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "otherwise the counts are copied")]
    fn publish_cell(
        &self,
        place: u32,
        cell: &'static ThreadCell,
        from: CellState,
        to: CellState,
        gauge: GaugeCounts,
    ) -> CellState {
        let bucket = cell.bucket();
        let bins = match self.histogram {
            None => BinSource::None,
            Some(config) => bins_of(cell, config),
        };
        let number = bucket & !LATE;
        self.publish(&SealRequest {
            target: Target::Bucket { number, is_late: bucket & LATE != 0 },
            counts: &SealedCounts::of_cell(number, cell),
            gauge,
            bins,
            cell: Some((cell, CellStep { place, from, to })),
        });
        to
    }

    fn publish(&self, sealed: &SealRequest<'_>) {
        let has_bins = self.histogram.is_some();
        let history = self.history.get_or_init(|| History::new(&self.config, has_bins));
        history.publish(&self.config, &self.cells, sealed);
    }

    /// Records without a cell of the thread's own: for a thread that is ending, or if there is no
    /// place for another cell.
    //
    // Out of line: a cell on the stack would make a large frame of each call of `record_slowly`.
    #[cold]
    #[inline(never)]
    pub(super) fn record_directly<R>(
        &self,
        now: Timestamp,
        op: impl Fn(OwnedCell<'_>, Origin) -> R,
    ) -> R {
        let (cell, cold) = (ThreadCell::new(0), ColdEntry::new());
        let result = op(OwnedCell { cell: &cell, cold: &cold }, Origin::NONE);
        let number = self.config.bucket_number(now);
        let is_late = self.arrive(number).is_late;
        let counts = cell.counts();
        let bins = self.bin_of_single(&counts);
        self.publish_lifetime_of_single(&counts, bins);
        self.publish(&SealRequest {
            target: Target::Bucket { number, is_late },
            counts: &SealedCounts::of(number, &counts),
            gauge: GaugeCounts { entered: cell.entered(), ended: cell.ended() },
            bins,
            cell: None,
        });
        result
    }

    /// Sweeps one group of cells: retires abandoned cells, and removes idle cells from the masks.
    /// The cell at the place `bound` was just bound to bucket `number`, which is new, or N or more
    /// behind the newest one.
    fn sweep(&self, number: u64, bound: u32) {
        if let Some(group) = self.cells.next_group().filter(|group| !group.has_only(bound)) {
            self.sweep_group(&group, number);
        }
    }

    #[inline(never)]
    fn sweep_group(&self, group: &GroupOfCells<'_>, number: u64) {
        let samples = self.config.sample_count() as u64;
        let is_idle = |cell: &ThreadCell, state: CellState| {
            let bucket = cell.bucket();
            // The bucket of a late cell is in no window.
            let has_left = bucket & LATE != 0 || bucket + samples <= number;
            state.is_retired() || (state.is_bound() && has_left)
        };
        if group.skip_idle(is_idle) {
            for _ in 0..RETIRED_PER_SWEEP {
                let Some((place, cell, state)) = group.adopt_abandoned() else { break };
                stall::at(Point::Adopted);
                self.retire(place, cell, state);
            }
            group.skip_idle(is_idle);
        }
    }
}

#[cfg(all(test, not(loom)))]
impl MetricArray {
    /// Returns the numbers of rows, descriptors and places of cells that were made.
    pub(crate) fn blocks_made(&self) -> (u32, u32, u32) {
        let (rows, descriptors) = self.history.get().map_or((0, 0), History::blocks_made);
        (rows, descriptors, self.cells.len())
    }

    /// Returns the rows and descriptors that are in their places, as in `History::blocks_at_rest`,
    /// and the number of abandoned cells. No other thread may use the array during the call.
    pub(crate) fn blocks_at_rest(&self) -> (Vec<u32>, Vec<u32>, u32) {
        let (rows, descriptors) =
            self.history.get().map(History::blocks_at_rest).unwrap_or_default();
        let mut abandoned = 0;
        self.cells.for_each_cell(|cell| abandoned += u32::from(cell.state().is_abandoned()));
        (rows, descriptors, abandoned)
    }
}

impl fmt::Debug for MetricArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricArray").field("config", &self.config).finish_non_exhaustive()
    }
}
