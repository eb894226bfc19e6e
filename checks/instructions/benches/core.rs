//! The number of instructions of each operation, and how many of them are atomic
//! read-modify-writes. `.ci/instructions` runs this bench under callgrind.
//!
//! The script runs each operation in a process of its own, 2,000 and then 4,000 times. The second
//! run includes everything that the first one does, the set-up and the warm-up too, and 2,000
//! operations more: the difference is the cost of these. No operation reads a real clock, and only
//! in `enter_and_succeed_elsewhere` does a second thread work. So the numbers of the others do not
//! depend on timing.
//!
//! The precise clock is not counted: the number of its corrections, and the duration of the
//! calibration of `quanta`, depend on the time that passes. `--bench record` measures it.

use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::hint::black_box;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;
use std::{mem, thread};

use leaparray::MetricEvent::{Block, Pass, Success};
use leaparray::array::LeapArray;
use leaparray::count_window::CountWindow;
use leaparray::flow::adaptive::Headroom;
use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource};
use leaparray::flow::circuit::{CircuitState, RatioLimit};
use leaparray::flow::shares::FairShares;
use leaparray::flow::{
    AdaptiveBreaker, AdaptiveLimiter, CircuitBreaker, CircuitConfig, ConcurrencyLimiter,
    FeedbackPermit, Keyed, LeakyBucket, LimiterExt, Rate, SlidingWindowLimiter, TokenBucket,
};
use leaparray::metric::MetricBucket;
use leaparray::time::CachedClock;
use leaparray::{
    Clock, Entry, HistogramConfig, ManualClock, NodeConfig, Outcome, Registry, RegistryConfig,
    ResourceNode, SlidingWindow, Timestamp, WindowConfig,
};
use leaparray_instructions::{NOW, Operation};

const RT: Duration = Duration::from_micros(250);
const BUCKET_LEN: Duration = Duration::from_millis(500);

const OPERATIONS: [Operation; 44] = [
    ("empty_loop", empty_loop),
    ("add_at", add_at),
    ("record_success_at", record_success_at),
    ("record_success_histogram_at", record_success_histogram_at),
    ("add_cached_clock", add_cached_clock),
    ("add_1000_windows", add_1000_windows),
    ("rollover", rollover),
    ("rollover_success", rollover_success),
    ("rollover_success_histogram", rollover_success_histogram),
    ("sum_at_2", sum_at_2),
    ("sum_at_120", sum_at_120),
    ("qps_at_2", qps_at_2),
    ("qps_beside_idle_at", qps_beside_idle_at),
    ("sum_beside_idle_at", sum_beside_idle_at),
    ("sum_of_64_threads_at", sum_of_64_threads_at),
    ("ledger_at_2", ledger_at_2),
    ("quantiles_at_10", quantiles_at_10),
    ("quantiles_at_120", quantiles_at_120),
    ("array_current_bucket", array_current_bucket),
    ("enter_and_succeed_at", enter_and_succeed_at),
    ("enter_and_succeed_histogram_at", enter_and_succeed_histogram_at),
    ("look_up_enter_and_succeed_at", look_up_enter_and_succeed_at),
    ("enter_and_succeed_elsewhere", enter_and_succeed_elsewhere),
    ("token_admitted_at", token_admitted_at),
    ("leaky_refused_at", leaky_refused_at),
    ("sliding_admitted_at", sliding_admitted_at),
    ("sliding_refused_at", sliding_refused_at),
    ("enter_through_limiter_at", enter_through_limiter_at),
    ("enter_through_limiter_with_node_passes_at", enter_through_limiter_with_node_passes_at),
    ("keyed_admitted_at", keyed_admitted_at),
    ("keyed_refused_at", keyed_refused_at),
    ("breaker_admitted_at", breaker_admitted_at),
    ("breaker_accepted_at", breaker_accepted_at),
    ("breaker_refused_at", breaker_refused_at),
    ("circuit_accepted_at", circuit_accepted_at),
    ("circuit_slow_limit_accepted_at", circuit_slow_limit_accepted_at),
    ("circuit_last_calls_accepted_at", circuit_last_calls_accepted_at),
    ("circuit_open_at", circuit_open_at),
    ("count_window_success", count_window_success),
    ("adaptive_accepted_at", adaptive_accepted_at),
    ("adaptive_busy_accepted_at", adaptive_busy_accepted_at),
    ("tenant_admitted_at", tenant_admitted_at),
    ("interval_admitted_at", interval_admitted_at),
    ("interval_refused_at", interval_refused_at),
];

