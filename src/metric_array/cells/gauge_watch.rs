//! Decides when a thread adds up the gauge, to find the highest concurrency.

use super::origin::Origin;
use super::thread_cell::ThreadCell;
use crate::sync::{PrivateU16, PrivateU32, PrivateU64};
use crate::time::Timestamp;

/// Watches the requests that enter in a thread's cell, so that the thread adds up the gauge of all
/// threads when a request may have brought the concurrency to a new maximum, and not otherwise.
///
/// The *own* requests of a cell are the requests that entered in it. To know how many of them are
/// in flight, the thread also counts the own requests that ended in other cells (see [`Origin`]).
/// If the cell had another owner before, requests of that owner can end as own requests; that
/// lowers the number in flight on all threads as well.
///
/// The thread looks at the gauge
///
/// - with its first request in a bucket,
/// - when more of its own requests are in flight than the limit allows, and
/// - when its last look was 1/1,024 of a bucket ago or longer.
///
/// # The limit
///
/// A look sets the limit to the number of own requests in flight. At a look by time, that is an
/// arbitrary number: if the limit stayed there, each further request would look until the usual
/// number of requests is in flight. So after a look by time, each further look raises the limit
/// above that number, by a step of 1, 2, 4, and so on, to the limit that was in force before the
/// look by time. Beyond that limit, each look raises it by an eighth of the step, rounded down, so
/// not at all while the step is below 8. If the number in flight goes up and down by hundreds, as
/// between a thread that enters requests and another one that ends them, few requests look then.
///
/// The limit does not rise beyond the number at which the concurrency, by the requests of this
/// thread alone, would be the highest that the thread has recorded in the bucket. The step grows by
/// as much as the limit has risen.
///
/// So between two looks, the number of own requests rises by at most as much as it had risen from
/// the last look by time to the first of the two. The next request beyond that looks.
///
/// # Orderings
///
/// A thread that ends a request of another cell first notes this, and then counts the end with
/// Release. When the owner looks, it acquires the ends that it counts, and reads the notes after
/// that. So the look has read the note of each end that is in the gauge, and none of these notes
/// raises the limit afterwards.
#[derive(Debug)]
pub(crate) struct GaugeWatch {
    /// The amount by which the limit may still rise, to its value before the last look by time.
    headroom: PrivateU16,
    /// The amount by which the limit may rise with the next look.
    step: PrivateU16,
    /// The number of own requests that have ended elsewhere, as last read.
    ended_elsewhere: PrivateU32,
    /// The limit, as a limit of the cell's balance, in two's complement. Balance and limit change
    /// together when a request of another thread ends in the cell. The end of an own request
    /// elsewhere is added to the limit when [`due`](Self::due) finds it.
    limit: PrivateU64,
    /// The time at which the thread last looked, in nanoseconds.
    looked_at: PrivateU64,
}

/// Why a thread looks at the gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It has not looked for a while.
    ByTime,
    /// More of its own requests are in flight than the limit allows.
    ByLimit,
}

/// Beyond the limit that was in force before the last look by time, the limit rises by this part of
/// a step.
const BEYOND: u16 = 8;

impl GaugeWatch {
    /// A limit below any balance, with room for requests that end elsewhere.
    const NO_LIMIT: i64 = i64::MIN / 2;

    /// Creates a watch with which the first request looks.
    pub(crate) const fn new() -> Self {
        Self {
            headroom: PrivateU16::new(0),
            step: PrivateU16::new(0),
            ended_elsewhere: PrivateU32::new(0),
            limit: PrivateU64::new(Self::NO_LIMIT.cast_unsigned()),
            looked_at: PrivateU64::new(0),
        }
    }

    /// Makes the next request look.
    pub(crate) fn reset(&self) {
        self.limit.set(Self::NO_LIMIT.cast_unsigned());
        self.looked_at.set(0);
    }

    pub(crate) fn copy_from(&self, other: &Self) {
        self.headroom.set(other.headroom.get());
        self.step.set(other.step.get());
        self.ended_elsewhere.set(other.ended_elsewhere.get());
        self.limit.set(other.limit.get());
        self.looked_at.set(other.looked_at.get());
    }

