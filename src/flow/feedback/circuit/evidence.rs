//! The outcomes on which a closed breaker decides.
#![expect(
    clippy::inline_always,
    reason = "the end of a call of a closed breaker: out of line, it takes an eighth more instructions"
)]

use std::time::Duration;

use super::config::{Calls, CircuitConfig};
use super::state::Cause;
use crate::count_window::{CountTotals, CountWindow};
use crate::flow::feedback::outcomes::{OutcomeWindows, era_nanos};
use crate::metric::MetricEvent;
use crate::sync::{Arc, AtomicU64, Ordering, Slot};
use crate::time::{Clock, Timestamp, WindowConfig};
use crate::window::SlidingWindow;

/// A call that has ended, in an era of the breaker. The outcomes of earlier eras do not count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) era: u64,
    pub(super) now: Timestamp,
    pub(super) rt_nanos: u64,
    pub(super) is_exception: bool,
    pub(super) is_slow: bool,
}

/// The outcomes of the calls, of all configurations that the breaker has had.
///
/// # Decisions
///
/// A call that may open the breaker adds up the window: an exception, a slow call, and any call
/// until there are enough for a ratio. Another call can only lower the ratios. Once a sum had
/// enough calls, this is known until a bucket leaves the window, or the configuration changes.
///
/// If two threads record such calls at once, each might add up without the call of the other. So
/// each takes a turn in between, a read-modify-write that acquires and releases: the later turn
/// finds both calls.
#[derive(Debug)]
pub(super) struct Evidence<C> {
    /// Successes, exceptions, and slow calls as passes. The longest interval,
    /// [`CircuitConfig::MAX_INTERVAL`], leaves room for two million eras.
    outcomes: OutcomeWindows<C>,
    turn: AtomicU64,
    last_calls: LastCalls,
    consecutive: Consecutive,
}

/// A configuration, and what follows from it.
#[derive(Debug)]
pub(super) struct Settings<C> {
    pub(super) config: CircuitConfig,
    /// The response time in nanoseconds above which a call is slow.
    slow_above: u64,
    counted: Counted<C>,
}

/// Where the calls are counted.
#[derive(Debug)]
enum Counted<C> {
    /// In a window of time, without a limit of consecutive exceptions: the usual case.
    InWindow(InWindow<C>),
    InWindowInARow(InWindow<C>),
    Last(u32),
}

#[derive(Debug)]
struct InWindow<C> {
    calls: SlidingWindow<C>,
    /// The time from the start of an era to the start of the next one.
    era_nanos: u64,
    /// The start of the bucket in which a sum had enough calls for a ratio; at first
    /// [`no_bucket`].
    ratio_bucket: AtomicU64,
}

/// The outcomes of the last calls.
///
/// Each era has a window of its own, which the first call of the era puts into the slot. A thread
/// that has stalled since an earlier era finds a later window there, and records nothing.
#[derive(Debug)]
struct LastCalls(Slot<EraWindow>);

#[derive(Debug)]
struct EraWindow {
    era: u64,
    calls: CountWindow,
}

/// The exceptions since the last success, `{ era: 40, exceptions: 24 }`.
#[derive(Debug)]
struct Consecutive(AtomicU64);

impl<C> Evidence<C> {
    pub(super) fn new() -> Self {
        Self {
            outcomes: OutcomeWindows::new(),
            turn: AtomicU64::new(0),
            last_calls: LastCalls(Slot::empty()),
            consecutive: Consecutive(AtomicU64::new(0)),
        }
    }
}

impl<C: Clock + Clone> Settings<C> {
    pub(super) fn new(config: CircuitConfig, evidence: &Evidence<C>, clock: &C) -> Self {
        let counted = match config.calls {
            Calls::InWindow(window) => {
                let in_window = InWindow {
                    calls: evidence.outcomes.get(window, clock),
                    era_nanos: era_nanos(&window),
                    ratio_bucket: AtomicU64::new(no_bucket(&window)),
                };
                if config.consecutive_exceptions.is_none() {
                    Counted::InWindow(in_window)
                } else {
                    Counted::InWindowInARow(in_window)
                }
            }
            Calls::Last(len) => Counted::Last(len),
        };
        let slow_above = config.slow.map_or(u64::MAX, |limit| limit.above);
        Self { config, slow_above, counted }
    }
}