fn repeat<R>(times: u64, op: impl Fn(u64) -> R) {
    for i in 0..times {
        black_box(op(black_box(i)));
    }
}

/// The loop itself, which every other operation includes.
fn empty_loop(times: u64) {
    repeat(times, |i| i);
}

fn add_at(times: u64) {
    let window = window(2);
    repeat(times, |_| window.add_at(black_box(NOW), Pass, black_box(1)));
}

fn record_success_at(times: u64) {
    let window = window(2);
    repeat(times, |_| window.record_success_at(black_box(NOW), black_box(RT)));
}

fn record_success_histogram_at(times: u64) {
    let window = window_with_histogram(2);
    repeat(times, |_| window.record_success_at(black_box(NOW), black_box(RT)));
}

fn enter_and_succeed_at(times: u64) {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(NOW));
    repeat(times, |_| node.enter_at(black_box(NOW)).end_at(black_box(NOW), Outcome::Success));
}

fn enter_and_succeed_histogram_at(times: u64) {
    let config = NodeConfig::default().with_histogram(HistogramConfig::default());
    let node = ResourceNode::with_clock(config, ManualClock::new(NOW));
    repeat(times, |_| node.enter_at(black_box(NOW)).end_at(black_box(NOW), Outcome::Success));
}

fn look_up_enter_and_succeed_at(times: u64) {
    let registry = Registry::with_clock(RegistryConfig::default(), ManualClock::new(NOW));
    repeat(times, |_| {
        let orders = registry.resource(black_box("GET /orders")).expect("room for a resource");
        Entry::enter_at(orders, black_box(NOW)).end_at(black_box(NOW), Outcome::Success);
    });
}

/// Requests that enter on this thread and end on another one. They are passed on in batches of
/// 1,000, so that the cost of waiting for the other thread is spread over as many. The cost of
/// passing an entry on is included.
fn enter_and_succeed_elsewhere(times: u64) {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(NOW));
    let (to_elsewhere, entries) = mpsc::channel::<Vec<Entry<&ResourceNode<_>, _>>>();
    let (to_here, ended) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut batch in entries {
                batch.drain(..).for_each(|entry| entry.end_at(black_box(NOW), Outcome::Success));
                to_here.send(batch).expect("the first thread waits");
            }
        });
        let mut batch = Vec::with_capacity(1_000);
        for _ in 0..times.div_ceil(1_000) {
            batch.extend((0..1_000).map(|_| node.enter_at(black_box(NOW))));
            to_elsewhere.send(batch).expect("the other thread waits");
            batch = ended.recv().expect("the other thread answers");
        }
        drop(to_elsewhere);
    });
}

fn add_cached_clock(times: u64) {
    let window = cached_window();
    repeat(times, |_| window.add(Pass, black_box(1)));
}

fn add_1000_windows(times: u64) {
    let windows: Vec<_> = (0..1_000).map(|_| cached_window()).collect();
    let mut in_turn = windows.iter().cycle();
    for _ in 0..times {
        let window = in_turn.next().expect("a cycle does not end");
        window.add(Pass, black_box(1));
    }
}

/// Every operation is the first in its bucket.
fn rollover(times: u64) {
    let window = window(2);
    repeat(times, |i| window.add_at(Timestamp::from_millis(i * 500), Pass, black_box(1)));
}

/// As `rollover`, with a success and its response time.
fn rollover_success(times: u64) {
    let window = window(2);
    repeat(times, |i| window.record_success_at(Timestamp::from_millis(i * 500), RT));
}

fn rollover_success_histogram(times: u64) {
    let window = window_with_histogram(2);
    repeat(times, |i| window.record_success_at(Timestamp::from_millis(i * 500), RT));
}

/// Four quantiles over 10 buckets of 1,000 response times each, spread evenly in the logarithm over
/// three decades.
fn quantiles_at_10(times: u64) {
    quantiles(10, times);
}

fn quantiles_at_120(times: u64) {
    quantiles(120, times);
}

fn quantiles(sample_count: u32, times: u64) {
    let window = window_with_histogram(sample_count);
    for age in (0..sample_count).rev() {
        let then = NOW.saturating_sub(BUCKET_LEN * age);
        for rank in 0..1_000_i16 {
            let millis = 10_f64.powf(f64::from(rank) * 3.0 / 1_000.0 - 1.0);
            window.record_success_at(then, Duration::from_secs_f64(millis / 1e3));
        }
    }
    repeat(times, |_| window.at(black_box(NOW)).quantiles([0.5, 0.9, 0.99, 0.999]));
}

