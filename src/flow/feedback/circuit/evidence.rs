//! The outcomes on which a closed breaker decides.
#![expect(
    clippy::inline_always,
    reason = "the end of a call of a closed breaker: out of line, it takes an eighth more instructions"
)]

use std::time::Duration;

use super::config::{Calls, CircuitConfig};
use super::state::Cause;
use crate::count_window::{CountTotals, CountWindow};
use crate::metric::MetricEvent;
use crate::sync::{Arc, AtomicU64, Ordering, Slot};
use crate::time::{Clock, Timestamp, saturating_nanos};
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

/// The outcomes of the calls.
#[derive(Debug)]
pub(super) struct Evidence<C> {
    outcomes: Outcomes<C>,
    consecutive: Option<Consecutive>,
}

#[derive(Debug)]
enum Outcomes<C> {
    InWindow(InWindow<C>),
    Last(LastCalls),
}

/// The outcomes in a window of time.
///
/// # Eras
///
/// The window is not emptied for another era. Instead, each era has times of its own: an era begins
/// two intervals after the one before it, so that the outcomes of that one are no longer in the
/// window, also if one of them is recorded late. The longest interval,
/// [`CircuitConfig::MAX_INTERVAL`], leaves room for two million eras.
///
/// # Decisions
///
/// A call that may open the breaker adds up the window: an exception, a slow call, and any call
/// until there are enough for a ratio. Another call can only lower the ratios. Once a sum had
/// enough calls, this is known until a bucket leaves the window.
///
/// If two threads record such calls at once, each might add up without the call of the other. So
/// each takes a turn in between, a read-modify-write that acquires and releases: the later turn
/// finds both calls.
#[derive(Debug)]
struct InWindow<C> {
    /// The successes and the exceptions.
    calls: SlidingWindow<C>,
    /// The slow calls, as passes.
    slow: Option<SlidingWindow<C>>,
    /// The time from the start of an era to the start of the next one.
    era_nanos: u64,
    turn: AtomicU64,
    /// The start of the bucket in which a sum had enough calls for a ratio; at first, the last
    /// bucket before the end of time.
    ratio_bucket: AtomicU64,
}

/// The outcomes of the last calls.
///
/// Each era has a window of its own, which the first call of the era puts into the slot. A thread
/// that has stalled since an earlier era finds a later window there, and records nothing.
#[derive(Debug)]
struct LastCalls {
    len: u32,
    window: Slot<EraWindow>,
}

#[derive(Debug)]
struct EraWindow {
    era: u64,
    calls: CountWindow,
}

/// The exceptions since the last success, `{ era: 40, exceptions: 24 }`.
#[derive(Debug)]
struct Consecutive(AtomicU64);

impl<C: Clock + Clone> Evidence<C> {
    pub(super) fn new(config: &CircuitConfig, clock: &C) -> Self {
        let outcomes = match config.calls {
            Calls::InWindow(window_config) => {
                let window = || SlidingWindow::with_clock(window_config, clock.clone());
                Outcomes::InWindow(InWindow {
                    calls: window(),
                    slow: config.slow.map(|_| window()),
                    era_nanos: saturating_nanos(window_config.interval()).saturating_mul(2),
                    turn: AtomicU64::new(0),
                    ratio_bucket: AtomicU64::new(window_config.bucket_nanos().wrapping_neg()),
                })
            }
            Calls::Last(len) => Outcomes::Last(LastCalls { len, window: Slot::empty() }),
        };
        let consecutive = config.consecutive_exceptions;
        let consecutive = consecutive.map(|_| Consecutive(AtomicU64::new(0)));
        Self { outcomes, consecutive }
    }
}

impl<C: Clock> Evidence<C> {
    /// Records a call, and returns why the breaker opens, if it does.
    #[inline(always)]
    pub(super) fn record(&self, config: &CircuitConfig, call: Ended) -> Option<Cause> {
        if let (Outcomes::InWindow(window), None) = (&self.outcomes, &self.consecutive) {
            let totals = window.record(config.min_calls, call)?;
            return config.cause(totals);
        }
        self.record_any(config, call)
    }

    /// Like [`record`](Self::record), for any configuration.
    #[inline(never)]
    fn record_any(&self, config: &CircuitConfig, call: Ended) -> Option<Cause> {
        let consecutive = self.consecutive.as_ref().map(|it| it.record(call));
        let totals = match &self.outcomes {
            Outcomes::InWindow(window) => window.record(config.min_calls, call),
            Outcomes::Last(calls) => calls.record(call),
        };
        if let (Some(exceptions), Some(limit)) = (consecutive, config.consecutive_exceptions)
            && exceptions >= limit.clamp(1, Consecutive::MAX)
        {
            return Some(Cause::ConsecutiveExceptions);
        }
        config.cause(totals?)
    }

    /// Returns the totals of an era at `now`.
    pub(super) fn totals(&self, era: u64, now: Timestamp) -> CountTotals {
        match &self.outcomes {
            Outcomes::InWindow(window) => window.totals(window.time_in(era, now)),
            Outcomes::Last(calls) => calls.totals(era),
        }
    }
}

impl LastCalls {
    /// Records a call, and returns the totals with it; `None` if it is of an earlier era than the
    /// window.
    fn record(&self, call: Ended) -> Option<CountTotals> {
        loop {
            let found = self.window.load();
            match found.get() {
                Some(window) if window.era > call.era => return None,
                Some(window) if window.era == call.era => {
                    return Some(window.calls.record_call(call.is_exception, call.is_slow));
                }
                _ => {
                    let calls = CountWindow::new(self.len).expect("checked by the configuration");
                    let window = Arc::new(EraWindow { era: call.era, calls });
                    // If it fails, another thread has put a window there.
                    let _ = self.window.compare_and_swap(&found, window);
                }
            }
        }
    }

