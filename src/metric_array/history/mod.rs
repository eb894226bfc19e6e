//! The sealed counts of one window: a row for each bucket, published by one compare-exchange.

mod atomic_counts;
pub(super) mod descriptor;
pub(super) mod descriptors;
mod row;
mod tagged_index;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Range;

use crate::collections::Pool;
use crate::metric_array::cells::cell_table::CellTable;
use crate::metric_array::cells::thread_cell::ThreadCell;
use crate::metric_array::latency::{BinSource, SealedBins};
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::WindowConfig;
use descriptor::{CellStep, Descriptor, GaugeCounts, SlotStep, Steps};
use descriptors::Descriptors;
pub(crate) use row::{CountsSum, Row, SealedCounts};
use row::{PackedCounts, Rows};
use tagged_index::{INDEX_BITS, index_of, next_word};

/// Counts to seal.
#[derive(Debug)]
pub(crate) struct SealRequest<'a> {
    pub(crate) target: Target,
    pub(crate) counts: &'a SealedCounts,
    /// Gauge counts that move into the history as well.
    pub(crate) gauge: GaugeCounts,
    /// The response times by bins.
    pub(crate) bins: BinSource<'a>,
    /// The cell that the counts come from, which the caller owns, and the step that seals it.
    pub(crate) cell: Option<(&'a ThreadCell, CellStep)>,
}

/// Where counts go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Into a bucket.
    Bucket {
        number: u64,
        /// Whether the bucket was gone before the counts were recorded.
        is_late: bool,
    },
    /// Into the bins of cells that were retired. The counts have no events, but may have extremes.
    Lifetime,
}

/// Rows in slots, and the running totals of everything that has left the slots.
///
/// # Publishing
///
/// A sealer fills a private descriptor and a private row, from the current ones and a cell's
/// counts, and publishes both by one compare-exchange on `head`: the linearization point. A
/// published descriptor has the steps that complete the publication: the row takes its slot, the
/// cell becomes sealed, and `head` becomes *complete*. Each step is a compare-exchange that can
/// succeed only once, so any thread may complete the steps for a publisher that has stalled
/// (helping), and the later steps of a stalled helper fail. The next publication begins from a
/// complete head.
///
/// # Reading
///
/// A reader takes a complete head, reads rows, totals and cells, and compares the head again after
/// an acquire fence. If it has not changed, nothing was published in between: rows and totals are
/// of one moment, and each cell that was seen bound has stayed bound.
///
/// # Orderings
///
/// - Publishing releases: a thread that acquires the head sees the descriptor and the row filled.
/// - Each step releases, and the head becomes complete after all of them.
/// - A release fence precedes the filling of a row or a descriptor that was used before. It pairs
///   with the readers' acquire fence: a reader that sees a word of the new filling sees that the
///   head has moved on.
#[derive(Debug)]
pub(crate) struct History {
    /// See [`Head`].
    head: AtomicU64,
    /// The row of each slot: `{ tag: 40, row + 1: 24 }`, or 0 for an empty slot.
    slots: Box<[AtomicU64]>,
    rows: Rows,
    /// The bins of each row, if there is a histogram. The row in the last slot, which is no
    /// bucket's, has the bins of retired cells.
    bins: Option<Pool<SealedBins>>,
    descriptors: Descriptors,
}

/// Orders a load of the head, which validates a read, after all loads of the read.
#[inline]
pub(crate) fn validate_reads() {
    // Acquire: pairs with the release fences in `History::publish` and `ThreadCell::bind`, and with
    // the Release of each step. A reader that has seen anything of a later publication sees its
    // head.
    fence(Ordering::Acquire);
}

/// `{ tag: 39, complete: 1, descriptor: 24 }`: the current descriptor, and whether its steps are
/// completed. As a number, the head only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(u64);

impl Head {
    const COMPLETE: u64 = 1 << INDEX_BITS;
    /// The head of an empty history, with descriptor 0, which is empty.
    const INITIAL: Self = Self(Self::COMPLETE);

    #[inline]
    const fn is_complete(self) -> bool {
        self.0 & Self::COMPLETE != 0
    }

    const fn completed(self) -> Self {
        Self(self.0 | Self::COMPLETE)
    }

    #[inline]
    const fn descriptor(self) -> u32 {
        index_of(self.0)
    }

    /// Returns the head after this one, not complete.
    const fn next(self, descriptor: u32) -> Self {
        Self(((self.0 >> (INDEX_BITS + 1)) + 1) << (INDEX_BITS + 1) | descriptor as u64)
    }