fn sum_at_2(times: u64) {
    let window = filled(2);
    repeat(times, |_| window.at(black_box(NOW)).sum(Pass));
}

fn sum_at_120(times: u64) {
    let window = filled(120);
    repeat(times, |_| window.at(black_box(NOW)).sum(Pass));
}

fn qps_at_2(times: u64) {
    let window = filled(2);
    repeat(times, |_| window.at(black_box(NOW)).qps(Pass));
}

fn qps_beside_idle_at(times: u64) {
    beside_idle(|window| repeat(times, |_| window.at(black_box(NOW)).qps(Pass)));
}

fn sum_beside_idle_at(times: u64) {
    beside_idle(|window| repeat(times, |_| window.at(black_box(NOW)).sum(Pass)));
}

/// Calls `read` with a window in which this thread records, after 256 threads that are idle now.
fn beside_idle(read: impl FnOnce(&SlidingWindow<ManualClock>)) {
    const THREADS: u32 = 256;
    let window = window(2);
    beside(&window, THREADS, NOW.saturating_sub(BUCKET_LEN * THREADS), || {
        // Each rollover sweeps one group of cells.
        for age in (0..THREADS).rev() {
            window.add_at(NOW.saturating_sub(BUCKET_LEN * age), Pass, 1);
        }
        read(&window);
    });
}

fn sum_of_64_threads_at(times: u64) {
    let window = filled(2);
    beside(&window, 63, NOW, || repeat(times, |_| window.at(black_box(NOW)).sum(Pass)));
}

/// Calls `then` while other threads live that have recorded once, at a time.
fn beside(window: &SlidingWindow<ManualClock>, threads: u32, time: Timestamp, then: impl FnOnce()) {
    let [recorded, done] = [2, threads as usize + 1].map(Barrier::new);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                window.add_at(time, Pass, 1);
                recorded.wait();
                done.wait();
            });
            // One after the other: the set-up takes about as many instructions each time.
            recorded.wait();
        }
        then();
        done.wait();
    });
}

fn ledger_at_2(times: u64) {
    let window = filled(2);
    repeat(times, |_| window.at(black_box(NOW)).ledger());
}

/// An add to a bucket whose counters all threads share: it pins the bucket, adds by a
/// read-modify-write, and unpins it.
fn array_current_bucket(times: u64) {
    let array = LeapArray::<MetricBucket>::new(config(2));
    repeat(times, |_| array.current_bucket(black_box(NOW)).add(Pass, black_box(1)));
}

fn token_admitted_at(times: u64) {
    let rate = Rate::new(1, Duration::from_nanos(1)).expect("one a nanosecond");
    let bucket = TokenBucket::with_clock(rate, 1, ManualClock::new(NOW));
    // The time advances by the time of one token.
    let bucket = black_box(&bucket);
    repeat(times, |i| bucket.try_acquire_at(Timestamp::from_nanos(i), 1));
    assert_eq!(
        bucket.quota_at(Timestamp::from_nanos(times - 1)).unwrap().remaining,
        0,
        "the last is admitted"
    );
}

fn leaky_refused_at(times: u64) {
    let rate = Rate::new(1, Duration::from_secs(1)).expect("one a second");
    let bucket = LeakyBucket::with_clock(rate, Duration::ZERO, ManualClock::new(NOW));
    assert!(bucket.try_acquire_at(NOW, 1).is_admitted());
    let bucket = black_box(&bucket);
    repeat(times, |_| bucket.try_acquire_at(black_box(NOW), 1));
}

fn sliding_admitted_at(times: u64) {
    let limiter = sliding(times);
    let limiter = black_box(&limiter);
    repeat(times, |_| limiter.try_acquire_at(black_box(NOW), 1));
    assert_eq!(limiter.quota_at(NOW).unwrap().remaining, 0, "all are admitted");
}

fn sliding_refused_at(times: u64) {
    let limiter = sliding(1);
    assert!(limiter.try_acquire_at(NOW, 1).is_admitted());
    let limiter = black_box(&limiter);
    repeat(times, |_| limiter.try_acquire_at(black_box(NOW), 1));
}

/// A limit that holds in any interval, whose window has 51 buckets.
fn interval_admitted_at(times: u64) {
    let limiter = of_any_interval(times);
    let limiter = black_box(&limiter);
    repeat(times, |_| limiter.try_acquire_at(black_box(NOW), 1));
    assert_eq!(limiter.quota_at(NOW).unwrap().remaining, 0, "all are admitted");
}

