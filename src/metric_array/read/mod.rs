//! Reading: rows and bound cells, while the history's head and the newest bucket do not change.

mod ahead;
mod histogram;
mod merged;

use std::cell::Cell;
use std::ops::{Range, RangeInclusive};

use super::MetricArray;
use super::cells::thread_cell::{LATE, ThreadCell};
use super::history::descriptor::Descriptor;
use super::history::{CountsSum, Head, History, Row, validate_reads};
use crate::array::Ledger;
use crate::metric::{CEILING, Counts, MetricEvent, MetricTotals};
use crate::sync::Ordering;
use crate::sync::stall::{self, Point};
use crate::time::Timestamp;

/// The numbers of consecutive buckets, both ends included.
#[derive(Clone, Copy)]
struct Numbers {
    first: u64,
    last: u64,
}

impl Numbers {
    #[inline]
    const fn of(numbers: &RangeInclusive<u64>) -> Self {
        Self { first: *numbers.start(), last: *numbers.end() }
    }

    /// Returns whether the number is one of them. The number of a late cell is not: its mark
    /// [`LATE`] is above all numbers.
    #[inline]
    const fn contains(self, number: u64) -> bool {
        number.wrapping_sub(self.first) <= self.last - self.first
    }
}

/// A moment of an array. If [`is_still`](Self::is_still) holds afterwards, everything that was read
/// of the array is of this moment, except for adds to bound cells. Cells may have become bound
/// during the read, but only if no bucket can be gone because of that.
pub(super) struct Moment<'a> {
    array: &'a MetricArray,
    history: Option<(&'a History, Head)>,
    /// The number of the newest bucket, plus 1, or 0.
    newest: u64,
    /// The number of cells that were bound before the read decided which buckets are gone; `None`
    /// before that, and in a read that need not decide.
    bound: Cell<Option<usize>>,
}

impl<'a> Moment<'a> {
    #[inline]
    pub(super) fn of(array: &'a MetricArray) -> Self {
        let history = array.history.get().map(|it| (it, it.complete_head(&array.cells)));
        // Relaxed: if a thread's adds happen before this read, then so does its load or update of
        // `newest` (see `arrive`).
        let newest = array.newest.load(Ordering::Relaxed);
        stall::at(Point::MomentTaken);
        Self { array, history, newest, bound: Cell::new(None) }
    }

    /// Returns whether, since this moment, nothing was sealed, no thread has recorded in a newer
    /// bucket, and, if buckets may be gone, no cell was bound.
    #[inline]
    pub(super) fn is_still(&self) -> bool {
        stall::at(Point::Counted);
        let is_same = match self.history {
            Some((history, head)) => history.is_still(head),
            None => self.array.has_no_history(),
        };
        // After the fence in either branch: if a sweep for a newer bucket has hidden an idle cell
        // from this reader, the reader sees that bucket.
        is_same
            && self.array.newest.load(Ordering::Relaxed) == self.newest
            && self.bound.get().is_none_or(|bound| bound == self.bound_cells())
    }

    /// Returns whether a bucket may be gone: the newest bucket is N or more after it.
    #[inline]
    const fn may_be_gone(&self, number: u64) -> bool {
        number + (self.array.config.sample_count() as u64) < self.newest
    }

    /// Returns whether a thread has recorded in a later bucket of the same slot. A late record does
    /// not count.
    pub(super) fn is_gone(&self, number: u64) -> bool {
        self.may_be_gone(number)
            && self.latest_in(self.array.config.slot_of(number)).is_some_and(|it| it > number)
    }

    /// Returns the latest bucket of a slot that has a row or a bound cell.
    fn latest_in(&self, slot: usize) -> Option<u64> {
        let mut latest = self.row_in(slot).map(Row::bucket);
        // All cells, not only active cells: the latest bucket of the slot may be before the window.
        self.array.cells.for_each_cell(|cell| latest = latest.max(self.bucket_in(slot, cell)));
        latest
    }