impl<C: Clock> Settings<C> {
    /// Returns whether a call with that response time is slow.
    #[inline]
    pub(super) const fn is_slow(&self, rt_nanos: u64) -> bool {
        rt_nanos > self.slow_above
    }

    /// Makes the next call add up, after the configuration was put into force: a sum from before
    /// may be without the calls of another configuration.
    pub(super) fn forget_sum(&self) {
        if let Counted::InWindow(window) | Counted::InWindowInARow(window) = &self.counted {
            // Relaxed: a call that does not find it has begun before.
            window.ratio_bucket.store(no_bucket(window.calls.config()), Ordering::Relaxed);
        }
    }
}

impl<C: Clock> Evidence<C> {
    /// Records a call, and returns why the breaker opens, if it does.
    #[inline(always)]
    pub(super) fn record(
        &self,
        settings: &Settings<C>,
        is_in_force: impl Fn() -> bool,
        call: Ended,
    ) -> Option<Cause> {
        if let Counted::InWindow(window) = &settings.counted {
            return settings.config.cause(self.record_in(
                window,
                settings.config.min_calls,
                call,
            )?);
        }
        self.record_any(settings, is_in_force, call)
    }

    /// Like [`record`](Self::record), for any configuration.
    #[inline(never)]
    fn record_any(
        &self,
        Settings { config, counted, .. }: &Settings<C>,
        is_in_force: impl Fn() -> bool,
        call: Ended,
    ) -> Option<Cause> {
        let limit = config.consecutive_exceptions;
        let in_a_row = limit.map(|limit| (limit, self.consecutive.record(call)));
        let totals = match counted {
            Counted::InWindow(window) | Counted::InWindowInARow(window) => {
                self.record_in(window, config.min_calls, call)
            }
            Counted::Last(len) => self.last_calls.record(*len, is_in_force, call),
        };
        if in_a_row.is_some_and(|(limit, found)| found >= limit.clamp(1, Consecutive::MAX)) {
            return Some(Cause::ConsecutiveExceptions);
        }
        config.cause(totals?)
    }

    /// Begins the count of exceptions in a row anew, before it becomes a limit.
    pub(super) fn begin_row(&self) {
        self.consecutive.0.store(0, Ordering::Relaxed);
    }

    /// Returns the totals of an era at `now`.
    pub(super) fn totals(&self, settings: &Settings<C>, era: u64, now: Timestamp) -> CountTotals {
        match &settings.counted {
            Counted::InWindow(window) | Counted::InWindowInARow(window) => {
                self.totals_in(window, era, now)
            }
            Counted::Last(_) => self.last_calls.totals(era),
        }
    }

    /// Returns whether no call of an era counts at `now`.
    pub(super) fn is_empty(&self, settings: &Settings<C>, era: u64, now: Timestamp) -> bool {
        let has_row = settings.config.consecutive_exceptions.is_some();
        !(has_row && self.consecutive.has_any(era)) && self.totals(settings, era, now).calls == 0
    }

    /// Records a call in a window, and returns the totals if it may open the breaker.
    #[inline(always)]
    fn record_in(&self, window: &InWindow<C>, min_calls: u64, call: Ended) -> Option<CountTotals> {
        let now = window.time_in(call.era, call.now);
        if call.is_exception || call.is_slow {
            return Some(self.record_that_may_open(window, min_calls, now, call));
        }
        window.calls.record_success_nanos_at(now, call.rt_nanos);
        // Relaxed: see `take_turn`.
        let since = now.as_nanos().wrapping_sub(window.ratio_bucket.load(Ordering::Relaxed));
        if since < window.calls.config().bucket_nanos() {
            return None;
        }
        Some(self.take_turn(window, min_calls, call))
    }

    /// Records an exception or a slow call at a time in the window, and returns the totals.
    #[inline(never)]
    fn record_that_may_open(
        &self,
        window: &InWindow<C>,
        min_calls: u64,
        now: Timestamp,
        call: Ended,
    ) -> CountTotals {
        if call.is_exception {
            window.calls.record_exception_at(now, Duration::from_nanos(call.rt_nanos));
        } else {
            window.calls.record_success_nanos_at(now, call.rt_nanos);
        }
        if call.is_slow {
            window.calls.add_at(now, MetricEvent::Pass, 1);
        }
        self.take_turn(window, min_calls, call)
    }

