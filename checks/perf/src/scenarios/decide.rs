//! Deciding: limiters whose decision is the same for every request.

use std::hint::black_box;
use std::mem;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource};
use leaparray::flow::{
    AdaptiveBreaker, ConcurrencyLimiter, Decision, FeedbackPermit, FixedWindowLimiter, LeakyBucket,
    Limiter, LimiterExt, Rate, SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::{Entry, MonotonicClock, NodeConfig, ResourceNode};

use super::config;
use crate::goals::Row;
use crate::harness::Suite;
use crate::peers;

/// The baseline of the other cases.
const GOVERNOR: &str = "`governor`'s `check`";
const FIXED: &str = "`FixedWindowLimiter`";
const SLIDING: &str = "`SlidingWindowLimiter`";
const LEAKY: &str = "`LeakyBucket`";
const TOKEN: &str = "`TokenBucket`";
const WARM_UP: &str = "`WarmUp`";
const CONCURRENCY: &str = "`ConcurrencyLimiter`";
const BREAKER: &str = "`AdaptiveBreaker`, healthy backend";
const BREAKER_FAILING: &str = "`AdaptiveBreaker`, failing backend";
/// A case in which each due time is rounded.
const TOKEN_UNEVEN: &str = "`TokenBucket`, 3 permits per millisecond";

/// The baseline of the next case.
const CHECK_AND_ENTER: &str = "`governor`'s `check`, and enter a `ResourceNode` and succeed";
const ENTER: &str = "enter a `ResourceNode` through its `SlidingWindowLimiter` and succeed";

fn admitted(limiter: &str) -> String {
    format!("{limiter}, admitted")
}

fn refused(limiter: &str) -> String {
    format!("{limiter}, refused")
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in [1, 2] {
        rows.extend([admitted, refused].map(|case| Row::baseline(case(GOVERNOR), threads)));
        for limiter in [FIXED, SLIDING, LEAKY, TOKEN, WARM_UP, CONCURRENCY, BREAKER_FAILING] {
            // Their permits are in stripes while threads compete.
            let scales = threads > 1 && [FIXED, SLIDING].contains(&limiter);
            let goal = if limiter == BREAKER_FAILING { 1.2 } else { 1.05 };
            for (case, goal) in
                [(admitted as fn(&str) -> String, if scales { 0.4 } else { goal }), (refused, goal)]
            {
                rows.push(Row::ratio(case(limiter), threads, case(GOVERNOR), goal));
            }
        }
        rows.push(Row::ratio(admitted(BREAKER), threads, admitted(GOVERNOR), 1.2));
        rows.push(Row::ratio(admitted(TOKEN_UNEVEN), threads, admitted(GOVERNOR), None));
        rows.push(Row::baseline(CHECK_AND_ENTER, threads));
        rows.push(Row::ratio(ENTER, threads, CHECK_AND_ENTER, 1.1));
    }
    rows
}

const AT_MOST: &str = "at most the highest limit";
const SECOND: Duration = Duration::from_secs(1);
/// Longer than a run, so that no permit becomes available during the run.
const HOUR: Duration = Duration::from_secs(3_600);
/// The next interval of this length begins in 2033.
const THIRTY_YEARS: Duration = Duration::from_secs(1_000_000_000);

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for threads in [1, 2] {
        let mut cases = Cases { suite, threads, clock };
        cases.governor();
        cases.windows();
        cases.rates();
        cases.concurrency();
        cases.breaker();
        cases.nodes();
    }
}

/// The cases with a number of threads.
struct Cases<'a> {
    suite: &'a mut Suite,
    threads: usize,
    clock: &'a MonotonicClock,
}

