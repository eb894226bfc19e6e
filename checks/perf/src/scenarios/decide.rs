//! Deciding, of limiters that tell everyone the same.

use std::hint::black_box;
use std::mem;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use leaparray::flow::{
    AdaptiveBreaker, BreakerConfig, BreakerPermit, ConcurrencyLimiter, Decision,
    FixedWindowLimiter, LeakyBucket, Limiter, RandomSource, Rate, SlidingWindowLimiter,
    TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::{Entry, MonotonicClock, NodeConfig, ResourceNode, WindowConfig};

use super::config;
use crate::harness::Suite;
use crate::peers;

/// One that is admitted each time, and one that is refused each time.
pub(crate) type Pair = [&'static str; 2];

/// What the others are held against.
pub(crate) const GOVERNOR: Pair =
    ["`governor`'s `check`, admitted", "`governor`'s `check`, refused"];
pub(crate) const FIXED: Pair = ["`FixedWindowLimiter`, admitted", "`FixedWindowLimiter`, refused"];
pub(crate) const SLIDING: Pair =
    ["`SlidingWindowLimiter`, admitted", "`SlidingWindowLimiter`, refused"];
pub(crate) const LEAKY: Pair = ["`LeakyBucket`, admitted", "`LeakyBucket`, refused"];
pub(crate) const TOKEN: Pair = ["`TokenBucket`, admitted", "`TokenBucket`, refused"];
pub(crate) const WARM_UP: Pair = ["`WarmUp`, admitted", "`WarmUp`, refused"];
pub(crate) const CONCURRENCY: Pair =
    ["`ConcurrencyLimiter`, admitted and given back", "`ConcurrencyLimiter`, refused"];
pub(crate) const BREAKER: &str = "`AdaptiveBreaker`, nothing rejected, admitted";
pub(crate) const BREAKER_FAILING: Pair =
    ["`AdaptiveBreaker`, failing, admitted by chance", "`AdaptiveBreaker`, failing, refused"];
/// Whose due times have to be rounded.
pub(crate) const TOKEN_UNEVEN: &str = "`TokenBucket`, admitted, 3 permits a millisecond";
pub(crate) const LIMITED_ENTRY: Pair = [
    "`SlidingWindowLimiter`: enter a `ResourceNode`, and succeed",
    "`SlidingWindowLimiter`: enter a `ResourceNode`, refused and counted",
];

const SECOND: Duration = Duration::from_secs(1);
/// No run takes as long, and so nothing comes free in one.
const HOUR: Duration = Duration::from_secs(3_600);
/// The next interval of such a length begins in 2033.
const THIRTY_YEARS: Duration = Duration::from_secs(1_000_000_000);

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for threads in [1, 2] {
        governor(suite, threads);
        windows(suite, threads, clock);
        rates(suite, threads, clock);
        concurrency(suite, threads);
        breaker(suite, threads, clock);
        limited_entry(suite, threads, clock);
    }
}

fn governor(suite: &mut Suite, threads: usize) {
    let [plenty, used_up] = [peers::governor_plenty(), peers::governor_used_up()];
    let [plenty, used_up] = [plenty, used_up].map(CachePadded::new);
    always(suite, GOVERNOR[0], threads, move || plenty.check(), Result::is_ok);
    always(suite, GOVERNOR[1], threads, move || used_up.check(), Result::is_err);
}

fn windows(suite: &mut Suite, threads: usize, clock: &MonotonicClock) {
    let window = config(10, HOUR);
    let most = SlidingWindowLimiter::max_limit(&window);
    let fixed =
        [most, 1].map(|limit| FixedWindowLimiter::with_clock(THIRTY_YEARS, limit, clock.clone()));
    limiter(suite, FIXED, threads, fixed.map(|limiter| limiter.expect("below the highest limit")));
    limiter(suite, SLIDING, threads, [most, 1].map(|limit| sliding(window, limit, clock)));
    let warm_up = [most, 1].map(|limit| {
        let config = WarmUpConfig::default();
        WarmUp::with_clock(window, limit, config, clock.clone()).expect("at most the highest limit")
    });
    limiter(suite, WARM_UP, threads, warm_up);
}

fn sliding(
    window: WindowConfig,
    limit: u64,
    clock: &MonotonicClock,
) -> SlidingWindowLimiter<MonotonicClock> {
    SlidingWindowLimiter::with_clock(window, limit, clock.clone())
        .expect("at most the highest limit")
}

fn rates(suite: &mut Suite, threads: usize, clock: &MonotonicClock) {
    // As governor's: one a nanosecond is more than can be asked for, and a thread that is held up
    // for less than a second is no further behind the others than it may be.
    let (second, plenty) = (1_000_000_000, rate(1_000_000_000, SECOND));
    let hourly = rate(1, HOUR);
    let leaky = [(plenty, SECOND), (hourly, Duration::ZERO)]
        .map(|(rate, max_wait)| LeakyBucket::with_clock(rate, max_wait, clock.clone()));
    limiter(suite, LEAKY, threads, leaky);
    let token = [(plenty, second), (hourly, 1)]
        .map(|(rate, capacity)| TokenBucket::with_clock(rate, capacity, clock.clone()));
    limiter(suite, TOKEN, threads, token);
    // More tokens than a run takes, and never full again: from a full bucket nothing is rounded.
    let uneven = TokenBucket::with_clock(rate(3, Duration::from_millis(1)), 1 << 40, clock.clone());
    let uneven = CachePadded::new(uneven);
    always(suite, TOKEN_UNEVEN, threads, move || uneven.try_acquire(), Decision::is_admitted);
}

fn rate(permits: u64, interval: Duration) -> Rate {
    Rate::new(permits, interval).expect("a nanosecond for each at least")
}

fn concurrency(suite: &mut Suite, threads: usize) {
    let [free, taken] = [2, 1].map(|limit| CachePadded::new(ConcurrencyLimiter::new(limit)));
    mem::forget(taken.try_acquire());
    let give_back = move || free.try_acquire().map(|permit| drop(black_box(permit)));
    always(suite, CONCURRENCY[0], threads, give_back, Decision::is_admitted);
    let refuse = move || taken.try_acquire().map(mem::forget);
    always(suite, CONCURRENCY[1], threads, refuse, is_refused);
}

fn breaker(suite: &mut Suite, threads: usize, clock: &MonotonicClock) {
    let window = config(40, HOUR);
    let config = BreakerConfig::default().window(window).min_requests(0);
    let config = config.probe_interval(THIRTY_YEARS).expect("more than zero");
    // Low draws are dropped, and high ones are not. One that was rejected makes it a matter of chance, and
    // a first one that would be dropped is let through.
    let [healthy, lucky, unlucky] = [0, u32::MAX, 0].map(|draw| {
        let breaker = AdaptiveBreaker::with_source(config, clock.clone(), Always(draw));
        CachePadded::new(breaker)
    });
    for breaker in [&lucky, &unlucky] {
        for _ in 0..2 {
            let admitted = breaker.try_acquire().map(BreakerPermit::reject);
            assert!(admitted.is_admitted(), "the first, and a probe");
        }
    }
    let ignore = move || healthy.try_acquire().map(BreakerPermit::ignore);
    always(suite, BREAKER, threads, ignore, Decision::is_admitted);
    let ignore = move || lucky.try_acquire().map(BreakerPermit::ignore);
    always(suite, BREAKER_FAILING[0], threads, ignore, Decision::is_admitted);
    let refuse = move || unlucky.try_acquire().map(BreakerPermit::ignore);
    always(suite, BREAKER_FAILING[1], threads, refuse, is_refused);
}

/// Draws the same each time.
struct Always(u32);

impl RandomSource for Always {
    fn next_u32(&self) -> u32 {
        black_box(self.0)
    }
}

fn limited_entry(suite: &mut Suite, threads: usize, clock: &MonotonicClock) {
    // The geometry that is recommended, and more of it than passes in a second; and one in which nothing
    // comes free.
    let second = *NodeConfig::default().short();
    let most = SlidingWindowLimiter::max_limit(&second);
    let [plenty, used_up] = [(second, most), (config(10, HOUR), 1)].map(|(window, limit)| {
        let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
        CachePadded::new((sliding(window, limit, clock), node))
    });
    assert!(used_up.0.try_acquire().is_admitted(), "there is one permit");
    let succeed = move || plenty.0.enter(&plenty.1).map(Entry::success);
    always(suite, LIMITED_ENTRY[0], threads, succeed, Decision::is_admitted);
    let refuse = move || used_up.0.enter(&used_up.1).map(Entry::success);
    always(suite, LIMITED_ENTRY[1], threads, refuse, is_refused);
}

/// The first of them has enough for all. The other has one permit, and that is taken here.
fn limiter<L>(suite: &mut Suite, names: Pair, threads: usize, limiters: [L; 2])
where
    L: Limiter + Sync + 'static,
{
    let [plenty, used_up] = limiters.map(CachePadded::new);
    assert!(used_up.try_acquire().is_admitted(), "{} has one permit", names[1]);
    always(suite, names[0], threads, move || plenty.try_acquire(), Decision::is_admitted);
    always(suite, names[1], threads, move || used_up.try_acquire(), is_refused);
}

fn is_refused<P>(decision: &Decision<P>) -> bool {
    !decision.is_admitted()
}

/// Measures `ask`, and looks at each answer, in the measured operations too: where it is told
/// something else, something else is measured. The thread panics then, and the round is lost.
///
/// What it captures had best be padded: it has its cache lines to itself, and is laid out on them in
/// the same way wherever it comes to lie.
fn always<R>(
    suite: &mut Suite,
    name: &'static str,
    threads: usize,
    ask: impl Fn() -> R + Sync + 'static,
    is_expected: impl Fn(&R) -> bool + Sync + 'static,
) {
    let ask = move || {
        // All of the answer, though only a part is looked at.
        let answer = black_box(ask());
        assert!(is_expected(&answer), "{name}: told otherwise");
    };
    // What is set up wrongly ends the program at once.
    ask();
    suite.add(name, threads, move |_| ask());
}