    /// Returns the head as a number, which only grows.
    #[inline]
    pub(crate) const fn stamp(self) -> u64 {
        self.0
    }
}

impl History {
    /// The most bytes of a row, without its bins.
    pub(crate) const ROW_BYTES: usize = Rows::BYTES;

    /// The number of rows beyond one for each slot for which the pool has room from the start: a
    /// row for each thread that seals at the same time.
    const SPARE_ROWS: usize = 32;

    pub(crate) fn new(config: &WindowConfig, has_bins: bool) -> Self {
        let slots = config.sample_count() + usize::from(has_bins);
        let rows = slots + Self::SPARE_ROWS;
        Self {
            head: AtomicU64::new(Head::INITIAL.0),
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            rows: Rows::with_capacity(rows),
            bins: has_bins.then(|| Pool::with_capacity(rows)),
            descriptors: Descriptors::new(),
        }
    }

    /// Returns a complete head. If the steps of the head are not completed, this thread completes
    /// them.
    #[inline]
    pub(crate) fn complete_head(&self, cells: &CellTable) -> Head {
        // Acquire: pairs with the Release in `publish` and `perform_steps`.
        let head = Head(self.head.load(Ordering::Acquire));
        if head.is_complete() { head } else { self.help(cells) }
    }

    /// Returns the head if it is complete.
    #[inline]
    pub(crate) fn if_complete(&self) -> Option<Head> {
        // Acquire: as in `complete_head`.
        let head = Head(self.head.load(Ordering::Acquire));
        head.is_complete().then_some(head)
    }

    #[cold]
    fn help(&self, cells: &CellTable) -> Head {
        loop {
            let head = Head(self.head.load(Ordering::Acquire));
            if head.is_complete() {
                return head;
            }
            stall::at(Point::IncompleteSeen);
            self.complete(head, cells);
        }
    }

    /// Returns whether nothing was published since `head` was loaded. If so, everything that was
    /// read since then belongs to it.
    #[inline]
    pub(crate) fn is_still(&self, head: Head) -> bool {
        validate_reads();
        self.head.load(Ordering::Relaxed) == head.0
    }

    /// Returns the head as a number, complete or not. Call [`validate_reads`] first.
    pub(crate) fn stamp(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }

    /// Returns the current descriptor, if it is one of the first. It is one of them unless threads
    /// have published at the same time.
    #[inline]
    pub(crate) fn first_descriptor(&self, head: Head) -> Option<&Descriptor> {
        self.descriptors.first(head.descriptor())
    }

    /// Returns the current descriptor.
    #[inline]
    pub(crate) fn descriptor(&self, head: Head) -> &Descriptor {
        self.descriptors.get(head.descriptor())
    }

