//! The number of requests in flight: the number that entered less the number that ended, on all
//! threads.

use super::MetricArray;
use super::history::descriptor::{Descriptor, GaugeCounts};
use super::history::{History, validate_reads};
use super::read::Moment;

/// Bounds of the number of requests in flight, found by one or more looks at all cells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauge {
    /// The number of requests that had entered, less the number that had ended when the look began.
    /// It counts each request that was in flight during all looks.
    pub(crate) upper_bound: u64,
    /// The number of requests that had entered, less the number that had ended when the look was
    /// over. At some moment of a look, at least this number was in flight.
    pub(crate) reached: u64,
}

/// The maximum number of looks at all cells, if requests end in the middle of a look. Models
/// explore the result of one look.
const LOOKS: usize = if cfg!(loom) { 1 } else { 4 };

impl Gauge {
    /// Returns the gauge of several arrays together: a request may enter in one array and end in
    /// another.
    ///
    /// `arrays` returns the arrays that exist at the time of the call. It is called for each pass:
    /// an array may be added between two passes, and a request may enter in that array and end in
    /// another.
    pub(crate) fn of<'a, I>(arrays: impl Fn() -> I) -> Self
    where
        I: Iterator<Item = &'a MetricArray>,
    {
        let (mut gauge, mut looks) = (Self::look(&arrays), 1);
        while gauge.upper_bound != gauge.reached && looks < LOOKS {
            let again = Self::look(&arrays);
            looks += 1;
            gauge.upper_bound = gauge.upper_bound.min(again.upper_bound);
            gauge.reached = gauge.reached.max(again.reached);
        }
        gauge
    }

    /// Returns an upper bound of the number of requests in flight in several arrays together, which
    /// is that number if no request enters or ends during the read.
    ///
    /// It is the [`upper_bound`](Self::upper_bound) of a gauge, and costs a pass less over the
    /// cells of all threads, also of idle ones.
    pub(crate) fn in_flight<'a, I>(arrays: impl Fn() -> I) -> u64
    where
        I: Iterator<Item = &'a MetricArray>,
    {
        let sum = |part: fn(&MetricArray) -> u64| arrays().map(part).fold(0, u64::wrapping_add);
        let (mut least, mut looks) = (u64::MAX, 0);
        loop {
            let stamp = sum(|array| Moment::of(array).stamp());
            // As in `look`: ended counts are read first.
            let ended = sum(MetricArray::ended);
            let (mut entered, mut ended_since) = (0_u64, 0_u64);
            for array in arrays() {
                let [more_entered, more_ended] = array.entered_and_ended();
                entered = entered.wrapping_add(more_entered);
                ended_since = ended_since.wrapping_add(more_ended);
            }
            validate_reads();
            if sum(MetricArray::stamp) != stamp {
                continue;
            }
            least = least.min(entered.wrapping_sub(ended));
            looks += 1;
            // If a request has ended in the middle of the look, another one may find fewer.
            if ended == ended_since || looks == LOOKS {
                return least;
            }
        }
    }

    fn look<'a, I>(arrays: &impl Fn() -> I) -> Self
    where
        I: Iterator<Item = &'a MetricArray>,
    {
        let sum = |part: fn(&MetricArray) -> u64| arrays().map(part).fold(0, u64::wrapping_add);
        loop {
            let stamp = sum(|array| Moment::of(array).stamp());
            // Ended counts are read first, with Acquire: if a request is seen to have ended, it is
            // seen to have entered, on any thread. So the difference is never negative.
            let ended = sum(MetricArray::ended);
            let entered = sum(MetricArray::entered);
            let ended_since = sum(MetricArray::ended).wrapping_sub(ended);
            validate_reads();
            // Every stamp only grows, so equal sums mean equal stamps.
            if sum(MetricArray::stamp) == stamp {
                let upper_bound = entered.wrapping_sub(ended);
                return Self { upper_bound, reached: upper_bound.saturating_sub(ended_since) };
            }
        }
    }
}

impl MetricArray {
    /// Returns the history's head as a number, complete or not.
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

    /// Returns the number of requests that have entered, and the number that had ended when the
    /// cell that counts them was visited.
    fn entered_and_ended(&self) -> [u64; 2] {
        let gauge = Moment::of(self).descriptor().map(Descriptor::gauge).unwrap_or_default();
        let GaugeCounts { mut entered, mut ended } = gauge;
        self.cells.for_each_present(|cell| {
            if !cell.state().is_retired() {
                entered = entered.wrapping_add(cell.entered());
                ended = ended.wrapping_add(cell.ended());
            }
        });
        [entered, ended]
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