fn interval_refused_at(times: u64) {
    let limiter = of_any_interval(1);
    assert!(limiter.try_acquire_at(NOW, 1).is_admitted());
    let limiter = black_box(&limiter);
    repeat(times, |_| limiter.try_acquire_at(black_box(NOW), 1));
}

fn of_any_interval(limit: u64) -> SlidingWindowLimiter<ManualClock> {
    let limiter = SlidingWindowLimiter::with_clock(2 * BUCKET_LEN, limit, ManualClock::new(NOW));
    limiter.expect("a low limit")
}

/// A request that enters its node through a limiter, and succeeds: `sliding_admitted_at` and
/// `enter_and_succeed_at`.
fn enter_through_limiter_at(times: u64) {
    enter_through(&sliding(times), times);
}

/// As before, of a limiter that also counts the passes without it.
fn enter_through_limiter_with_node_passes_at(times: u64) {
    enter_through(&sliding(times).with_node_passes(), times);
}

fn enter_through(limiter: &SlidingWindowLimiter<ManualClock>, times: u64) {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(NOW));
    let limiter = black_box(limiter);
    repeat(times, |_| {
        let entry = limiter.try_enter_at(&node, black_box(NOW)).expect("all are admitted");
        entry.end_at(black_box(NOW), Outcome::Success);
    });
}

/// Of the only key, so that no probe is longer than another one.
fn keyed_admitted_at(times: u64) {
    let limiter = keyed(times + 1);
    let limiter = black_box(&limiter);
    repeat(times, |_| limiter.try_acquire_at(black_box(&7), black_box(NOW), 1));
    assert!(limiter.try_acquire_at(&7, NOW, 1).is_refused(), "all were admitted");
}

fn keyed_refused_at(times: u64) {
    let limiter = keyed(1);
    let limiter = black_box(&limiter);
    repeat(times, |_| limiter.try_acquire_at(black_box(&7), black_box(NOW), 1));
    assert_eq!(limiter.refusals(&7), Some(times));
}

/// Returns a limiter with one key, of whose tokens one was taken. The hash is the same in each
/// process.
fn keyed(tokens: u64) -> Keyed<u64, TokenBucket<ManualClock>, BuildHasherDefault<DefaultHasher>> {
    let rate = Rate::new(1, Duration::from_secs(1)).expect("one a second");
    let bucket = TokenBucket::with_clock(rate, tokens, ManualClock::new(NOW));
    let limiter = Keyed::with_hasher(bucket, 1_000, BuildHasherDefault::default());
    let limiter = limiter.expect("room for a thousand keys");
    assert!(limiter.try_acquire_at(&7, NOW, 1).is_admitted());
    limiter
}

fn breaker_admitted_at(times: u64) {
    let breaker =
        AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), ManualClock::new(NOW));
    repeat(times, |_| breaker.try_acquire_at(black_box(NOW), 1).map(mem::forget));
}

/// A request that is admitted, and its end.
fn breaker_accepted_at(times: u64) {
    let breaker =
        AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), ManualClock::new(NOW));
    repeat(times, |_| {
        breaker
            .try_acquire_at(black_box(NOW), 1)
            .map(|permit| permit.end_at(black_box(NOW), Outcome::Success))
    });
    assert_eq!(breaker.window().at(NOW).sum(Success), times, "all are accepted");
}

fn breaker_refused_at(times: u64) {
    let config = AdaptiveBreakerConfig::default().min_requests(0);
    let breaker = AdaptiveBreaker::with_source(config, ManualClock::new(NOW), Lowest);
    for _ in 0..2 {
        let admitted = breaker.try_acquire_at(NOW, 1).map(FeedbackPermit::reject);
        assert!(admitted.is_admitted(), "the first request, and a probe");
    }
    repeat(times, |_| breaker.try_acquire_at(black_box(NOW), 1).map(mem::forget));
    assert_eq!(breaker.window().at(NOW).sum(Block), times, "all are dropped");
}

fn accept_circuit(times: u64, config: CircuitConfig) {
    let breaker = CircuitBreaker::with_clock(config.min_calls(100), ManualClock::new(NOW));
    repeat(times, |_| {
        breaker
            .try_acquire_at(black_box(NOW), 1)
            .map(|permit| permit.end_at(black_box(NOW), Outcome::Success))
    });
    assert!(breaker.at(NOW).calls.calls >= times.min(100), "all are counted");
}

fn circuit_accepted_at(times: u64) {
    accept_circuit(times, CircuitConfig::default());
}

