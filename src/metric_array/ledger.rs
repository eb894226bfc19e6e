//! What one publication does, and what the history adds up to after it.

use super::atomic_counts::{AtomicCounts, EventWords};
use super::counts::Counts;
use super::thread_cell::State;
use crate::event::MetricEvent;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A block that a publication makes the current one: its steps, which any thread can complete, and
/// the running totals.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The slot to change, plus 1, or 0; from which word to which.
    slot: AtomicU64,
    slot_from: AtomicU64,
    slot_to: AtomicU64,
    /// The place of the cell that is sealed, plus 1, or 0; its state before and after.
    place: AtomicU64,
    state_from: AtomicU64,
    state_to: AtomicU64,
    expired: AtomicCounts,
    late: AtomicCounts,
    /// The number of the newest sealed bucket, plus 1, or 0.
    newest: AtomicU64,
    /// The sums of the rows of the N buckets that end with `newest`, or [`UNKNOWN`](Self::UNKNOWN).
    recent: EventWords,
    /// Gauge counts of retired cells, and of threads without a cell.
    entered: AtomicU64,
    ended: AtomicU64,
    /// A row that belongs to whoever takes this ledger to fill it, or 0.
    spare_row: AtomicU32,
    /// The index of the next free ledger, while this one is free.
    next_free: AtomicU32,
}

/// The steps that complete a publication. Each is a compare-exchange that succeeds once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) slot: Option<SlotStep>,
    pub(crate) cell: Option<CellStep>,
}

/// A row takes a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotStep {
    pub(crate) slot: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// A cell is sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellStep {
    pub(crate) place: u32,
    pub(crate) from: State,
    pub(crate) to: State,
}

/// The running totals of a history.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    /// Counts of buckets that have left their slot, and what was sealed for such a bucket later.
    pub(crate) expired: Counts,
    /// Counts for buckets that the window had left before they were recorded.
    pub(crate) late: Counts,
    pub(crate) recent: Recent,
    pub(crate) gauge: GaugeCounts,
}

/// How many requests entered, and how many ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GaugeCounts {
    pub(crate) entered: u64,
    pub(crate) ended: u64,
}

/// The sums of the rows of the N buckets that end with the newest one that was sealed.
///
/// A read of the whole window takes them, less the rows that have left the window since, instead of
/// adding up N rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    pub(crate) newest: Option<u64>,
    /// `None` for good once a row is so large that the sums might overflow.
    pub(crate) sums: Option<[u64; MetricEvent::COUNT]>,
}

impl Books {
    /// Those of a history in which nothing was sealed.
    pub(crate) fn empty() -> Self {
        let recent = Recent { newest: None, sums: Some([0; MetricEvent::COUNT]) };
        Self { expired: Counts::ZERO, late: Counts::ZERO, recent, gauge: GaugeCounts::default() }
    }
}

impl Ledger {
    const UNKNOWN: u64 = u64::MAX;

    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            slot: zero(),
            slot_from: zero(),
            slot_to: zero(),
            place: zero(),
            state_from: zero(),
            state_to: zero(),
            expired: AtomicCounts::new(),
            late: AtomicCounts::new(),
            newest: zero(),
            recent: EventWords::new(),
            entered: zero(),
            ended: zero(),
            spare_row: AtomicU32::new(0),
            next_free: AtomicU32::new(0),
        }
    }

    /// Fills a ledger that no other thread writes.
    pub(crate) fn store(&self, steps: &Steps, books: &Books) {
        let set = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        set(&self.slot, steps.slot.map_or(0, |step| step.slot as u64 + 1));
        if let Some(SlotStep { from, to, .. }) = steps.slot {
            set(&self.slot_from, from);
            set(&self.slot_to, to);
        }
        set(&self.place, steps.cell.map_or(0, |step| u64::from(step.place) + 1));
        if let Some(CellStep { from, to, .. }) = steps.cell {
            set(&self.state_from, from.0);
            set(&self.state_to, to.0);
        }
        self.expired.store(&books.expired);
        self.late.store(&books.late);
        set(&self.newest, books.recent.newest.map_or(0, |number| number + 1));
        let sums = books.recent.sums.unwrap_or([Self::UNKNOWN; MetricEvent::COUNT]);
        self.recent.store_all(sums);
        set(&self.entered, books.gauge.entered);
        set(&self.ended, books.gauge.ended);
    }

    /// The steps. They are those of one publication only if the head is still the same after an
    /// acquire fence.
    #[expect(clippy::cast_possible_truncation, reason = "what `store` made of a usize and a u32")]
    pub(crate) fn steps(&self) -> Steps {
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let [slot, place] = [&self.slot, &self.place].map(|word| get(word).checked_sub(1));
        Steps {
            slot: slot.map(|slot| SlotStep {
                slot: slot as usize,
                from: get(&self.slot_from),
                to: get(&self.slot_to),
            }),
            cell: place.map(|place| CellStep {
                place: place as u32,
                from: State(get(&self.state_from)),
                to: State(get(&self.state_to)),
            }),
        }
    }

    pub(crate) fn books(&self) -> Books {
        Books {
            expired: self.expired.load(),
            late: self.late.load(),
            recent: Recent { newest: self.newest(), sums: self.recent_sums() },
            gauge: self.gauge(),
        }
    }

    pub(crate) fn expired(&self) -> Counts {
        self.expired.load()
    }

    pub(crate) fn late(&self) -> Counts {
        self.late.load()
    }

    #[inline]
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest.load(Ordering::Relaxed).checked_sub(1)
    }

    fn recent_sums(&self) -> Option<[u64; MetricEvent::COUNT]> {
        let sums = self.recent.load_all();
        (!sums.contains(&Self::UNKNOWN)).then_some(sums)
    }

    /// The sum of `event` over the rows of the N buckets that end with the newest one that was sealed.
    #[inline]
    pub(crate) fn recent_sum(&self, event: MetricEvent) -> Option<u64> {
        let sum = self.recent.load(event);
        (sum != Self::UNKNOWN).then_some(sum)
    }

    pub(crate) fn gauge(&self) -> GaugeCounts {
        GaugeCounts {
            entered: self.entered.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
        }
    }

    pub(crate) const fn spare_row(&self) -> &AtomicU32 {
        &self.spare_row
    }

    pub(crate) const fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}
