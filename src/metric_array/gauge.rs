//! How many requests are in flight: what has entered less what has ended, on all threads.

use super::MetricArray;
use super::history::{History, validate_reads};
use super::read::Moment;

/// How many requests are in flight, as one look at all cells has found: the number lies between the
/// two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauge {
    /// The number that had entered, less the number that had ended when the look began: no fewer than
    /// were in flight all the time.
    pub(crate) at_least: u64,
    /// The number that had entered, less the number that had ended when the look was over: this number
    /// was in flight at one moment.
    pub(crate) at_most_reached: u64,
}

/// How often all cells are added up, if something ends in the middle of it. Models explore what one
/// look finds.
const LOOKS: usize = if cfg!(loom) { 1 } else { 4 };

impl Gauge {
    /// The gauge of some arrays together: a request may enter in one and end in another.
    ///
    /// `arrays` returns all that there are at the time of the call. It is called for each pass: an array may be
    /// added between two passes, and a request may enter in it and end in one of the others.
    pub(crate) fn of<'a, I>(arrays: impl Fn() -> I) -> Self
    where
        I: Iterator<Item = &'a MetricArray>,
    {
        let (mut gauge, mut looks) = (Self::look(&arrays), 1);
        while gauge.at_least != gauge.at_most_reached && looks < LOOKS {
            let again = Self::look(&arrays);
            looks += 1;
            gauge.at_least = gauge.at_least.min(again.at_least);
            gauge.at_most_reached = gauge.at_most_reached.max(again.at_most_reached);
        }
        gauge
    }

    fn look<'a, I>(arrays: &impl Fn() -> I) -> Self
    where
        I: Iterator<Item = &'a MetricArray>,
    {
        let sum = |part: fn(&MetricArray) -> u64| arrays().map(part).fold(0, u64::wrapping_add);
        loop {
            let stamp = sum(|array| Moment::of(array).stamp());
            // Ended counts are read first, and acquired: a request that is seen to have ended is seen to
            // have entered, on whichever thread. So this is never negative.
            let ended = sum(MetricArray::ended);
            let entered = sum(MetricArray::entered);
            let ended_since = sum(MetricArray::ended).wrapping_sub(ended);
            validate_reads();
            // Every stamp only grows, so that equal sums are of equal stamps.
            if sum(MetricArray::stamp) == stamp {
                let at_least = entered.wrapping_sub(ended);
                return Self { at_least, at_most_reached: at_least.saturating_sub(ended_since) };
            }
        }
    }
}

impl MetricArray {
    /// The history's stamp, complete or not.
    fn stamp(&self) -> u64 {
        self.history.get().map_or(0, History::stamp)
    }

    fn ended(&self) -> u64 {
        let mut sum =
            Moment::of(self).descriptor().map_or(0, |descriptor| descriptor.gauge().ended);
        self.cells.for_each_present(|cell| {
            if !cell.state().is_retired() {
                sum = sum.wrapping_add(cell.ended());
            }
        });
        sum
    }

    fn entered(&self) -> u64 {
        let mut sum =
            Moment::of(self).descriptor().map_or(0, |descriptor| descriptor.gauge().entered);
        self.cells.for_each_present(|cell| {
            if !cell.state().is_retired() {
                sum = sum.wrapping_add(cell.entered());
            }
        });
        sum
    }
}