    fn row_in(&self, slot: usize) -> Option<Row<'a>> {
        self.history.and_then(|(history, _)| history.row_in(slot))
    }

    /// Returns the bucket that the cell is bound to, if it is a bucket of that slot and the cell is
    /// not late.
    fn bucket_in(&self, slot: usize, cell: &ThreadCell) -> Option<u64> {
        if !cell.state().is_bound() {
            return None;
        }
        let bucket = cell.bucket();
        let is_in_slot = bucket & LATE == 0 && self.array.config.slot_of(bucket) == slot;
        is_in_slot.then_some(bucket)
    }

    /// Visits the rows and the bound cells of those buckets, except for buckets that are gone.
    #[inline]
    fn for_each_part(&self, numbers: Numbers, mut visit: impl FnMut(Part<'_>)) {
        let mut kept = numbers;
        if self.may_be_gone(numbers.first) {
            let first_kept = self.newest - self.array.config.sample_count() as u64;
            let behind = Numbers { first: numbers.first, last: numbers.last.min(first_kept - 1) };
            self.for_each_part_in_slots(behind, &mut |part, bucket, is_there| {
                if is_there && behind.contains(bucket) {
                    visit(part);
                }
            });
            if numbers.last < first_kept {
                return;
            }
            kept.first = first_kept;
        }
        self.for_each_row(kept, |row, slot| visit(Part::Row(row, slot)));
        self.for_each_bound(kept, |cell| visit(Part::Cell(cell)));
    }

    /// Visits the rows and the bound cells in the slots of those buckets, each with its bucket and
    /// whether that is there or gone. This is decided once for each slot, so that a read has all
    /// parts of a bucket or none: some parts alone would be true at no moment.
    ///
    /// A thread may bind a cell at any time, and then a bucket that was found to be there may be
    /// gone. While the head does not change, cells may become bound, but none is sealed. So if the
    /// number of bound cells is the same before and after the read, no cell was bound in between.
    #[cold]
    fn for_each_part_in_slots(&self, numbers: Numbers, visit: &mut dyn FnMut(Part<'_>, u64, bool)) {
        self.bound.set(Some(self.bound_cells()));
        for slot in self.slots_of(numbers) {
            let latest = self.latest_in(slot);
            let is_there =
                |bucket| !self.may_be_gone(bucket) || latest.is_none_or(|it| it <= bucket);
            if let Some(row) = self.row_in(slot) {
                visit(Part::Row(row, slot), row.bucket(), is_there(row.bucket()));
            }
            self.array.cells.for_each_cell(|cell| {
                if let Some(bucket) = self.bucket_in(slot, cell) {
                    visit(Part::Cell(cell), bucket, is_there(bucket));
                }
            });
            stall::at(Point::SlotVisited);
        }
    }

    /// Returns the number of bound cells, whatever their bucket.
    fn bound_cells(&self) -> usize {
        let mut bound = 0;
        self.array.cells.for_each_cell(|cell| bound += usize::from(cell.state().is_bound()));
        bound
    }

    /// Returns N buckets, one for each slot.
    const fn all_slots(&self) -> Numbers {
        Numbers { first: 0, last: self.array.config.sample_count() as u64 - 1 }
    }

    /// Returns the slots of those buckets. Each slot is returned once, although a read for another
    /// geometry may ask for more buckets than there are slots.
    #[inline]
    fn slots_of(&self, numbers: Numbers) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let samples = self.array.config.sample_count();
        let mut next = self.array.config.slot_of(numbers.first);
        (numbers.first..=numbers.last).take(samples).map(move |_| {
            let slot = next;
            // Incremented: a division for each slot would take as long as reading its row.
            next = if slot + 1 == samples { 0 } else { slot + 1 };
            slot
        })
    }

    /// Visits the active cells that are bound to one of those buckets.
    #[inline]
    fn for_each_bound(&self, numbers: Numbers, mut visit: impl FnMut(&ThreadCell)) {
        self.array.cells.for_each_active(|cell| {
            if is_bound_to(cell, numbers) {
                visit(cell);
            }
        });
    }

    /// Returns a number that grows with each publication.
    pub(super) fn stamp(&self) -> u64 {
        self.history.map_or(0, |(_, head)| head.stamp())
    }

    #[inline]
    pub(super) fn descriptor(&self) -> Option<&'a Descriptor> {
        self.history.map(|(history, head)| history.descriptor(head))
    }

    /// Returns the counts of all records, if the window covers the buckets with those numbers: in
    /// the window, expired and late.
    #[inline]
    fn ledger(&self, covered: Numbers) -> [Counts; 3] {
        let [mut in_window, mut expired, mut late] = [Counts::ZERO; 3];
        let mut add = |part: Part<'_>, bucket, is_there: bool| {
            let is_in_window = is_there && covered.contains(bucket);
            let total = if is_in_window { &mut in_window } else { &mut expired };
            total.add(&part.counts());
        };
        let may_be_gone = self.may_be_gone(covered.first);
        if may_be_gone {
            self.for_each_part_in_slots(self.all_slots(), &mut add);
        } else if let Some((history, _)) = self.history {
            history.for_each_row_in(0..self.array.config.sample_count(), |row, slot| {
                add(Part::Row(row, slot), row.bucket(), true);
            });
        }
        self.array.cells.for_each_cell(|cell| {
            if cell.state().is_bound() {
                match cell.bucket() {
                    bucket if bucket & LATE != 0 => late.add(&cell.counts()),
                    bucket if !may_be_gone => add(Part::Cell(cell), bucket, true),
                    _ => {}
                }
            }
        });
        if let Some(descriptor) = self.descriptor() {
            expired.add(&descriptor.expired());
            late.add(&descriptor.late().unwrap_or(Counts::ZERO));
        }
        [in_window, expired, late]
    }

    /// Visits the rows of those buckets, each with its slot.
    #[inline]
    fn for_each_row(&self, numbers: Numbers, mut visit: impl FnMut(Row<'_>, usize)) {
        let Some((history, _)) = self.history else { return };
        let Some(more) = numbers.last.checked_sub(numbers.first) else { return };
        // Two slices of the slots: a comparison for each slot would take as long as its row.
        let samples = self.array.config.sample_count();
        let count = usize::try_from(more).map_or(samples, |more| samples.min(more + 1));
        let start = self.array.config.slot_of(numbers.first);
        let end = samples.min(start + count);
        for slots in [start..end, 0..count - (end - start)] {
            history.for_each_row_in(slots, |row, slot| {
                if numbers.contains(row.bucket()) {
                    visit(row, slot);
                }
            });
        }
    }

    /// Visits the slots of those buckets, if anything was sealed.
    fn for_each_slot(&self, numbers: Numbers, mut visit: impl FnMut(&History, usize)) {
        let Some((history, _)) = self.history else { return };
        self.slots_of(numbers).for_each(|slot| visit(history, slot));
    }

    /// Returns the sums of some events over the rows of those buckets.
    fn sums_of_rows<const K: usize>(&self, numbers: Numbers, events: [MetricEvent; K]) -> [u64; K] {
        let mut sums = [0; K];
        self.for_each_row(numbers, |row, slot| Part::Row(row, slot).add_to(&mut sums, events));
        sums
    }

    /// Returns the same sums. Starts from the recent sums if that takes fewer rows.
    fn sums_of_sealed<const K: usize>(
        &self,
        numbers: Numbers,
        events: [MetricEvent; K],
    ) -> [u64; K] {
        let Some(descriptor) = self.descriptor() else { return [0; K] };
        let (first, samples) = (numbers.first, self.array.config.sample_count() as u64);
        let is_near = |recent: &Range<u64>| {
            numbers.last + 1 >= recent.end && first.abs_diff(recent.start) <= samples / 2
        };
        let recent = descriptor.recent_numbers().filter(is_near);
        let Some(recent) = recent else { return self.sums_of_rows(numbers, events) };
        let sums = descriptor.recent_sums(events);
        let rows = |rows: Range<u64>| match rows.end.checked_sub(1) {
            Some(last) if !rows.is_empty() => {
                self.sums_of_rows(Numbers { first: rows.start, last }, events)
            }
            _ => [0; K],
        };
        let more = rows(first..recent.start);
        let less = rows(recent.start..first.min(recent.end));
        // The difference wraps around only if the parts are of different moments; then the read is
        // repeated. A row that is not in the recent sums may be at its maximum, so its sum is added
        // with saturation.
        std::array::from_fn(|k| sums[k].wrapping_sub(less[k]).saturating_add(more[k]))
    }
}