impl Cases<'_> {
    fn governor(&mut self) {
        let [plenty, used_up] = [peers::governor_plenty(), peers::governor_used_up()];
        let [plenty, used_up] = [plenty, used_up].map(CachePadded::new);
        self.add(admitted(GOVERNOR), move || plenty.check(), Result::is_ok);
        self.add(refused(GOVERNOR), move || used_up.check(), Result::is_err);
    }

    fn windows(&mut self) {
        let (window, clock) = (config(10, HOUR), self.clock);
        let limits = [SlidingWindowLimiter::max_limit(&window), 1];
        let fixed = |limit| FixedWindowLimiter::with_clock(THIRTY_YEARS, limit, clock.clone());
        let sliding =
            |limit| SlidingWindowLimiter::of_buckets_with_clock(window, limit, clock.clone());
        let warm_up =
            |limit| WarmUp::with_clock(window, limit, WarmUpConfig::default(), clock.clone());
        self.add_limiters(FIXED, limits.map(|limit| fixed(limit).expect(AT_MOST)));
        self.add_limiters(SLIDING, limits.map(|limit| sliding(limit).expect(AT_MOST)));
        self.add_limiters(WARM_UP, limits.map(|limit| warm_up(limit).expect(AT_MOST)));
    }

    fn rates(&mut self) {
        let (second, clock) = (1_000_000_000, self.clock);
        let rate = |permits, interval| Rate::new(permits, interval).expect("a nanosecond or more");
        // As in governor's case: a permit for each nanosecond is more than the threads can take. A
        // thread that stalls for less than a second is still within the limiter's tolerance.
        let (plenty, hourly) = (rate(second, SECOND), rate(1, HOUR));
        let leaky = [(plenty, SECOND), (hourly, Duration::ZERO)];
        let leaky = leaky.map(|(rate, wait)| LeakyBucket::with_clock(rate, wait, clock.clone()));
        self.add_limiters(LEAKY, leaky);
        let token = |(rate, capacity)| TokenBucket::with_clock(rate, capacity, clock.clone());
        self.add_limiters(TOKEN, [(plenty, second), (hourly, 1)].map(token));
        // More tokens than a run takes, and never full again: a full bucket needs no rounding.
        let uneven = CachePadded::new(token((rate(3, Duration::from_millis(1)), 1 << 40)));
        self.add(admitted(TOKEN_UNEVEN), move || uneven.try_acquire(), Decision::is_admitted);
    }

    fn concurrency(&mut self) {
        let [free, taken] = [2, 1].map(|limit| CachePadded::new(ConcurrencyLimiter::new(limit)));
        mem::forget(taken.try_acquire());
        let release = move || free.try_acquire().map(|permit| drop(black_box(permit)));
        self.add(admitted(CONCURRENCY), release, Decision::is_admitted);
        let refuse = move || taken.try_acquire().map(mem::forget);
        self.add(refused(CONCURRENCY), refuse, is_refused);
    }

    fn breaker(&mut self) {
        // No request of a run is overdue before a tenth of the window.
        let config =
            AdaptiveBreakerConfig::default().window(config(10, THIRTY_YEARS)).min_requests(0);
        let config = config.probe_interval(THIRTY_YEARS).expect("more than zero");
        // A low draw drops the request, and a high one does not. After a first rejection, the
        // breaker draws for each request. The first request that would be dropped is let through as
        // a probe.
        let [healthy, lucky, unlucky] = [0, u32::MAX, 0].map(|draw| {
            let breaker = AdaptiveBreaker::with_source(config, self.clock.clone(), Always(draw));
            CachePadded::new(breaker)
        });
        for breaker in [&lucky, &unlucky] {
            for _ in 0..2 {
                let admitted = breaker.try_acquire().map(FeedbackPermit::reject);
                assert!(admitted.is_admitted(), "the first request and the probe are admitted");
            }
        }
        let forget = move || healthy.try_acquire().map(mem::forget);
        self.add(admitted(BREAKER), forget, Decision::is_admitted);
        let forget = move || lucky.try_acquire().map(mem::forget);
        self.add(admitted(BREAKER_FAILING), forget, Decision::is_admitted);
        let refuse = move || unlucky.try_acquire().map(mem::forget);
        self.add(refused(BREAKER_FAILING), refuse, is_refused);
    }

    /// A request that enters its node through a limiter, and one that asks governor first.
    fn nodes(&mut self) {
        let node = || {
            let node = ResourceNode::with_clock(NodeConfig::default(), self.clock.clone());
            CachePadded::new(node)
        };
        let (node, beside) = (node(), node());
        let window = *node.config().short();
        let limit = SlidingWindowLimiter::max_limit(&window);
        let limiter =
            SlidingWindowLimiter::of_buckets_with_clock(window, limit, self.clock.clone());
        let limiter = CachePadded::new(limiter.expect(AT_MOST));
        let plenty = CachePadded::new(peers::governor_plenty());
        let check = move || plenty.check().map(|()| beside.enter().success());
        self.add(CHECK_AND_ENTER.to_owned(), check, Result::is_ok);
        let enter = move || limiter.try_enter(&*node).map(Entry::success);
        self.add(ENTER.to_owned(), enter, Result::is_ok);
    }

    /// Adds two cases. The first limiter has enough permits for all requests. The second has one
    /// permit, which this function takes.
    fn add_limiters(&mut self, name: &str, limiters: [impl Limiter + Sync + 'static; 2]) {
        let [plenty, used_up] = limiters.map(CachePadded::new);
        assert!(used_up.try_acquire().is_admitted(), "{name} has one permit");
        // A leaky bucket may admit after a wait: two readings of the clock can be equal.
        let is_admitted = |it: &_| !matches!(it, Decision::Refused(_));
        self.add(admitted(name), move || plenty.try_acquire(), is_admitted);
        self.add(refused(name), move || used_up.try_acquire(), is_refused);
    }

    /// Adds a case that runs `ask` and checks each decision, also while it is measured. If a
    /// decision is not the expected one, the case would measure another operation, so the thread
    /// panics and the round is lost.
    ///
    /// The limiter that `ask` captures should be padded. It then shares no cache line with other
    /// data, and its layout on cache lines does not depend on its address.
    fn add<R>(
        &mut self,
        name: String,
        ask: impl Fn() -> R + Sync + 'static,
        is_expected: impl Fn(&R) -> bool + Sync + 'static,
    ) {
        let case = name.clone();
        let ask = move || {
            // The compiler must make the whole decision, although the check reads only a part of
            // it.
            let answer = black_box(ask());
            assert!(is_expected(&answer), "{name}: unexpected decision");
        };
        // A case with a wrong setup ends the program before the run.
        ask();
        self.suite.add(&case, self.threads, move |_| ask());
    }
}

/// A random source that always draws the same number.
struct Always(u32);

impl RandomSource for Always {
    fn next_u32(&self) -> u32 {
        black_box(self.0)
    }
}

fn is_refused<P>(decision: &Decision<P>) -> bool {
    !decision.is_admitted()
}