    /// Returns the row in a slot.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of each publication")]
    pub(crate) fn row_in(&self, slot: usize) -> Option<Row<'_>> {
        // Acquire: pairs with the Release of the step that put the row there, so the row has been
        // made. The caller validates the head to find out whether the row was there when the read
        // began.
        self.row(self.slots[slot].load(Ordering::Acquire))
    }

    /// Visits the rows in some slots, each with its slot.
    #[inline]
    pub(crate) fn for_each_row_in(
        &self,
        slots: Range<usize>,
        mut visit: impl FnMut(Row<'_>, usize),
    ) {
        for (slot, word) in slots.clone().zip(&self.slots[slots]) {
            // Acquire: as in `row_in`.
            if let Some(row) = self.row(word.load(Ordering::Acquire)) {
                visit(row, slot);
            }
        }
    }

    /// Returns the word of a slot, which is never the same for two rows.
    #[inline]
    pub(crate) fn slot_word(&self, slot: usize) -> u64 {
        // Acquire: as in `row_in`.
        self.slots[slot].load(Ordering::Acquire)
    }

    /// Returns the bins of the row in a slot, if there are any.
    pub(crate) fn bins_in(&self, slot: usize) -> Option<&SealedBins> {
        // Acquire: as in `row_in`.
        self.bins_of(self.slots[slot].load(Ordering::Acquire))
    }

    /// Returns the bins of the row in a slot with that word, if there are any.
    pub(crate) fn bins_of(&self, word: u64) -> Option<&SealedBins> {
        let bins = self.bins.as_ref()?;
        index_of(word).checked_sub(1).map(|index| bins.get(index))
    }

    /// Returns the row and the bins of retired cells, if there are any. There must be a histogram.
    pub(crate) fn retired(&self) -> Option<(Row<'_>, &SealedBins)> {
        let word = self.slots.last()?.load(Ordering::Acquire);
        Some((self.row(word)?, self.bins_of(word)?))
    }

    /// Returns the row in a slot with that word, if there is one.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of each publication")]
    pub(crate) fn row(&self, word: u64) -> Option<Row<'_>> {
        index_of(word).checked_sub(1).map(|index| self.rows.get(index))
    }

    /// Moves counts into the history, and the cell that they come from into its next state.
    pub(crate) fn publish(
        &self,
        config: &WindowConfig,
        cells: &CellTable,
        sealed: &SealRequest<'_>,
    ) {
        let (index, draft) = self.descriptors.take();
        let spare = draft.spare_of(sealed.target).load(Ordering::Relaxed);
        // Release: pairs with the acquire fence in `is_still`. A reader that sees a word that is
        // filled from here on sees that the head has moved on since the descriptor and the row were
        // last current.
        fence(Ordering::Release);
        let head = self.complete_head(cells);
        stall::at(Point::HeadRead);
        let current = self.descriptor(head);
        if let Some(slot) = self.fill_next(draft, config, current, sealed, spare)
            && let Ok(published) = self.replace_head(head, index)
        {
            self.perform_own_steps(published, Some(slot), sealed);
            self.descriptors.give(head.descriptor(), current);
        } else {
            self.publish_slowly(config, cells, sealed, (index, draft, spare));
        }
    }

    /// Publishes counts with a descriptor and a spare row that were taken, in any case, and until
    /// no other thread publishes at the same time.
    #[inline(never)]
    fn publish_slowly(
        &self,
        config: &WindowConfig,
        cells: &CellTable,
        sealed: &SealRequest<'_>,
        (index, draft, mut spare): (u32, &Descriptor, u32),
    ) {
        loop {
            let head = self.complete_head(cells);
            stall::at(Point::HeadRead);
            let current = self.descriptor(head);
            let slot = self.fill(draft, config, current, sealed, &mut spare);
            if let Ok(published) = self.replace_head(head, index) {
                self.perform_own_steps(published, slot, sealed);
                return self.descriptors.give(head.descriptor(), current);
            }
        }
    }

    /// Publishes a descriptor that follows `head`, and the row that was filled with it. Returns the
    /// new head; the error is that another thread has published since `head` was read.
    #[inline]
    fn replace_head(&self, head: Head, index: u32) -> Result<Head, ()> {
        stall::at(Point::Filled);
        let next = head.next(index);
        // Release: publishes the descriptor and the row. If the compare-exchange succeeds, nothing
        // was published since `head` was read, so they were made from the current state. There is
        // no ABA, since the tag grows.
        let published =
            self.head.compare_exchange(head.0, next.0, Ordering::Release, Ordering::Relaxed);
        published.map(|_| next).map_err(drop)
    }

    /// Fills a descriptor, and a row if the counts go into a row, with the publication that follows
    /// the current one. If other threads publish at the same time, this may read parts of several
    /// publications. Then the compare-exchange against the head fails, and nothing of it is
    /// published.
    ///
    /// `spare` is the row to fill, plus 1, or 0 for a new row. The row that the publication
    /// replaces becomes the descriptor's spare row. Returns the step that puts the filled row into
    /// its slot.
    fn fill(
        &self,
        draft: &Descriptor,
        config: &WindowConfig,
        current: &Descriptor,
        sealed: &SealRequest<'_>,
        spare: &mut u32,
    ) -> Option<SlotStep> {
        let (number, is_late) = match sealed.target {
            Target::Bucket { number, is_late } => (number, is_late),
            Target::Lifetime => return Some(self.fill_lifetime(draft, current, sealed, spare)),
        };
        let counts = sealed.counts;
        let slot = config.slot_of(number);
        // Acquire: as in `row_in`.
        let from = self.slots[slot].load(Ordering::Acquire);
        let found = self.row(from).map(|row| (row, row.bucket()));
        let (has_row, leaving, same) = match found {
            _ if is_late => (false, None, None),
            Some((row, bucket)) if bucket < number => (true, Some(row.counts()), None),
            Some((row, bucket)) if bucket == number => (true, None, Some(row)),
            // The slot has gone on to a later bucket.
            Some(_) => (false, Some(counts.counts()), None),
            None => (true, None, None),
        };
        draft.set_expired(current, leaving);
        draft.set_late(current, is_late.then(|| counts.counts()));
        draft.set_gauge(current, sealed.gauge);
        let step = has_row.then(|| {
            self.rows.fill(self.spare_row(spare), number, counts, same);
            self.fill_bins(*spare, sealed.bins, same.and_then(|_| self.bins_of(from)));
            self.fill_recent(draft, config, current, counts, number);
            SlotStep { slot, from, to: next_word(from, *spare) }
        });
        if !has_row {
            draft.copy_recent(current);
        }
        draft.set_steps(step, sealed.cell.map(|(_, step)| step));
        let left = if has_row { index_of(from) } else { *spare };
        draft.spare_row().store(left, Ordering::Relaxed);
        step
    }

    /// Does what [`fill`](Self::fill) does, in the usual case: the sealed bucket follows the recent
    /// sums, all rows are packed, the slot has a row of an earlier bucket, and there is a spare
    /// row. Returns `None` in other cases.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of most publications")]
    fn fill_next(
        &self,
        draft: &Descriptor,
        config: &WindowConfig,
        current: &Descriptor,
        sealed: &SealRequest<'_>,
        spare: u32,
    ) -> Option<SlotStep> {
        let Target::Bucket { number, is_late: false } = sealed.target else { return None };
        let SealedCounts::Packed(counts) = sealed.counts else { return None };
        let (first, end) = current.recent_words();
        let samples = config.sample_count();
        // The sums have N − 1 buckets.
        if number != end || number.wrapping_sub(first) != samples as u64 - 1 {
            return None;
        }
        let filled = spare.checked_sub(1)?;
        let slot = config.slot_of(number);
        // Acquire: as in `row_in`.
        let from = self.slots[slot].load(Ordering::Acquire);
        let leaving = self.packed_row(from).filter(|row| row.bucket() < number)?;
        draft.add_expired(current, leaving);
        // One bucket leaves the recent sums. It is N − 1 before the sealed bucket, so its row is in
        // the next slot, if there is one.
        let next = if slot + 1 == samples { 0 } else { slot + 1 };
        // Acquire: as in `row_in`.
        let less = self.packed_row(self.slots[next].load(Ordering::Acquire))?;
        let less = if less.bucket() == first { less } else { PackedCounts::ZERO };
        // A window of one bucket has no recent sums: no bucket enters them, and none leaves.
        let more = if samples == 1 { &PackedCounts::ZERO } else { counts };
        draft.set_recent(config, current, first + 1..number + 1, more, &less);
        self.rows.fill_packed(filled, counts);
        self.fill_bins(spare, sealed.bins, None);
        draft.set_late(current, None);
        draft.set_gauge(current, sealed.gauge);
        let step = SlotStep { slot, from, to: next_word(from, spare) };
        draft.set_steps(Some(step), sealed.cell.map(|(_, step)| step));
        draft.spare_row().store(index_of(from), Ordering::Relaxed);
        Some(step)
    }

    /// Returns the counts of the row in a slot with that word; `None` if there is no row, or if it
    /// is wide.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of most publications")]
    fn packed_row(&self, word: u64) -> Option<PackedCounts> {
        self.rows.get_packed(index_of(word).checked_sub(1)?)
    }

    /// Returns the index of the spare row, and makes one if there is none.
    #[inline]
    fn spare_row(&self, spare: &mut u32) -> u32 {
        if *spare == 0 {
            *spare = self.make_row();
        }
        *spare - 1
    }

    /// Fills the bins of the row with that index plus 1: the sum of `more` and of `same`, if there
    /// are any.
    #[inline]
    fn fill_bins(&self, row: u32, more: BinSource<'_>, same: Option<&SealedBins>) {
        if let Some(bins) = &self.bins {
            bins.get(row - 1).fill(more, same);
        }
    }

    /// Fills a descriptor, and a row for the last slot, with the publication that adds bins to
    /// those of retired cells.
    #[inline(never)]
    fn fill_lifetime(
        &self,
        draft: &Descriptor,
        current: &Descriptor,
        sealed: &SealRequest<'_>,
        spare: &mut u32,
    ) -> SlotStep {
        let slot = self.slots.len() - 1;
        // Acquire: as in `row_in`.
        let from = self.slots[slot].load(Ordering::Acquire);
        draft.set_expired(current, None);
        draft.set_late(current, None);
        draft.set_gauge(current, sealed.gauge);
        draft.copy_recent(current);
        self.rows.fill(self.spare_row(spare), 0, sealed.counts, self.row(from));
        self.fill_bins(*spare, sealed.bins, self.bins_of(from));
        let step = SlotStep { slot, from, to: next_word(from, *spare) };
        draft.set_steps(Some(step), sealed.cell.map(|(_, step)| step));
        draft.spare_lifetime_row().store(index_of(from), Ordering::Relaxed);
        step
    }

    /// Fills the recent sums of a descriptor. They include the sealed counts of that bucket.
    fn fill_recent(
        &self,
        draft: &Descriptor,
        config: &WindowConfig,
        current: &Descriptor,
        counts: &SealedCounts,
        number: u64,
    ) {
        let Some(before) = current.recent_numbers() else { return draft.copy_recent(current) };
        let samples = config.sample_count();
        let end = before.end.max(number + 1);
        let first = end.saturating_sub(samples as u64 - 1);
        let mut change = if number >= first { counts.counts().events } else { [0; _] };
        // The buckets that leave the recent sums: one, unless there was a gap. There are no more
        // than N, unless the start and the end of `before` are of different publications.
        for bucket in (before.start..first.min(before.end)).take(samples) {
            let row = self.row_in(config.slot_of(bucket)).filter(|row| row.bucket() == bucket);
            for (count, less) in change.iter_mut().zip(row.map_or([0; _], Row::events)) {
                // Wraps around, as the sum of the word and the change.
                *count = count.wrapping_sub(less);
            }
        }
        draft.change_recent(config, current, first..end, |event| change[event as usize]);
    }

    /// Completes a publication. Any thread may call this, at any later time.
    fn complete(&self, head: Head, cells: &CellTable) {
        let steps = self.descriptor(head).steps();
        // The steps belong to this publication only if the descriptor was not filled again since.
        // If it was, another thread has completed them.
        if !self.is_still(head) {
            return;
        }
        self.perform_steps(head, steps, cells);
    }

    /// Takes the steps of a publication, and marks the head as complete.
    fn perform_steps(&self, head: Head, steps: Steps, cells: &CellTable) {
        stall::at(Point::StepsRead);
        self.change_slot(steps.slot);
        if let Some(CellStep { place, from, to }) = steps.cell
            && let Some(cell) = cells.cell(place)
        {
            cell.unbind(from, to);
        }
        self.mark_complete(head);
    }

    /// Does the same, as the publisher, which need not look up the cell.
    #[inline]
    fn perform_own_steps(&self, head: Head, slot: Option<SlotStep>, sealed: &SealRequest<'_>) {
        stall::at(Point::Published);
        stall::at(Point::StepsRead);
        self.change_slot(slot);
        if let Some((cell, CellStep { from, to, .. })) = sealed.cell {
            cell.unbind(from, to);
        }
        self.mark_complete(head);
    }

    #[inline]
    fn change_slot(&self, step: Option<SlotStep>) {
        if let Some(SlotStep { slot, from, to }) = step {
            // Fails if the step was taken before: the tag of a slot only grows. Release: pairs with
            // the Acquire in `row_in`.
            let slot = &self.slots[slot];
            let _ = slot.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
        }
        stall::at(Point::SlotChanged);
    }

    #[inline]
    fn mark_complete(&self, head: Head) {
        stall::at(Point::CellSealed);
        let completed = head.completed();
        // Release: pairs with the Acquire in `complete_head`. All steps happen before: this thread
        // has taken them, or has found them taken. A thread that finds the head complete finds no
        // earlier word in the slot or the cell than this thread has found.
        let _ =
            self.head.compare_exchange(head.0, completed.0, Ordering::Release, Ordering::Relaxed);
    }

    fn make_row(&self) -> u32 {
        let index = self.rows.make();
        if let Some(bins) = &self.bins {
            bins.make(index, SealedBins::new);
        }
        index + 1
    }
}