    #[inline(never)]
    fn take_turn(&self, window: &InWindow<C>, min_calls: u64, call: Ended) -> CountTotals {
        self.turn.fetch_add(1, Ordering::AcqRel);
        let totals = self.totals_in(window, call.era, call.now);
        if totals.calls >= min_calls {
            // Relaxed: it orders nothing. A call that finds it need not add up, since no number of
            // further successes reaches a ratio.
            let bucket = window.calls.config().bucket_start(window.time_in(call.era, call.now));
            window.ratio_bucket.store(bucket.as_nanos(), Ordering::Relaxed);
        }
        totals
    }

    fn totals_in(&self, window: &InWindow<C>, era: u64, now: Timestamp) -> CountTotals {
        const EVENTS: [MetricEvent; 3] =
            [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Pass];
        let [successes, exceptions, slow] = self.outcomes.sums(&window.calls, era, now, EVENTS);
        let calls = successes.saturating_add(exceptions);
        // The bucket of a slow call may leave the window between its two counts.
        CountTotals { calls, exceptions, slow: slow.min(calls) }
    }
}

impl LastCalls {
    /// Records a call, and returns the totals with it; `None` if it is of an earlier era than the
    /// window.
    ///
    /// A call of the configuration in force finds or puts a window of its length, with the last
    /// calls of the one before. A thread that has stalled since a former configuration records in
    /// the window that it finds.
    fn record(&self, len: u32, is_in_force: impl Fn() -> bool, call: Ended) -> Option<CountTotals> {
        loop {
            let found = self.0.load();
            let calls = match found.get() {
                Some(window) if window.era > call.era => return None,
                Some(EraWindow { era, calls }) if *era == call.era => {
                    if calls.len() == len || !is_in_force() {
                        return Some(calls.record_call(call.is_exception, call.is_slow));
                    }
                    calls.with_len(len)
                }
                _ => CountWindow::new(len),
            };
            let calls = calls.expect("checked by the configuration");
            // If it fails, another thread has put a window there.
            let _ = self.0.compare_and_swap(&found, Arc::new(EraWindow { era: call.era, calls }));
        }
    }

    fn totals(&self, era: u64) -> CountTotals {
        let found = self.0.load();
        let window = found.get().filter(|window| window.era == era);
        window.map_or_else(CountTotals::default, |window| window.calls.totals())
    }
}

impl<C: Clock> InWindow<C> {
    /// Returns the time in the window of an era.
    #[inline]
    const fn time_in(&self, era: u64, now: Timestamp) -> Timestamp {
        let since_first = self.era_nanos.saturating_mul(era);
        Timestamp::from_nanos(now.as_nanos().saturating_add(since_first))
    }
}

/// Returns the start of the last bucket before the end of time.
const fn no_bucket(window: &WindowConfig) -> u64 {
    window.bucket_nanos().wrapping_neg()
}

impl Consecutive {
    const EXCEPTION_BITS: u32 = 24;
    const MAX: u64 = CircuitConfig::MAX_CONSECUTIVE;

    /// Returns whether the last call of an era has ended with an exception.
    fn has_any(&self, era: u64) -> bool {
        let found = self.0.load(Ordering::Relaxed);
        found >> Self::EXCEPTION_BITS == era && found & Self::MAX > 0
    }

    /// Records a call, and returns the number of exceptions since the last success of its era.
    fn record(&self, call: Ended) -> u64 {
        let mut found = self.0.load(Ordering::Relaxed);
        loop {
            let (era, exceptions) = (found >> Self::EXCEPTION_BITS, found & Self::MAX);
            if era > call.era {
                return 0;
            }
            let before = if era == call.era { exceptions } else { 0 };
            let now = if call.is_exception { (before + 1).min(Self::MAX) } else { 0 };
            let new = call.era << Self::EXCEPTION_BITS | now;
            if new == found {
                return now;
            }
            // Relaxed, as all accesses: the word is complete in itself.
            let replaced =
                self.0.compare_exchange_weak(found, new, Ordering::Relaxed, Ordering::Relaxed);
            match replaced {
                Ok(_) => return now,
                Err(other) => found = other,
            }
        }
    }
}