fn circuit_slow_limit_accepted_at(times: u64) {
    let half = RatioLimit::at_least(0.5).expect("a ratio");
    accept_circuit(times, CircuitConfig::default().slow_ratio(half, 2 * RT));
}

fn circuit_last_calls_accepted_at(times: u64) {
    accept_circuit(times, CircuitConfig::default().last_calls(100).expect("few calls"));
}

fn circuit_open_at(times: u64) {
    let breaker = CircuitBreaker::with_clock(CircuitConfig::default(), ManualClock::new(NOW));
    breaker.set_state_at(NOW, CircuitState::Open).expect("from any state");
    repeat(times, |_| breaker.try_acquire_at(black_box(NOW), 1).map(mem::forget));
}

fn count_window_success(times: u64) {
    let window = CountWindow::new(100).expect("few calls").slow_above(2 * RT);
    repeat(times, |_| window.record_success(black_box(RT)));
    assert_eq!(window.totals().exceptions, 0);
}

fn adaptive_accepted_at(times: u64) {
    let limiter = AdaptiveLimiter::with_clock(Headroom::default(), ManualClock::new(NOW));
    accept_adaptive(&limiter, NOW, times);
}

/// As before, of 50 million calls in a second, of which some thousands in a plan are measured.
fn adaptive_busy_accepted_at(times: u64) {
    let limiter = AdaptiveLimiter::with_clock(Headroom::default(), ManualClock::new(NOW));
    let start = black_box(NOW);
    accept_adaptive(&limiter, start, 1_000_000);
    accept_adaptive(&limiter, start.saturating_add(Duration::from_millis(20)), times);
}

fn accept_adaptive(limiter: &AdaptiveLimiter<Headroom, ManualClock>, now: Timestamp, times: u64) {
    repeat(times, |_| {
        limiter
            .try_acquire_at(black_box(now), 1)
            .map(|permit| permit.end_at(black_box(now), Outcome::Success))
    });
    assert_eq!(limiter.in_use(), 0);
}

/// A hash whose cost is not counted.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the tenant is a number")
    }

    fn write_u64(&mut self, tenant: u64) {
        self.0 = tenant;
    }
}

/// A request of a tenant that does not compete, and its end, among places for a million tenants.
fn tenant_admitted_at(times: u64) {
    let limit = Arc::new(ConcurrencyLimiter::new(1_000));
    let shares = FairShares::with_hasher(limit, 1_000_000, BuildHasherDefault::<Same>::default());
    let shares = black_box(shares.expect("a million tenants"));
    repeat(times, |_| {
        let tenant = shares.tenant(black_box(&7_u64), 1);
        assert!(tenant.try_acquire_at(black_box(NOW), 1).is_admitted());
    });
}

/// A source that draws the lowest number, with which a request is dropped if any can be dropped.
struct Lowest;

impl RandomSource for Lowest {
    fn next_u32(&self) -> u32 {
        black_box(0)
    }
}

fn sliding(limit: u64) -> SlidingWindowLimiter<ManualClock> {
    SlidingWindowLimiter::of_buckets_with_clock(config(2), limit, ManualClock::new(NOW))
        .expect("a low limit")
}

fn config(sample_count: u32) -> WindowConfig {
    WindowConfig::new(sample_count as usize, BUCKET_LEN * sample_count).expect("half seconds")
}

fn window(sample_count: u32) -> SlidingWindow<ManualClock> {
    SlidingWindow::with_clock(config(sample_count), ManualClock::new(NOW))
}

fn window_with_histogram(sample_count: u32) -> SlidingWindow<ManualClock> {
    let histogram = HistogramConfig::default();
    SlidingWindow::with_histogram(config(sample_count), histogram, ManualClock::new(NOW))
}

/// A window with a cached clock that no thread refreshes. A read of the clock takes the same
/// instructions.
fn cached_window() -> SlidingWindow<impl Clock> {
    SlidingWindow::with_clock(config(2), CachedClock::new(ManualClock::new(NOW)))
}

/// A window with counts in every bucket at `NOW`, and in every bucket of the lap before.
fn filled(sample_count: u32) -> SlidingWindow<ManualClock> {
    let window = window(sample_count);
    for age in (0..2 * sample_count).rev() {
        let then = NOW.saturating_sub(BUCKET_LEN * age);
        window.add_at(then, Pass, 1);
        window.record_success_at(then, RT);
    }
    window
}

fn main() {
    leaparray_instructions::main(&OPERATIONS);
}