#[cfg(all(test, not(loom)))]
impl History {
    /// Returns the numbers of rows and descriptors that were made.
    pub(crate) fn blocks_made(&self) -> (u32, u32) {
        (self.rows.made(), self.descriptors.made())
    }

    /// Returns all rows that are in slots or spare, and all descriptors that are current or free,
    /// by their indices plus 1, each list in order. No thread may publish during the call.
    pub(crate) fn blocks_at_rest(&self) -> (Vec<u32>, Vec<u32>) {
        let in_slots = self.slots.iter().map(|slot| index_of(slot.load(Ordering::Relaxed)));
        let spare = (0..self.descriptors.made()).flat_map(|index| {
            let descriptor = self.descriptors.get(index);
            [descriptor.spare_row(), descriptor.spare_lifetime_row()]
                .map(|row| row.load(Ordering::Relaxed))
        });
        let current = Head(self.head.load(Ordering::Relaxed)).descriptor() + 1;
        let in_order = |blocks: &mut dyn Iterator<Item = u32>| {
            let mut blocks: Vec<_> = blocks.filter(|&block| block != 0).collect();
            blocks.sort_unstable();
            blocks
        };
        (
            in_order(&mut in_slots.chain(spare)),
            in_order(&mut self.descriptors.free_ones().chain([current])),
        )
    }
}
