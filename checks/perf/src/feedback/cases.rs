//! The cases.

use std::hint::black_box;
use std::mem;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use leaparray::flow::adaptive::{Aimd, Headroom, LimitRange};
use leaparray::flow::circuit::{CircuitState, RatioLimit, Wait};
use leaparray::flow::{AdaptiveLimiter, CircuitBreaker, CircuitConfig, FeedbackPermit, LimiterExt};
use leaparray::{Clock, HistogramConfig, MonotonicClock, SlidingWindow};

use crate::goals::Row;
use crate::harness::Suite;
use crate::peers;
use crate::scenarios::config;

const GOVERNOR_ADMITS: &str = "`governor`'s `check`, admitted";
const GOVERNOR_REFUSES: &str = "`governor`'s `check`, refused";
const CLOSED: &str = "`CircuitBreaker`, closed";
const CLOSED_LAST: &str = "`CircuitBreaker` of the last 100 calls, closed";
const OPEN: &str = "`CircuitBreaker`, open";
const FULL: &str = "`AdaptiveLimiter`, at its limit";
// An admission takes a permit, which its end gives back: a case of admissions alone would reach the
// limit.
const ADMITTED: &str = "`AdaptiveLimiter`, admitted, with its cancellation";
const ADMITTED_ENDED: &str = "`AdaptiveLimiter`, admitted, with its end";

const RECORD: &str = "record a success";
const RECORD_HISTOGRAM: &str = "record a success, with a histogram";
const END: &str = "a call through `CircuitBreaker`";
const END_SLOW: &str = "a call through `CircuitBreaker` that also counts slow calls";
const END_LAST: &str = "a call through `CircuitBreaker` of the last 100 calls";
const END_EXCEPTIONS: &str = "ten calls through `CircuitBreaker`, one with an exception";
const RECORD_TEN: &str = "record ten successes";
const END_HEADROOM: &str = "a call through `AdaptiveLimiter` with `Headroom`";
const END_AIMD: &str = "a call through `AdaptiveLimiter` with `Aimd`";

const THREADS: [usize; 2] = [1, 2];

pub(super) fn decisions() -> Vec<Row> {
    let of = |threads| {
        [
            Row::baseline(GOVERNOR_ADMITS, threads),
            Row::ratio(CLOSED, threads, GOVERNOR_ADMITS, 1.2),
            Row::ratio(CLOSED_LAST, threads, GOVERNOR_ADMITS, 1.2),
            Row::ratio(ADMITTED, threads, GOVERNOR_ADMITS, None),
            Row::ratio(ADMITTED_ENDED, threads, GOVERNOR_ADMITS, 1.5),
            Row::baseline(GOVERNOR_REFUSES, threads),
            Row::ratio(OPEN, threads, GOVERNOR_REFUSES, 1.2),
            Row::ratio(FULL, threads, GOVERNOR_REFUSES, 1.2),
        ]
    };
    THREADS.into_iter().flat_map(of).collect()
}

pub(super) fn ends() -> Vec<Row> {
    let of = |threads| {
        [
            Row::baseline(RECORD, threads),
            Row::ratio(END, threads, RECORD, 1.3),
            Row::ratio(END_SLOW, threads, RECORD, 1.3),
            Row::ratio(END_LAST, threads, RECORD, None),
            Row::baseline(RECORD_TEN, threads),
            Row::ratio(END_EXCEPTIONS, threads, RECORD_TEN, None),
            Row::baseline(RECORD_HISTOGRAM, threads),
            Row::ratio(END_HEADROOM, threads, RECORD_HISTOGRAM, None),
            Row::ratio(END_AIMD, threads, RECORD_HISTOGRAM, None),
        ]
    };
    THREADS.into_iter().flat_map(of).collect()
}

const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for threads in THREADS {
        let mut cases = Cases { suite, threads, clock };
        cases.decisions();
        cases.records();
        cases.breakers();
        cases.limiters();
    }
}

/// The cases with a number of threads.
struct Cases<'a> {
    suite: &'a mut Suite,
    threads: usize,
    clock: &'a MonotonicClock,
}