    fn totals(&self, era: u64) -> CountTotals {
        let found = self.window.load();
        let window = found.get().filter(|window| window.era == era);
        window.map_or_else(CountTotals::default, |window| window.calls.totals())
    }
}

impl<C: Clock> InWindow<C> {
    /// Returns the time in the window of an era.
    #[inline]
    fn time_in(&self, era: u64, now: Timestamp) -> Timestamp {
        let since_first = self.era_nanos.saturating_mul(era);
        Timestamp::from_nanos(now.as_nanos().saturating_add(since_first))
    }

    /// Records a call, and returns the totals if it may open the breaker.
    #[inline(always)]
    fn record(&self, min_calls: u64, call: Ended) -> Option<CountTotals> {
        let now = self.time_in(call.era, call.now);
        if call.is_exception || call.is_slow {
            return Some(self.record_that_may_open(min_calls, now, call));
        }
        self.calls.record_success_nanos_at(now, call.rt_nanos);
        // Relaxed: see `take_turn`.
        let since = now.as_nanos().wrapping_sub(self.ratio_bucket.load(Ordering::Relaxed));
        if since < self.calls.config().bucket_nanos() {
            return None;
        }
        Some(self.take_turn(min_calls, now))
    }

    /// Records an exception or a slow call at a time in the window, and returns the totals.
    #[inline(never)]
    fn record_that_may_open(&self, min_calls: u64, now: Timestamp, call: Ended) -> CountTotals {
        if call.is_exception {
            self.calls.record_exception_at(now, Duration::from_nanos(call.rt_nanos));
        } else {
            self.calls.record_success_nanos_at(now, call.rt_nanos);
        }
        if call.is_slow
            && let Some(slow) = &self.slow
        {
            slow.add_at(now, MetricEvent::Pass, 1);
        }
        self.take_turn(min_calls, now)
    }

    #[inline(never)]
    fn take_turn(&self, min_calls: u64, now: Timestamp) -> CountTotals {
        self.turn.fetch_add(1, Ordering::AcqRel);
        let totals = self.totals(now);
        if totals.calls >= min_calls {
            // Relaxed: it orders nothing. A call that finds it need not add up, since no number of
            // further successes reaches a ratio.
            let bucket = self.calls.config().bucket_start(now);
            self.ratio_bucket.store(bucket.as_nanos(), Ordering::Relaxed);
        }
        totals
    }

    fn totals(&self, now: Timestamp) -> CountTotals {
        let slow = self.slow.as_ref().map_or(0, |slow| slow.at(now).sum(MetricEvent::Pass));
        let [successes, exceptions] =
            self.calls.as_view().sums(now, [MetricEvent::Success, MetricEvent::Exception]);
        let calls = successes.saturating_add(exceptions);
        // The windows are read one after the other: buckets may leave them in between.
        CountTotals { calls, exceptions, slow: slow.min(calls) }
    }
}

impl Consecutive {
    const EXCEPTION_BITS: u32 = 24;
    const MAX: u64 = CircuitConfig::MAX_CONSECUTIVE;

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

    /// Returns whether a call with that response time is slow.
    #[inline]
    pub(super) fn is_slow(&self, rt_nanos: u64) -> bool {
        self.slow.is_some_and(|limit| rt_nanos > limit.above)
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
        use crate::time::{ManualClock, WindowConfig};
        let window = WindowConfig::new(2, Duration::from_secs(2)).unwrap();
        let config = CircuitConfig::default().window(window).unwrap();
        let second = Timestamp::from_secs;
        let evidence = Evidence::new(&config, &ManualClock::new(second(10)));
        let call = |era, secs| {
            let now = second(secs);
            evidence.record(
                &config,
                Ended { era, now, rt_nanos: 0, is_exception: true, is_slow: false },
            )
        };
        call(1, 10);
        for secs in 10..13 {
            call(0, secs);
            assert_eq!(evidence.totals(1, second(10)).calls, 1, "a call of era 0 at {secs} s");
        }
    }

    #[test]
    fn window_needs_enough_calls_at_any_time_after_its_creation() {
        use crate::time::ManualClock;
        let [start, later] = [0, 1 << 63].map(Timestamp::from_nanos);
        for now in [start, later] {
            let config = CircuitConfig::default().min_calls(2);
            let evidence = Evidence::new(&config, &ManualClock::new(start));
            let record = |is_exception| {
                let call = Ended { era: 0, now, rt_nanos: 0, is_exception, is_slow: false };
                evidence.record(&config, call)
            };
            assert_eq!(record(true), None);
            assert_eq!(record(false), Some(Cause::ExceptionRatio), "at {now}");
        }
    }

    #[test]
    fn last_call_of_an_earlier_era_replaces_no_window() {
        let calls = LastCalls { len: 5, window: Slot::empty() };
        let record = |era| {
            let now = Timestamp::from_secs(1);
            calls.record(Ended { era, now, rt_nanos: 0, is_exception: true, is_slow: false })
        };
        assert_eq!(
            [record(1), record(2), record(1)].map(|it| it.map(|it| it.calls)),
            [Some(1), Some(1), None]
        );
        assert_eq!([1, 2, 3].map(|era| calls.totals(era).exceptions), [0, 1, 0]);
    }
}
