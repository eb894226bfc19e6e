//! Reading: rows and bound cells, while neither the history's head nor the newest bucket changes.

use std::ops::RangeInclusive;

use super::MetricArray;
use super::cell_table::CellTable;
use super::counts::Counts;
use super::history::{Head, History, Row};
use super::thread_cell::{LATE, ThreadCell};
use crate::account::Account;
use crate::event::MetricEvent;
use crate::metric_totals::MetricTotals;
use crate::sync::Ordering;
use crate::sync::stall::{self, Point};
use crate::timestamp::Timestamp;

/// A moment of an array: what is read until [`is_still`](Self::is_still) holds is of that moment,
/// but for adds to bound cells.
pub(super) struct Moment<'a> {
    array: &'a MetricArray,
    history: Option<(&'a History, Head)>,
    /// The number of the newest bucket, plus 1, or 0.
    newest: u64,
}

impl<'a> Moment<'a> {
    #[inline]
    pub(super) fn of(array: &'a MetricArray) -> Self {
        let history = array.history.get().map(|it| (it, it.settled(&array.cells)));
        // Relaxed: a reader that must see a thread's adds has them behind it, and so this.
        let newest = array.newest.load(Ordering::Relaxed);
        stall::at(Point::MomentTaken);
        Self { array, history, newest }
    }

    /// Whether nothing was sealed since, and no thread has gone on to a newer bucket.
    #[inline]
    pub(super) fn is_still(&self) -> bool {
        stall::at(Point::Counted);
        let is_same = match self.history {
            Some((history, head)) => history.is_still(head),
            None => self.array.has_no_history(),
        };
        // After the fence in either: a reader that was kept from a cell which a newer bucket has made
        // idle sees that bucket.
        is_same && self.array.newest.load(Ordering::Relaxed) == self.newest
    }

    /// Those of the buckets that the array still has: none that lies N or more before the newest one
    /// that was recorded in, and none after it.
    #[inline]
    fn kept(&self, numbers: RangeInclusive<u64>) -> Option<RangeInclusive<u64>> {
        let oldest = self.newest.saturating_sub(self.array.config.sample_count() as u64);
        let (first, last) = numbers.into_inner();
        let (first, last) = (first.max(oldest), last.min(self.newest.checked_sub(1)?));
        (first <= last).then_some(first..=last)
    }

    /// A number that grows with each seal.
    pub(super) fn stamp(&self) -> u64 {
        self.history.map_or(0, |(_, head)| head.stamp())
    }

    #[inline]
    pub(super) fn ledger(&self) -> Option<&'a super::ledger::Ledger> {
        self.history.and_then(|(history, head)| history.ledger(head))
    }

    /// Visits the rows of those buckets.
    #[inline]
    fn for_each_row(&self, numbers: &RangeInclusive<u64>, mut visit: impl FnMut(&Row)) {
        let Some((history, _)) = self.history else { return };
        let config = &self.array.config;
        let (first, last) = (*numbers.start(), *numbers.end());
        let mut slot = config.slot_of(first);
        for number in first..=last {
            if let Some(row) = history.row_in(slot).filter(|row| row.bucket() == number) {
                visit(row);
            }
            // Counted on: a division for each would cost as much as its row.
            slot = if slot + 1 == config.sample_count() { 0 } else { slot + 1 };
        }
    }

    /// The sums of some events over the rows of those buckets.
    #[inline]
    fn sums_of_rows<const K: usize>(
        &self,
        numbers: &RangeInclusive<u64>,
        events: [MetricEvent; K],
    ) -> [u128; K] {
        // Wider than a sum can get, so that no addition has a check to make.
        let mut sums = [0_u128; K];
        self.for_each_row(numbers, |row| {
            for (sum, event) in sums.iter_mut().zip(events) {
                *sum += u128::from(row.counts().event(event));
            }
        });
        sums
    }

    /// The same by the recent sums, if they tell it: of most of a window's rows, few have left the
    /// window since the newest one was sealed.
    #[inline]
    fn sums_of_recent<const K: usize>(
        &self,
        numbers: &RangeInclusive<u64>,
        events: [MetricEvent; K],
    ) -> Option<[u128; K]> {
        let (first, last) = (*numbers.start(), *numbers.end());
        if last - first < FEW {
            return None;
        }
        let samples = self.array.config.sample_count() as u64;
        let ledger = self.ledger()?;
        let newest = ledger.newest()?;
        let oldest = (newest + 1).saturating_sub(samples);
        if last < newest || first < oldest || 2 * (first - oldest) > samples {
            return None;
        }
        let mut sums = [0; K];
        for (sum, event) in sums.iter_mut().zip(events) {
            *sum = u128::from(ledger.recent_sum(event)?);
        }
        if first > oldest {
            let left = self.sums_of_rows(&(oldest..=newest.min(first - 1)), events);
            for (sum, left) in sums.iter_mut().zip(left) {
                // It wraps only if the two are of different moments.
                *sum = sum.wrapping_sub(left);
            }
        }
        Some(sums)
    }
}