/// A part of the counts of one bucket.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// A row and its slot.
    Row(Row<'a>, usize),
    Cell(&'a ThreadCell),
}

impl Part<'_> {
    #[inline]
    fn sum(self, event: MetricEvent) -> u64 {
        match self {
            Self::Row(row, _) => row.event(event),
            Self::Cell(cell) => cell.sum(event),
        }
    }

    #[inline]
    fn counts(self) -> Counts {
        match self {
            Self::Row(row, _) => row.counts(),
            Self::Cell(cell) => cell.counts(),
        }
    }

    #[inline]
    fn add_to<const K: usize>(self, sums: &mut [u64; K], events: [MetricEvent; K]) {
        for (sum, event) in sums.iter_mut().zip(events) {
            *sum = sum.saturating_add(self.sum(event));
        }
    }
}

#[inline]
fn is_bound_to(cell: &ThreadCell, numbers: Numbers) -> bool {
    cell.state().is_bound() && numbers.contains(cell.bucket())
}

impl MetricArray {
    fn has_no_history(&self) -> bool {
        validate_reads();
        self.history.get().is_none()
    }

    /// Returns the end of the newest bucket that a thread has recorded in; `None` if there is none.
    pub(crate) fn newest_end(&self) -> Option<Timestamp> {
        let newest = self.newest.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.config.start_of(newest).saturating_add(self.config.bucket_len()))
    }

    /// Returns the sum of `event` over the buckets with those numbers, which may be more than the
    /// array has. The sum of response times is in nanoseconds.
    pub(crate) fn sum(&self, numbers: RangeInclusive<u64>, event: MetricEvent) -> u128 {
        match event {
            MetricEvent::Rt => self.totals(numbers).counts.rt_nanos,
            event => self.sums(numbers, [event])[0].into(),
        }
    }

    /// Returns the sums of some events over the whole window at `now`, and the nanoseconds from the
    /// start of the newest bucket to `now`, if the window is *steady*, and `None` otherwise. A
    /// window is steady if `now` is in the newest bucket, less than `within` nanoseconds after its
    /// start, the newest sealed bucket is the bucket before it, no sum reaches [`CEILING`], no
    /// publication is in flight, and the current descriptor is one of the first two.
    ///
    /// This read has no retry, no call, and no division to find the bucket of `now`. It also
    /// returns `None` if active cells are beyond the window's first 1,024, and, without `MANY`, if
    /// they are in several groups.
    #[inline]
    pub(crate) fn steady_sums<const MANY: bool, const K: usize>(
        &self,
        now: Timestamp,
        within: u64,
        events: [MetricEvent; K],
    ) -> Option<([u64; K], u64)> {
        let history = self.history.get()?;
        let head = history.if_complete()?;
        stall::at(Point::MomentTaken);
        let descriptor = history.first_descriptor(head)?;
        let (number, start) = descriptor.after_recent();
        // One comparison for both ends of the bucket: for a time before the bucket, the difference
        // wraps around.
        let age = now.as_nanos().wrapping_sub(start);
        if age >= within {
            return None;
        }
        let mut sums = descriptor.recent_sums(events);
        let samples = self.config.sample_count() as u64;
        let add = |cell: &ThreadCell| {
            // The difference is N or more for a later bucket and for a late cell.
            if cell.state().is_bound() && number.wrapping_sub(cell.bucket()) < samples {
                for k in 0..K {
                    sums[k] = sums[k].checked_add(cell.unbounded_sum(events[k]))?;
                }
            }
            Some(())
        };
        if MANY {
            self.cells.try_for_each_active_near(add)?;
        } else {
            self.cells.only_active_group()?.try_for_each(add)?;
        }
        stall::at(Point::Counted);
        // Loaded after the fence in `is_still`: if it is the newest bucket, no thread had recorded
        // in a later bucket by then, so no bucket of the window was gone, and no cell of the window
        // had been found idle.
        let is_newest = || self.newest.load(Ordering::Relaxed) == number.wrapping_add(1);
        if !history.is_still(head) || !is_newest() {
            return None;
        }
        // A counter at or above the ceiling raises its sum to the ceiling or more.
        sums.iter().all(|&sum| sum < CEILING).then_some((sums, age))
    }

    /// Returns the sums of some events over the buckets with those numbers. The sums saturate.
    /// Response times are not allowed: their sum takes two words.
    #[inline(never)]
    pub(crate) fn sums<const K: usize>(
        &self,
        numbers: RangeInclusive<u64>,
        events: [MetricEvent; K],
    ) -> [u64; K] {
        let asked = Numbers::of(&numbers);
        loop {
            let moment = Moment::of(self);
            let mut sums = [0; K];
            if moment.may_be_gone(asked.first) {
                moment.for_each_part(asked, |part| part.add_to(&mut sums, events));
            } else {
                sums = moment.sums_of_sealed(asked, events);
                moment.for_each_bound(asked, |cell| Part::Cell(cell).add_to(&mut sums, events));
            }
            if moment.is_still() {
                return sums;
            }
        }
    }

    /// Returns the totals of the buckets with those numbers.
    pub(crate) fn totals(&self, numbers: RangeInclusive<u64>) -> MetricTotals {
        let asked = Numbers::of(&numbers);
        loop {
            let moment = Moment::of(self);
            let mut sum = CountsSum::ZERO;
            if moment.may_be_gone(asked.first) {
                moment.for_each_part(asked, |part| sum.add(&part.counts()));
            } else {
                moment.for_each_row(asked, |row, _| sum.add_row(row));
                moment.for_each_bound(asked, |cell| sum.add(&cell.counts()));
            }
            if moment.is_still() {
                return sum.counts().totals();
            }
        }
    }

    /// Returns the ledger of all records, if the window covers the buckets with those numbers.
    ///
    /// Each record is counted once. A record that returned before this call is counted; a record in
    /// flight may be counted. The recorded total of a later ledger is no less.
    pub(crate) fn ledger(&self, covered: &RangeInclusive<u64>) -> Ledger<MetricTotals> {
        loop {
            let moment = Moment::of(self);
            let counts = moment.ledger(Numbers::of(covered));
            if moment.is_still() {
                let [in_window, expired, late] = counts.map(|part| part.totals());
                return Ledger { in_window, expired, late };
            }
        }
    }
}
