//! A bound on how far ahead of the clock of a limiter a given time may be.

use std::mem::offset_of;
use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, saturating_nanos};

/// The latest time that a limiter uses: the highest reading of its clock so far, plus the *lead*.
///
/// A time that the horizon *covers* is used as it is. For a later time, the clock is read and the
/// horizon advances. If the time is still later, the limiter uses the horizon in its place. So one
/// wrong time moves a limiter ahead of its clock by at most the lead. While no time is further
/// ahead, the clock is read once in each lead, and otherwise for each request.
///
/// # Orderings
///
/// Relaxed: the horizon orders nothing, and only grows. A stale value causes one needless read of
/// the clock. A refund comes after its request, so it finds that the request's time was cut.
//
// In this order, a limiter whose state follows has what a decision reads in one place.
#[derive(Debug)]
#[repr(C)]
pub(in crate::flow) struct Horizon {
    /// The earliest and the latest time, in nanoseconds, in place of which the horizon was used.
    /// The earlier is the later one while there was none.
    cut: [AtomicU64; 2],
    /// In nanoseconds. `u64::MAX` stands for no bound.
    lead: u64,
    /// In nanoseconds.
    latest: AtomicU64,
}

impl Horizon {
    /// The lead of a limiter for which no other one was set.
    const DEFAULT_LEAD: Duration = Duration::from_secs(1);

    pub(in crate::flow) fn new() -> Self {
        Self::with_lead(Self::DEFAULT_LEAD)
    }

    /// The offset of what a decision reads, in bytes.
    pub(in crate::flow) const DECISION_OFFSET: usize = offset_of!(Self, latest);

    /// Creates the horizon of a limiter that has not read its clock. Without a bound, it never
    /// reads it.
    pub(in crate::flow) fn with_lead(lead: Duration) -> Self {
        let lead = saturating_nanos(lead);
        let latest = if lead == u64::MAX { u64::MAX } else { 0 };
        let cut = [u64::MAX, 0].map(AtomicU64::new);
        Self { latest: AtomicU64::new(latest), cut, lead }
    }

    pub(in crate::flow) const fn lead(&self) -> Duration {
        if self.lead == u64::MAX { Duration::MAX } else { Duration::from_nanos(self.lead) }
    }

    /// Returns the time, in nanoseconds, or the horizon if that is earlier. Reads the clock for a
    /// time that the horizon does not cover.
    #[inline]
    pub(in crate::flow) fn bound(&self, nanos: u64, clock: &impl Clock) -> u64 {
        if self.covers(nanos) { nanos } else { self.advance(nanos, clock) }
    }

    /// Returns what [`bound`](Self::bound) would return, and does not advance the horizon.
    pub(in crate::flow) fn bounded(&self, nanos: u64, clock: &impl Clock) -> u64 {
        if self.covers(nanos) {
            return nanos;
        }
        let reached = clock.now().as_nanos().saturating_add(self.lead);
        nanos.min(reached.max(self.latest.load(Ordering::Relaxed)))
    }

    /// Returns whether a time, in nanoseconds, can be used without a read of the clock.
    #[inline]
    pub(in crate::flow) fn covers(&self, nanos: u64) -> bool {
        nanos <= self.latest.load(Ordering::Relaxed)
    }

    /// Returns whether a request of that time, in nanoseconds, was decided at that time. `false` if
    /// the horizon may have been used in its place: for a time that the horizon does not cover, and
    /// for each time from the earliest to the latest one that it did not cover at a request. The
    /// clock may have reached that time since.
    pub(in crate::flow) fn decided_at(&self, nanos: u64) -> bool {
        let [earliest, latest] = self.cut.each_ref().map(|cut| cut.load(Ordering::Relaxed));
        self.covers(nanos) && !(earliest..=latest).contains(&nanos)
    }

