//! Measures how decisions scale with threads: those of a sliding-window limiter, beside governor and beside a limiter that
//! decides by one word, and those of a token bucket, a leaky bucket and a limit of concurrency. Prints nanoseconds for a
//! decision on one thread: the median over the rounds, in which all cases take turns.
//!
//! Each thread is bound to a processor of its own, so that the threads run at the same time. There are cases with 1, 2, 4, 8
//! and 16 threads, as far as the machine has processors.
//!
//! ```sh
//! cargo run --release --manifest-path checks/perf/Cargo.toml --bin limiters
//! ```

use std::hint::{black_box, spin_loop};
use std::num::{NonZero, NonZeroU32};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use governor::clock::QuantaClock;
use governor::{Quota, RateLimiter};
use leaparray::flow::{
    ConcurrencyLimiter, LeakyBucket, Limiter, Rate, SlidingWindowLimiter, TokenBucket,
};
use leaparray::{Clock, Entry, MonotonicClock, NodeConfig, ResourceNode, Timestamp, WindowConfig};
use rustix::thread::{CpuSet, sched_setaffinity};

const ROUNDS: usize = 41;
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// The decisions of a sample: with more than two threads, those of all threads together are as many as of two.
const DECISIONS: u64 = 200_000;
/// The number of permits of all limiters that one sample fills.
const FILLED_PERMITS: u64 = 200_000;
/// More permits than a run takes.
const MANY: u64 = 1 << 40;
const HOUR: Duration = Duration::from_secs(3_600);
/// The limits of the limiters that are filled.
const LIMITS: [u64; 7] = [10, 30, 64, 100, 300, 1_000, 10_000];

/// A limiter of one window that never moves, decided by one word: what a sliding-window limiter does without epochs, and
/// without later buckets.
struct OneWord {
    word: AtomicU64,
    limit: AtomicU64,
}

/// The bits of the count. The bits above it are the number of the bucket.
const COUNT: u64 = (1 << 36) - 1;
const BUCKET_NANOS: u64 = 1 << 38;

impl OneWord {
    fn new(limit: u64, now: Timestamp) -> Self {
        let word = (now.as_nanos() / BUCKET_NANOS) << COUNT.count_ones();
        Self { word: AtomicU64::new(word), limit: AtomicU64::new(limit) }
    }

    fn try_acquire_at(&self, now: Timestamp) -> bool {
        let number = now.as_nanos() / BUCKET_NANOS;
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            // In place of the step to a later bucket: a run has one bucket.
            assert!(black_box(word >> COUNT.count_ones()) + 99 >= number);
            if word & COUNT >= self.limit.load(Ordering::Relaxed) {
                return false;
            }
            let (relaxed, acquire) = (Ordering::Relaxed, Ordering::Acquire);
            match self.word.compare_exchange_weak(word, word + 1, relaxed, acquire) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }
}

fn sliding(limit: Option<u64>, clock: &MonotonicClock) -> SlidingWindowLimiter<MonotonicClock> {
    let window = WindowConfig::new(10, HOUR * 10).expect("ten hours");
    let limit = limit.unwrap_or(SlidingWindowLimiter::max_limit(&window));
    SlidingWindowLimiter::with_clock(window, limit, clock.clone())
        .expect("at most the highest limit")
}

/// Runs `act` on threads that are bound to a processor each, with the number of the thread. Returns their results.
fn on_processors<R: Send>(threads: usize, act: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let run = &|number| {
        let mut set = CpuSet::new();
        set.set(number);
        sched_setaffinity(None, &set).expect("the machine has as many processors");
        act(number)
    };
    thread::scope(|scope| {
        let spawn = |number| scope.spawn(move || run(number));
        let running: Vec<_> = (0..threads).map(spawn).collect();
        running.into_iter().map(|thread| thread.join().expect("no decision panics")).collect()
    })
}

/// A barrier at which threads spin, so that they leave it at the same time.
#[derive(Default)]
struct SpinBarrier(AtomicUsize);

impl SpinBarrier {
    fn wait(&self, threads: usize) {
        let arrived = self.0.fetch_add(1, Ordering::AcqRel);
        let all = (arrived / threads + 1) * threads;
        while self.0.load(Ordering::Acquire) < all {
            spin_loop();
        }
    }
}

/// Returns nanoseconds for an operation on one of the threads.
fn cost(threads: usize, op: &(dyn Fn() + Sync)) -> f64 {
    let barrier = SpinBarrier::default();
    let decisions = DECISIONS * 2 / threads.max(2) as u64;
    let times = on_processors(threads, |_| {
        (0..decisions / 50).for_each(|_| op());
        barrier.wait(threads);
        let start = Instant::now();
        (0..decisions).for_each(|_| op());
        start.elapsed()
    });
    let sum: Duration = times.iter().sum();
    nanos_each(sum, decisions * threads as u64)
}

/// Lets threads take all permits of each of several limiters, one after the other. Returns nanoseconds for a permit.
fn fill<L: Sync>(
    threads: usize,
    limit: u64,
    make: impl Fn() -> L,
    take: impl Fn(&L) -> bool + Sync,
) -> f64 {
    let limiters: Vec<_> = (0..FILLED_PERMITS / limit).map(|_| CachePadded::new(make())).collect();
    let barrier = SpinBarrier::default();
    let fills = on_processors(threads, |_| {
        let (mut time, mut taken) = (Duration::ZERO, 0);
        for limiter in &limiters {
            barrier.wait(threads);
            let start = Instant::now();
            taken += (0..=limit).take_while(|_| take(limiter)).count() as u64;
            time += start.elapsed();
        }
        (time, taken)
    });
    let permits = limit * limiters.len() as u64;
    assert_eq!(fills.iter().map(|fill| fill.1).sum::<u64>(), permits, "the limit, exactly");
    let longest = fills.iter().map(|fill| fill.0).max().unwrap_or_default();
    nanos_each(longest, permits)
}