impl CircuitConfig {
    /// Returns why a closed breaker with these calls opens, if it does.
    #[inline(never)]
    fn cause(&self, totals: CountTotals) -> Option<Cause> {
        let CountTotals { calls, exceptions, slow } = totals;
        // A limit above the number of the calls that count would never be reached.
        let max_calls = match self.calls {
            Calls::InWindow(_) => u64::MAX,
            Calls::Last(last) => last.into(),
        };
        if self.exceptions.is_some_and(|limit| exceptions >= limit.clamp(1, max_calls)) {
            return Some(Cause::Exceptions);
        }
        if calls < self.min_calls.min(max_calls) {
            return None;
        }
        self.ratio_cause(calls, exceptions, slow)
    }

    /// Returns which share of the calls reaches its limit, if one does.
    pub(super) fn ratio_cause(&self, calls: u64, exceptions: u64, slow: u64) -> Option<Cause> {
        if self.exception_ratio.is_some_and(|limit| limit.is_reached(exceptions, calls)) {
            return Some(Cause::ExceptionRatio);
        }
        let is_slow = self.slow.is_some_and(|limit| limit.ratio.is_reached(slow, calls));
        is_slow.then_some(Cause::SlowRatio)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn exceptions_of_an_earlier_era_do_not_count() {
        let consecutive = Consecutive(AtomicU64::new(0));
        let record = |era, is_exception| {
            let now = Timestamp::from_secs(1);
            consecutive.record(Ended { era, now, rt_nanos: 0, is_exception, is_slow: false })
        };
        assert_eq!([record(1, true), record(1, true)], [1, 2]);
        assert_eq!(record(2, true), 1, "of another era");
        assert_eq!([record(1, true), record(1, false)], [0, 0]);
        assert_eq!([record(2, true), record(2, false), record(2, true)], [2, 0, 1]);
    }

    /// A thread has found its era and then stalls, while the breaker opens and closes. It may
    /// record its call up to an interval after the first call of the next era.
    #[test]
    fn call_of_an_earlier_era_does_not_count_at_any_time_of_the_window() {
        use crate::time::ManualClock;
        let window = WindowConfig::new(2, Duration::from_secs(2)).unwrap();
        let config = CircuitConfig::default().window(window).unwrap();
        let second = Timestamp::from_secs;
        let evidence = Evidence::new();
        let settings = Settings::new(config, &evidence, &ManualClock::new(second(10)));
        let call = |era, secs| {
            let now = second(secs);
            let call = Ended { era, now, rt_nanos: 0, is_exception: true, is_slow: false };
            evidence.record(&settings, || true, call)
        };
        call(1, 10);
        for secs in 10..13 {
            call(0, secs);
            assert_eq!(
                evidence.totals(&settings, 1, second(10)).calls,
                1,
                "a call of era 0 at {secs} s"
            );
        }
    }

    #[test]
    fn window_needs_enough_calls_at_any_time_after_its_creation() {
        use crate::time::ManualClock;
        let [start, later] = [0, 1 << 63].map(Timestamp::from_nanos);
        for now in [start, later] {
            let config = CircuitConfig::default().min_calls(2);
            let evidence = Evidence::new();
            let settings = Settings::new(config, &evidence, &ManualClock::new(start));
            let record = |is_exception| {
                let call = Ended { era: 0, now, rt_nanos: 0, is_exception, is_slow: false };
                evidence.record(&settings, || true, call)
            };
            assert_eq!(record(true), None);
            assert_eq!(record(false), Some(Cause::ExceptionRatio), "at {now}");
        }
    }

    #[test]
    fn last_call_of_an_earlier_era_replaces_no_window() {
        let calls = LastCalls(Slot::empty());
        let record = |era| {
            let now = Timestamp::from_secs(1);
            let call = Ended { era, now, rt_nanos: 0, is_exception: true, is_slow: false };
            calls.record(5, || true, call)
        };
        assert_eq!(
            [record(1), record(2), record(1)].map(|it| it.map(|it| it.calls)),
            [Some(1), Some(1), None]
        );
        assert_eq!([1, 2, 3].map(|era| calls.totals(era).exceptions), [0, 1, 0]);
    }
}