    /// Returns whether the thread may have to look, at this balance of its cell. If not, the thread
    /// need not call [`due`](Self::due).
    #[inline]
    pub(crate) fn may_be_due(&self, balance: i64, now: Timestamp, look_after: u64) -> bool {
        balance > self.limit() || self.is_due_by_time(now, look_after)
    }

    /// Returns whether the thread has to look, and why.
    pub(crate) fn due(
        &self,
        cell: &ThreadCell,
        origin: Origin,
        now: Timestamp,
        look_after: u64,
    ) -> Option<Due> {
        let ended_elsewhere = origin.ended_elsewhere();
        let more = ended_elsewhere.wrapping_sub(self.ended_elsewhere.get());
        self.ended_elsewhere.set(ended_elsewhere);
        self.move_limit(more.into());
        if self.is_due_by_time(now, look_after) {
            Some(Due::ByTime)
        } else {
            (cell.balance() > self.limit()).then_some(Due::ByLimit)
        }
    }

    /// Notes that the thread has looked. By the thread's own requests alone, the concurrency can
    /// rise by `slack` without exceeding the maximum that the thread has recorded in this bucket.
    pub(crate) fn note_look(
        &self,
        due: Due,
        cell: &ThreadCell,
        origin: Origin,
        now: Timestamp,
        slack: u64,
    ) {
        self.ended_elsewhere.set(origin.ended_elsewhere());
        let (balance, limit) = (cell.balance(), self.limit());
        let above = |limit: i64| limit.saturating_sub(balance).clamp(0, u16::MAX.into());
        let (rise, left, step) = match due {
            Due::ByTime => (0, above(limit), 1),
            Due::ByLimit => {
                let left = above(limit.saturating_add(self.headroom.get().into()));
                let step = self.step.get();
                let part = if left > 0 { left.min(step.into()) } else { (step / BEYOND).into() };
                let rise = part.min(slack.try_into().unwrap_or(i64::MAX));
                // By the rise, which the slack may have cut: so the step is at most the number by
                // which the limit has risen, plus 1.
                (rise, (left - rise).max(0), step.saturating_add(rise.try_into().unwrap_or(0)))
            }
        };
        self.headroom.set(left.try_into().unwrap_or(0));
        self.step.set(step);
        self.limit.set(balance.wrapping_add(rise).cast_unsigned());
        self.looked_at.set(now.as_nanos());
    }

    /// Notes that a request of another cell has ended in this one.
    pub(crate) fn note_end_of_other(&self) {
        self.move_limit(-1);
    }

    #[inline]
    fn limit(&self) -> i64 {
        self.limit.get().cast_signed()
    }

    fn move_limit(&self, by: i64) {
        self.limit.set(self.limit.get().wrapping_add_signed(by));
    }

