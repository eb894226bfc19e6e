//! The steps of one publication, and the running totals after it.

use std::ops::Range;

use super::Target;
use super::atomic_counts::{AtomicCounts, EventWords};
use super::row::PackedCounts;
use crate::metric::{CEILING, Counts, MetricEvent};
use crate::metric_array::cells::thread_cell::CellState;
use crate::sync::{AtomicU32, AtomicU64, Ordering, RacyOnce};
use crate::time::WindowConfig;

/// The record of a publication: its steps, which any thread can complete, and the running totals
/// after it.
#[derive(Debug)]
pub(crate) struct Descriptor {
    /// The slot that changes, plus 1, or 0 if none does; its word before and after.
    slot: AtomicU64,
    slot_from: AtomicU64,
    slot_to: AtomicU64,
    /// The place of the cell that is sealed, plus 1, or 0 if none is; its state before and after.
    place: AtomicU64,
    state_from: AtomicU64,
    state_to: AtomicU64,
    /// Counts of buckets that have left their slot, including counts that were sealed after that.
    expired: AtomicCounts,
    /// Counts that were recorded after their bucket was gone; made when the first are.
    late: RacyOnce<AtomicCounts>,
    /// 1 if `late` is filled, 0 if nothing was late: then `late` is neither read nor written.
    has_late: AtomicU64,
    /// The *recent sums*: the sums of the rows of the N − 1 buckets that end with the newest sealed
    /// bucket.
    ///
    /// A read of the whole window takes these sums instead of adding up N rows. In the bucket after
    /// the newest sealed bucket, which is not sealed itself while its threads record in it, the
    /// sums are taken as they are. At other times, the read adds or subtracts the few rows that
    /// differ.
    recent: EventWords,
    /// The number of the first of these buckets.
    recent_first: AtomicU64,
    /// The number of the last of these buckets, plus 1; or [`UNKNOWN`](Self::UNKNOWN).
    recent_end: AtomicU64,
    /// The start of the bucket with the number `recent_end`, in nanoseconds.
    recent_end_start: AtomicU64,
    /// Gauge counts of retired cells, and of threads without a cell.
    entered: AtomicU64,
    ended: AtomicU64,
    /// The row that the next publisher fills together with this descriptor, plus 1, or 0 for none.
    spare_row: AtomicU32,
    /// The same for a row of the last slot, which has the bins of retired cells. It is separate
    /// because a list of words only grows, and the list of such a row may be longer than the list
    /// of any bucket.
    spare_lifetime_row: AtomicU32,
    /// The index of the next free descriptor, plus 1, or 0 for none, while this descriptor is free.
    next_free: AtomicU32,
}

/// The steps that complete a publication. Each is a compare-exchange that succeeds once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) slot: Option<SlotStep>,
    pub(crate) cell: Option<CellStep>,
}

/// The step that puts a row into a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotStep {
    pub(crate) slot: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// The step that seals a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellStep {
    pub(crate) place: u32,
    pub(crate) from: CellState,
    pub(crate) to: CellState,
}

/// The number of requests that entered, and the number that ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GaugeCounts {
    pub(crate) entered: u64,
    pub(crate) ended: u64,
}

impl Descriptor {
    /// The value of `recent_end` once the recent sums are unknown, which they then remain: a sum is
    /// so large that the next sum might overflow, or the end of time cuts the next bucket short. No
    /// bucket has this number.
    const UNKNOWN: u64 = u64::MAX;