#[expect(clippy::cast_precision_loss, reason = "a run has fewer than 2⁵³ operations")]
fn nanos_each(time: Duration, operations: u64) -> f64 {
    time.as_secs_f64() * 1e9 / operations as f64
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

fn main() {
    let clock = MonotonicClock::new();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads: Vec<_> = THREADS.into_iter().filter(|it| *it <= cores).collect();
    decisions(&clock, &threads);
    for &threads in threads.iter().filter(|it| [2, 8].contains(*it)) {
        fills(&clock, threads);
    }
}

/// An operation that several threads run at once.
type Op<'a> = Box<dyn Fn() + Sync + 'a>;

fn decisions(clock: &MonotonicClock, threads: &[usize]) {
    let now = clock.now();
    let governor = |quota: Quota| {
        CachePadded::new(RateLimiter::direct_with_clock(quota, QuantaClock::default()))
    };
    let each_nano = Quota::with_period(Duration::from_nanos(1)).expect("not zero");
    let plenty = governor(each_nano.allow_burst(NonZeroU32::MAX));
    let used_up = governor(Quota::with_period(HOUR).expect("not zero"));
    let word = CachePadded::new(OneWord::new(COUNT, now));
    let (wide, full) = (sliding(None, clock), sliding(Some(1), clock));
    let (wide, full) = (CachePadded::new(wide), CachePadded::new(full));
    assert!(used_up.check().is_ok() && full.try_acquire().is_admitted());
    let rate = Rate::new(1_000_000_000, Duration::from_secs(1)).expect("one for each nanosecond");
    let tokens = CachePadded::new(TokenBucket::with_clock(rate, MANY, clock.clone()));
    let leaky = CachePadded::new(LeakyBucket::with_clock(rate, HOUR, clock.clone()));
    let concurrency = CachePadded::new(ConcurrencyLimiter::new(MANY));
    let node = || ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let (beside_governor, beside_limiter) = (node(), node());
    let cases: [(&str, Op); 12] = [
        ("governor's `check`, admitted", Box::new(|| assert!(plenty.check().is_ok()))),
        ("one word, admitted", Box::new(|| assert!(word.try_acquire_at(clock.now())))),
        (
            "`SlidingWindowLimiter`, admitted",
            Box::new(|| assert!(wide.try_acquire().is_admitted())),
        ),
        (
            "one word, admitted, time given",
            Box::new(|| assert!(word.try_acquire_at(black_box(now)))),
        ),
        (
            "`SlidingWindowLimiter`, admitted, time given",
            Box::new(|| assert!(wide.try_acquire_at(black_box(now), 1).is_admitted())),
        ),
        ("governor's `check`, refused", Box::new(|| assert!(used_up.check().is_err()))),
        ("`SlidingWindowLimiter`, refused", Box::new(|| assert!(full.try_acquire().is_refused()))),
        ("`TokenBucket`, admitted", Box::new(|| assert!(tokens.try_acquire().is_admitted()))),
        (
            "`LeakyBucket`, admitted, or after a wait",
            Box::new(|| assert!(!leaky.try_acquire().is_refused())),
        ),
        (
            "`ConcurrencyLimiter`, a permit taken and given back",
            Box::new(|| assert!(concurrency.try_acquire().is_admitted())),
        ),
        (
            "governor's `check`, then a request of a `ResourceNode`",
            Box::new(|| {
                assert!(plenty.check().is_ok());
                beside_governor.enter().success();
            }),
        ),
        (
            "a request of a `ResourceNode` by a `SlidingWindowLimiter`",
            Box::new(|| assert!(wide.try_enter(&beside_limiter).map(Entry::success).is_ok())),
        ),
    ];
    let mut costs = vec![vec![Vec::new(); threads.len()]; cases.len()];
    for _ in 0..ROUNDS {
        for (column, threads) in threads.iter().enumerate() {
            for ((_, op), costs) in cases.iter().zip(&mut costs) {
                costs[column].push(cost(*threads, &**op));
            }
        }
    }
    let heads: Vec<_> = threads.iter().map(ToString::to_string).collect();
    println!(
        "| decision, by threads | {} |\n|---|{}",
        heads.join(" | "),
        "---:|".repeat(threads.len())
    );
    for ((name, _), costs) in cases.iter().zip(costs) {
        let costs: Vec<_> = costs.into_iter().map(|it| format!("{:.1}", median(it))).collect();
        println!("| {name} | {} |", costs.join(" | "));
    }
}

fn fills(clock: &MonotonicClock, threads: usize) {
    let now = clock.now();
    println!(
        "\n| from empty to full, {threads} threads | one word | limiter | ratio |\n|---|---:|---:|---:|"
    );
    for limit in LIMITS {
        let (mut words, mut limiters) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let take = |word: &OneWord| word.try_acquire_at(black_box(now));
            words.push(fill(threads, limit, || OneWord::new(limit, now), take));
            let take = |limiter: &SlidingWindowLimiter<_>| {
                limiter.try_acquire_at(black_box(now), 1).is_admitted()
            };
            let make = || {
                let limiter = sliding(Some(limit), clock);
                // Opens the bucket, and takes no permit.
                assert!(limiter.try_acquire_at(now, limit + 1).is_refused());
                limiter
            };
            limiters.push(fill(threads, limit, make, take));
        }
        let (word, limiter) = (median(words), median(limiters));
        println!("| limit {limit} | {word:.1} | {limiter:.1} | {:.2} |", limiter / word);
    }
}