    /// Reads the clock, and returns the time, or the horizon if that is earlier. The horizon then
    /// covers the result.
    #[cold]
    #[inline(never)]
    pub(in crate::flow) fn advance(&self, nanos: u64, clock: &impl Clock) -> u64 {
        let reached = clock.now().as_nanos().saturating_add(self.lead);
        let before = self.latest.fetch_max(reached, Ordering::Relaxed);
        let bounded = nanos.min(reached.max(before));
        if bounded < nanos {
            self.cut[0].fetch_min(nanos, Ordering::Relaxed);
            self.cut[1].fetch_max(nanos, Ordering::Relaxed);
        }
        bounded
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::time::{ManualClock, Timestamp};

    const SECOND: u64 = 1_000_000_000;

    fn advance(horizon: &Horizon, clock: &ManualClock, secs: u64) -> u64 {
        horizon.advance(secs * SECOND, clock) / SECOND
    }

    #[test]
    fn horizon_follows_its_clock_and_does_not_go_back() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let horizon = Horizon::with_lead(Duration::from_secs(2));
        assert!(!horizon.covers(1), "the clock was not read");
        assert_eq!([61, 62, 63, 3_660].map(|now| advance(&horizon, &clock, now)), [61, 62, 62, 62]);
        assert!(horizon.covers(62 * SECOND) && !horizon.covers(62 * SECOND + 1));
        clock.set(Timestamp::from_secs(70));
        assert_eq!([63, 80].map(|now| advance(&horizon, &clock, now)), [63, 72]);
        clock.set(Timestamp::from_secs(60));
        assert_eq!([72, 73].map(|now| advance(&horizon, &clock, now)), [72, 72]);
        clock.set(Timestamp::MAX);
        assert_eq!(horizon.advance(u64::MAX, &clock), u64::MAX);
    }

    #[test]
    fn peek_does_not_advance_the_horizon() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let horizon = Horizon::with_lead(Duration::from_secs(2));
        let bounded = |secs| horizon.bounded(secs * SECOND, &clock) / SECOND;
        assert_eq!([61, 3_660].map(bounded), [61, 62]);
        assert!(!horizon.covers(1));
        assert_eq!(advance(&horizon, &clock, 61), 61);
        clock.set(Timestamp::from_secs(50));
        assert_eq!([61, 62, 63].map(bounded), [61, 62, 62]);
    }

    /// The clock reaches the time of the request later.
    #[test]
    fn time_that_was_cut_is_not_the_time_of_the_decision() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let horizon = Horizon::with_lead(Duration::from_secs(2));
        assert_eq!(advance(&horizon, &clock, 61), 61);
        let decided_at = |secs: u64| horizon.decided_at(secs * SECOND);
        assert_eq!([61, 62, 63].map(decided_at), [true, true, false]);
        assert_eq!(advance(&horizon, &clock, 65), 62);
        clock.set(Timestamp::from_secs(70));
        assert_eq!(advance(&horizon, &clock, 70), 70);
        assert_eq!([62, 64, 65, 66, 72].map(decided_at), [true, true, false, true, true]);
        assert!(!decided_at(73), "not covered");
    }

    /// One wrong time, even the end of time, concerns no other one.
    #[test]
    fn time_that_was_cut_leaves_others_as_they_are() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let horizon = Horizon::with_lead(Duration::from_secs(2));
        assert_eq!(horizon.advance(u64::MAX, &clock), 62 * SECOND);
        assert!([60, 61, 62].iter().all(|secs| horizon.decided_at(secs * SECOND)));
        clock.set(Timestamp::from_secs(90_000));
        assert_eq!(advance(&horizon, &clock, 90_000), 90_000);
        assert!(horizon.decided_at(90_000 * SECOND));
    }

    #[test]
    fn without_a_bound_every_time_is_covered() {
        assert!(Horizon::with_lead(Duration::MAX).covers(u64::MAX));
        assert_eq!(Horizon::new().lead(), Duration::from_secs(1));
    }
}