impl Cases<'_> {
    fn breaker(&self, config: CircuitConfig) -> CachePadded<CircuitBreaker> {
        CachePadded::new(CircuitBreaker::with_clock(config, self.clock.clone()))
    }

    fn decisions(&mut self) {
        let [plenty, used_up] = [peers::governor_plenty(), peers::governor_used_up()];
        let [plenty, used_up] = [plenty, used_up].map(CachePadded::new);
        assert!(used_up.check().is_err(), "governor refuses");
        self.add(GOVERNOR_ADMITS, move || assert!(black_box(plenty.check()).is_ok()));
        self.add(GOVERNOR_REFUSES, move || assert!(black_box(used_up.check()).is_err()));
        for (name, config) in [(CLOSED, CircuitConfig::default()), (CLOSED_LAST, of_last_calls())] {
            let breaker = self.breaker(config);
            self.add(name, move || {
                assert!(black_box(breaker.try_acquire()).map(mem::forget).is_admitted());
            });
        }
        let breaker = self.breaker(CircuitConfig::default().wait(Wait::new(HOUR)));
        breaker
            .set_state_at(breaker.clock().now(), CircuitState::Open)
            .expect("any breaker can be opened");
        self.add(OPEN, move || assert!(black_box(breaker.try_acquire()).is_refused()));
        let limiter = self.limiter(Headroom::new(range(1_000)));
        self.add(ADMITTED, move || {
            limiter.try_acquire().at_once().expect("a high limit").cancel();
        });
        let limiter = self.limiter(Headroom::new(range(1_000)));
        self.add(ADMITTED_ENDED, move || {
            limiter.try_acquire().at_once().expect("a high limit").accept();
        });
        let limiter = self.limiter(Headroom::new(range(1)));
        mem::forget(limiter.try_acquire());
        self.add(FULL, move || assert!(black_box(limiter.try_acquire()).is_refused()));
    }

    fn records(&mut self) {
        let (seconds, clock) = (config(10, SECOND), self.clock);
        let plain = || CachePadded::new(SlidingWindow::with_clock(seconds, clock.clone()));
        let (window, ten) = (plain(), plain());
        self.add(RECORD, move || window.record_success(black_box(RT)));
        self.add(RECORD_TEN, move || (0..10).for_each(|_| ten.record_success(black_box(RT))));
        let histogram = HistogramConfig::default();
        let window = SlidingWindow::with_histogram(seconds, histogram, clock.clone());
        let window = CachePadded::new(window);
        self.add(RECORD_HISTOGRAM, move || window.record_success(black_box(RT)));
    }

    fn breakers(&mut self) {
        let slow = RatioLimit::at_least(0.5).expect("a share");
        let slow = CircuitConfig::default().slow_ratio(slow, HOUR);
        for (name, config) in
            [(END, CircuitConfig::default()), (END_SLOW, slow), (END_LAST, of_last_calls())]
        {
            let breaker = self.breaker(config);
            let now = self.clock.now();
            self.add(name, move || accept(&breaker, now));
        }
        let most = RatioLimit::at_least(0.9).expect("a share");
        let breaker = self.breaker(CircuitConfig::default().exception_ratio(most));
        let now = self.clock.now();
        self.add(END_EXCEPTIONS, move || {
            (0..9).for_each(|_| accept(&breaker, now));
            breaker.try_acquire_at(black_box(now), 1).at_once().expect("a closed breaker").reject();
        });
    }

    fn limiters(&mut self) {
        let now = self.clock.now();
        let limiter = self.limiter(Headroom::new(range(1_000)));
        self.add(END_HEADROOM, move || end(limiter.try_acquire_at(black_box(now), 1)));
        let limiter = self.limiter(Aimd::new(range(1_000)).timeout(HOUR));
        self.add(END_AIMD, move || end(limiter.try_acquire_at(black_box(now), 1)));
    }

    fn limiter<A: leaparray::flow::adaptive::LimitAlgorithm>(
        &self,
        algorithm: A,
    ) -> CachePadded<AdaptiveLimiter<A>> {
        CachePadded::new(AdaptiveLimiter::with_clock(algorithm, self.clock.clone()))
    }

    fn add(&mut self, name: &str, run: impl Fn() + Sync + 'static) {
        // A case with a wrong setup ends the program before the run.
        run();
        self.suite.add(name, self.threads, move |_| run());
    }
}

const RT: Duration = Duration::from_micros(250);

fn range(initial: u64) -> LimitRange {
    LimitRange::new(initial, initial, initial).expect("a range")
}

fn of_last_calls() -> CircuitConfig {
    CircuitConfig::default().last_calls(100).expect("few calls")
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "a side of a measurement has no call of its own")]
fn accept(breaker: &CircuitBreaker, now: leaparray::Timestamp) {
    end(breaker.try_acquire_at(black_box(now), 1));
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "a side of a measurement has no call of its own")]
fn end<L>(decision: leaparray::flow::Decision<FeedbackPermit<L>>)
where
    L: std::ops::Deref,
    L::Target: leaparray::flow::Feedback,
{
    decision.at_once().expect("admitted").accept();
}