/// So many rows are added up rather than that the recent sums are looked at.
const FEW: u64 = if cfg!(loom) { 1 } else { 8 };

/// Visits the cells that are bound to one of those buckets.
#[inline]
fn for_each_bound(
    cells: &CellTable,
    numbers: &RangeInclusive<u64>,
    mut visit: impl FnMut(&ThreadCell),
) {
    cells.for_each_active(|cell| {
        // A late one has a number that is beyond all others.
        if cell.state().is_bound() && numbers.contains(&cell.bucket()) {
            visit(cell);
        }
    });
}

impl MetricArray {
    fn has_no_history(&self) -> bool {
        crate::sync::fence(Ordering::Acquire);
        self.history.get().is_none()
    }

    /// The end of the newest bucket that a thread has recorded in; `None` if none ever was.
    pub(crate) fn newest_end(&self) -> Option<Timestamp> {
        let newest = self.newest.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.config.start_of(newest).saturating_add(self.config.bucket_len()))
    }

    /// The sum of `event` over the buckets of those numbers: of response times in nanoseconds.
    #[inline]
    pub(crate) fn sum(&self, numbers: RangeInclusive<u64>, event: MetricEvent) -> u128 {
        match event {
            MetricEvent::Rt => self.totals(numbers).rt_nanos,
            event => self.sums(numbers, [event])[0],
        }
    }

    /// The sums of some events over the buckets of those numbers, not of response times, whose sum takes
    /// more than a word.
    #[inline]
    pub(crate) fn sums<const K: usize>(
        &self,
        numbers: RangeInclusive<u64>,
        events: [MetricEvent; K],
    ) -> [u128; K] {
        loop {
            let moment = Moment::of(self);
            let Some(numbers) = moment.kept(numbers.clone()) else { return [0; K] };
            let mut sums = match moment.sums_of_recent(&numbers, events) {
                Some(sums) => sums,
                None => moment.sums_of_rows(&numbers, events),
            };
            for_each_bound(&self.cells, &numbers, |cell| {
                for (sum, event) in sums.iter_mut().zip(events) {
                    *sum = sum.wrapping_add(u128::from(cell.sum(event)));
                }
            });
            if moment.is_still() {
                return sums;
            }
        }
    }

    /// What the buckets of those numbers add up to.
    pub(crate) fn totals(&self, numbers: RangeInclusive<u64>) -> MetricTotals {
        loop {
            let moment = Moment::of(self);
            let Some(numbers) = moment.kept(numbers.clone()) else {
                return MetricTotals::default();
            };
            let mut counts = Counts::ZERO;
            moment.for_each_row(&numbers, |row| counts.add(&row.counts().load()));
            for_each_bound(&self.cells, &numbers, |cell| counts.add(&cell.counts()));
            if moment.is_still() {
                return counts.totals();
            }
        }
    }

    /// Where everything that was ever recorded is, if the window covers the buckets of those numbers.
    ///
    /// Each record is counted once. One that returned before this began is counted; one in flight may
    /// be. From look to look what was recorded only grows.
    pub(crate) fn account(&self, covered: &RangeInclusive<u64>) -> Account<MetricTotals> {
        loop {
            let moment = Moment::of(self);
            let covered = moment.kept(covered.clone());
            let is_covered = |number| covered.as_ref().is_some_and(|it| it.contains(&number));
            let [mut in_window, mut expired, mut late] = [Counts::ZERO; 3];
            if let Some((history, _)) = moment.history {
                for row in (0..self.config.sample_count()).filter_map(|slot| history.row_in(slot)) {
                    let part = if is_covered(row.bucket()) { &mut in_window } else { &mut expired };
                    part.add(&row.counts().load());
                }
            }
            if let Some(ledger) = moment.ledger() {
                expired.add(&ledger.expired());
                late.add(&ledger.late());
            }
            self.cells.for_each_cell(|cell| {
                if cell.state().is_bound() {
                    let part = match cell.bucket() {
                        number if number & LATE != 0 => &mut late,
                        number if is_covered(number) => &mut in_window,
                        _ => &mut expired,
                    };
                    part.add(&cell.counts());
                }
            });
            if moment.is_still() {
                let [in_window, expired, late] =
                    [in_window, expired, late].map(|part| part.totals());
                return Account { in_window, expired, late };
            }
        }
    }
}