    #[inline]
    fn is_due_by_time(&self, now: Timestamp, look_after: u64) -> bool {
        // For a time before the last look, the difference wraps around, as if the look were long
        // ago.
        now.as_nanos().wrapping_sub(self.looked_at.get()) >= look_after
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::metric_array::cells::slab::slab;

    const LOOK_AFTER: u64 = 1_000;

    /// A thread with a cell, and no other thread.
    struct Thread {
        watch: GaugeWatch,
        cell: &'static ThreadCell,
        origin: Origin,
        /// The number of requests in flight, in all cells.
        in_flight: u64,
        highest: u64,
    }

    impl Thread {
        fn new() -> Self {
            let cell = slab().take().unwrap();
            cell.bind(cell.claim(), 0, None);
            let (watch, origin) = (GaugeWatch::new(), Origin::of(cell));
            Self { watch, cell, origin, in_flight: 0, highest: 0 }
        }

        /// Enters a request, and returns whether the thread looks at the gauge.
        fn enter(&mut self, now: Timestamp) -> bool {
            let balance = self.cell.enter();
            self.in_flight += 1;
            let Self { watch, cell, .. } = &*self;
            if !watch.may_be_due(balance, now, LOOK_AFTER) {
                return false;
            }
            let Some(due) = watch.due(cell, self.origin, now, LOOK_AFTER) else { return false };
            let highest = self.highest.max(self.in_flight);
            watch.note_look(due, cell, self.origin, now, highest - self.in_flight);
            self.highest = highest;
            true
        }

        fn looks(&mut self, requests: u32, now: Timestamp) -> usize {
            (0..requests).filter(|_| self.enter(now)).count()
        }

        fn end(&mut self, requests: u32) {
            (0..requests).for_each(|_| self.cell.end());
            self.in_flight -= u64::from(requests);
        }

        fn end_elsewhere(&mut self, requests: u32) {
            (0..requests).for_each(|_| self.origin.note_end_elsewhere());
            self.in_flight -= u64::from(requests);
        }
    }

    #[test]
    fn thread_looks_when_more_of_its_requests_are_in_flight_than_before() {
        let (mut thread, now) = (Thread::new(), Timestamp::from_secs(1));
        assert_eq!(thread.looks(5, now), 5);
        thread.end(5);
        assert_eq!(thread.looks(5, now), 0);
        thread.end_elsewhere(4);
        assert_eq!(thread.looks(4, now), 0);
        assert_eq!(thread.looks(2, now), 2);
    }

    #[test]
    fn after_a_look_by_time_each_look_lets_the_limit_rise_by_twice_as_much() {
        let (mut thread, mut now) = (Thread::new(), Timestamp::from_secs(1));
        assert_eq!(thread.looks(50, now), 50);
        for _ in 0..3 {
            thread.end(50);
            now = now.saturating_add(std::time::Duration::from_nanos(LOOK_AFTER));
            // At 1, by time; then at 2, 4, 7, 12, 21 and 38.
            assert_eq!(thread.looks(50, now), 7);
        }
        assert_eq!(thread.looks(3, now), 3);
    }

    /// In each thousandth of a bucket, the number of requests in flight rises from 2,000 to at most
    /// 3,000, as between a thread that enters requests and one that ends them.
    #[test]
    fn beyond_the_limit_before_a_look_by_time_few_requests_look() {
        let (mut thread, mut now) = (Thread::new(), Timestamp::from_secs(1));
        thread.looks(3_000, now);
        thread.end_elsewhere(1_000);
        for further in [100, 300, 1_000, 200, 1_000] {
            now = now.saturating_add(std::time::Duration::from_nanos(LOOK_AFTER));
            let looks = thread.looks(further, now);
            assert!(looks <= 40, "{looks} looks of {further} requests");
            thread.end_elsewhere(further);
        }
        // A request that may be a new maximum looks.
        thread.looks(1_000, now);
        assert_eq!(thread.looks(5, now), 5);
    }

    /// While the thread's requests were each a new maximum, the limit did not rise. So when the
    /// requests of other threads have ended, it does not rise far either.
    #[test]
    fn step_grows_no_faster_than_the_number_in_flight() {
        let (mut thread, now) = (Thread::new(), Timestamp::from_secs(1));
        thread.looks(20, now);
        thread.end(20);
        thread.in_flight += 5_000;
        let now = now.saturating_add(std::time::Duration::from_nanos(LOOK_AFTER));
        assert_eq!(thread.looks(20, now), 20);
        thread.in_flight -= 5_000;
        assert!(thread.looks(20, now) > 1, "more than twice as many as before");
    }

    #[test]
    fn limit_that_was_not_reached_for_a_while_is_forgotten() {
        for few in [1, 2, 3] {
            let (mut thread, mut now) = (Thread::new(), Timestamp::from_secs(1));
            assert_eq!(thread.looks(50, now), 50);
            thread.end(50);
            for _ in 0..3 {
                now = now.saturating_add(std::time::Duration::from_nanos(LOOK_AFTER));
                thread.looks(few, now);
                thread.end(few);
            }
            // The thread has recorded far more requests in flight, most of them on other threads.
            thread.highest = 1_000;
            assert!(thread.looks(50, now) >= 45, "{few}");
        }
    }
}