    /// Creates the descriptor of an empty history.
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
            has_late: zero(),
            late: RacyOnce::new(),
            recent_first: zero(),
            recent_end: zero(),
            recent_end_start: zero(),
            recent: EventWords::new(),
            entered: zero(),
            ended: zero(),
            spare_row: AtomicU32::new(0),
            spare_lifetime_row: AtomicU32::new(0),
            next_free: AtomicU32::new(0),
        }
    }

    /// Sets the expired counts to those of `current` and of a row that leaves its slot. As in the
    /// setters below, no other thread writes this descriptor at the same time.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of most publications")]
    pub(crate) fn add_expired(&self, current: &Self, row: PackedCounts) {
        if row.has_seldom() {
            self.expired.store_sum(&current.expired, row.counts());
        } else {
            self.expired.store_sum(&current.expired, row.frequent_counts());
        }
    }

    /// Sets the expired counts to the expired counts of `current` and `more`.
    #[inline(never)]
    pub(crate) fn set_expired(&self, current: &Self, more: Option<Counts>) {
        match more {
            Some(more) => self.expired.store_sum(&current.expired, more),
            None => self.expired.store(&current.expired()),
        }
    }

    #[inline]
    pub(crate) fn set_late(&self, current: &Self, more: Option<Counts>) {
        if more.is_none() && current.has_late.load(Ordering::Relaxed) == 0 {
            set(&self.has_late, 0);
        } else {
            self.add_late(current, more);
        }
    }

    #[cold]
    fn add_late(&self, current: &Self, more: Option<Counts>) {
        let late = current.late();
        set(&self.has_late, u64::from(late.is_some() || more.is_some()));
        let late = match (late, more) {
            (Some(mut late), Some(more)) => {
                late.add(&more);
                Some(late)
            }
            (late, more) => late.or(more),
        };
        if let Some(late) = late {
            self.late.get_or_init(AtomicCounts::new).store(&late);
        }
    }

    pub(crate) fn set_gauge(&self, current: &Self, more: GaugeCounts) {
        let GaugeCounts { entered, ended } = current.gauge();
        set(&self.entered, entered.wrapping_add(more.entered));
        set(&self.ended, ended.wrapping_add(more.ended));
    }

    pub(crate) fn copy_recent(&self, current: &Self) {
        set(&self.recent_first, current.recent_first.load(Ordering::Relaxed));
        set(&self.recent_end, current.recent_end.load(Ordering::Relaxed));
        set(&self.recent_end_start, current.recent_end_start.load(Ordering::Relaxed));
        let _ = self.recent.store_changed(&current.recent, |sum, _| sum);
    }

    /// Sets the recent sums to those of `current`, with `more` and without `less`, and their
    /// buckets.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of most publications")]
    pub(crate) fn set_recent(
        &self,
        config: &WindowConfig,
        current: &Self,
        buckets: Range<u64>,
        more: &PackedCounts,
        less: &PackedCounts,
    ) {
        if more.has_seldom() || less.has_seldom() {
            self.change_recent(config, current, buckets, |event| {
                more.event(event).wrapping_sub(less.event(event))
            });
        } else {
            self.change_recent(config, current, buckets, |event| {
                more.frequent_event(event).wrapping_sub(less.frequent_event(event))
            });
        }
    }

    /// Sets the recent sums to those of `current`, plus `change`, which wraps around, and their
    /// buckets; or [`UNKNOWN`](Self::UNKNOWN).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of most publications")]
    pub(crate) fn change_recent(
        &self,
        config: &WindowConfig,
        current: &Self,
        Range { start, end }: Range<u64>,
        change: impl Fn(MetricEvent) -> u64,
    ) {
        let change = |sum: u64, event| sum.wrapping_add(change(event));
        // The bitwise or is below 2⁶² if and only if each sum is. A sealed count is at most 2⁶², so
        // the next sums do not overflow.
        let are_small = self.recent.store_changed(&current.recent, change) < CEILING;
        // The last bucket of all time may be cut short.
        let is_known = are_small && config.is_whole(end);
        set(&self.recent_first, start);
        set(&self.recent_end, if is_known { end } else { Self::UNKNOWN });
        // Without a meaning if the sums are unknown: then it may wrap around.
        set(&self.recent_end_start, end.wrapping_mul(config.bucket_nanos()));
    }

    #[inline]
    pub(crate) fn set_steps(&self, slot: Option<SlotStep>, cell: Option<CellStep>) {
        set(&self.slot, slot.map_or(0, |step| step.slot as u64 + 1));
        if let Some(SlotStep { from, to, .. }) = slot {
            set(&self.slot_from, from);
            set(&self.slot_to, to);
        }
        let (place, from, to) = cell
            .map_or((0, 0, 0), |CellStep { place, from, to }| (u64::from(place) + 1, from.0, to.0));
        set(&self.place, place);
        set(&self.state_from, from);
        set(&self.state_to, to);
    }

    /// Returns the steps. They belong to one publication only if the head is still the same after
    /// an acquire fence.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`set_steps` converted them from a usize and a u32"
    )]
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
                from: CellState(get(&self.state_from)),
                to: CellState(get(&self.state_to)),
            }),
        }
    }

    #[inline]
    pub(crate) fn expired(&self) -> Counts {
        self.expired.load()
    }

    pub(crate) fn late(&self) -> Option<Counts> {
        if self.has_late.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // A reader of a descriptor that is being filled may find no counts yet. It has seen a word
        // of the new filling, so it finds that the head has moved on.
        self.late.get().map(AtomicCounts::load)
    }

    /// Returns the buckets of the recent sums; `None` if the sums are unknown.
    #[inline]
    pub(crate) fn recent_numbers(&self) -> Option<Range<u64>> {
        let end = self.recent_end.load(Ordering::Relaxed);
        (end != Self::UNKNOWN).then(|| self.recent_first.load(Ordering::Relaxed)..end)
    }

    /// Returns the number of the first bucket of the recent sums, and the number after that of the
    /// last one, or [`UNKNOWN`](Self::UNKNOWN).
    #[inline]
    pub(crate) fn recent_words(&self) -> (u64, u64) {
        (self.recent_first.load(Ordering::Relaxed), self.recent_end.load(Ordering::Relaxed))
    }

    /// Returns the number and the start of the bucket after the recent sums. If the sums are
    /// unknown, no thread records in a bucket with that number.
    #[inline]
    pub(crate) fn after_recent(&self) -> (u64, u64) {
        let [number, start] = [&self.recent_end, &self.recent_end_start];
        (number.load(Ordering::Relaxed), start.load(Ordering::Relaxed))
    }

    /// Returns the recent sums of some events, but not of response times.
    #[inline]
    pub(crate) fn recent_sums<const K: usize>(&self, events: [MetricEvent; K]) -> [u64; K] {
        events.map(|event| self.recent.load(event))
    }

    pub(crate) fn gauge(&self) -> GaugeCounts {
        GaugeCounts {
            entered: self.entered.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
        }
    }

    /// Returns the spare row for that target.
    pub(crate) const fn spare_of(&self, target: Target) -> &AtomicU32 {
        match target {
            Target::Bucket { .. } => &self.spare_row,
            Target::Lifetime => &self.spare_lifetime_row,
        }
    }

    pub(crate) const fn spare_row(&self) -> &AtomicU32 {
        &self.spare_row
    }

    pub(crate) const fn spare_lifetime_row(&self) -> &AtomicU32 {
        &self.spare_lifetime_row
    }

    pub(crate) const fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

#[inline]
fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}
