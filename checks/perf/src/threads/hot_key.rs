//! Decisions on one key from one thread to many: how long they take, and how long the slowest of
//! them wait.
//!
//! *One word* is a limiter without keys and without a lock, which takes permits by a
//! compare-exchange on one word. A limiter by key with a lock for each part of its table can form a
//! convoy: all threads wait for one that holds the lock and does not run. So the times of decisions
//! are also measured with twice as many threads as processors.

use std::hash::RandomState;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use governor::{Quota, RateLimiter};
use hdrhistogram::Histogram;
use leaparray::flow::{Keyed, Rate, TokenBucket};
use leaparray::{Clock, MonotonicClock};
use leaparray_perf_page::Value;

use super::{THREADS, rows_of};
use crate::goals::Row;
use crate::harness::Suite;
use crate::limiters::{COUNT, OneWord};
use crate::scenarios::crowd::Crowd;
use crate::timed::bind;

const WORD: &str = "one word";
const GOVERNOR: &str = "`governor` by key";
const OURS: &str = "`Keyed`";
const LIMITERS: [&str; 3] = [WORD, GOVERNOR, OURS];

const KEY: &str = "client-0000007";

/// The quantiles of the times of decisions.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
/// The decisions of all threads in a round, and the rounds.
const DECISIONS: usize = 100_000;
const ROUNDS: usize = 10;

fn case(limiter: &str) -> String {
    format!("one hot key: {limiter}")
}

fn case_of_quantile(limiter: &str, quantile: f64) -> String {
    format!("one hot key, quantile {quantile} of the times: {limiter}")
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<_> = LIMITERS.into_iter().flat_map(|it| rows_of(&case(it), None)).collect();
    for threads in THREADS {
        rows.push(Row::ratio(case(OURS), threads, case(GOVERNOR), None));
        rows.push(Row::ratio(case(OURS), threads, case(WORD), None));
    }
    rows
}

pub(super) fn add(suite: &mut Suite, threads: usize) {
    add_limiter(suite, WORD, threads, word());
    add_limiter(suite, GOVERNOR, threads, governor());
    add_limiter(suite, OURS, threads, ours());
}

fn add_limiter(
    suite: &mut Suite,
    name: &str,
    threads: usize,
    decide: impl Fn() -> bool + Sync + 'static,
) {
    suite.add_bound(&case(name), threads, move |_, _| assert!(decide(), "permits for all"));
}

/// Measures the quantiles of the times of decisions, and returns them.
pub(super) fn quantiles(cores: usize) -> Vec<Value> {
    let crowds = THREADS.into_iter().filter(|&threads| threads <= cores).chain([2 * cores]);
    let values = crowds.flat_map(|threads| {
        let [mut of_word, mut of_governor, mut of_ours] = LIMITERS.map(|_| histogram());
        let (word, governor, ours) = (word(), governor(), ours());
        for _ in 0..ROUNDS {
            record_times(threads, cores, &word, &mut of_word);
            record_times(threads, cores, &governor, &mut of_governor);
            record_times(threads, cores, &ours, &mut of_ours);
        }
        QUANTILES.into_iter().flat_map(move |quantile| {
            let times = [&of_word, &of_governor, &of_ours];
            let nanos = times.map(|times| times.value_at_quantile(quantile) as f64);
            let value = |name, measured: f64, unit: String| Value {
                case: case_of_quantile(name, quantile),
                crowd: Crowd::of(threads),
                measured: (measured * 100.0).round() / 100.0,
                unit,
                at_most: None,
                spread: None,
            };
            let costs =
                LIMITERS.iter().zip(nanos).map(|(name, it)| value(name, it, "ns".to_owned()));
            let ratio = |at: usize| {
                let unit = format!("× {}", case_of_quantile(LIMITERS[at], quantile));
                value(OURS, nanos[2] / nanos[at], unit)
            };
            costs.chain([ratio(0), ratio(1)]).collect::<Vec<_>>()
        })
    });
    values.collect()
}

fn word() -> impl Fn() -> bool {
    let clock = MonotonicClock::new();
    let word = CachePadded::new(OneWord::new(COUNT, clock.now()));
    move || word.try_acquire_at(clock.now())
}

fn governor() -> impl Fn() -> bool {
    let quota = Quota::with_period(Duration::from_nanos(1)).expect("not zero");
    let limiter: governor::DefaultKeyedRateLimiter<String> =
        RateLimiter::keyed(quota.allow_burst(NonZeroU32::MAX));
    let key = KEY.to_owned();
    move || limiter.check_key(&key).is_ok()
}

fn ours() -> impl Fn() -> bool {
    let rate = Rate::new(1, Duration::from_nanos(1)).expect("not zero");
    let bucket = TokenBucket::new(rate, NonZeroU32::MAX.get().into());
    let limiter = Keyed::with_hasher(bucket, 1_000, RandomState::new()).expect("room for a key");
    let key = KEY.to_owned();
    move || limiter.try_acquire(&key).is_admitted()
}

/// Records the times of decisions on some threads, in nanoseconds. Each includes a reading of the
/// counter.
fn record_times(
    threads: usize,
    cores: usize,
    decide: &(impl Fn() -> bool + Sync),
    times: &mut Histogram<u64>,
) {
    let start = Barrier::new(threads);
    let each = |thread: usize| {
        bind(thread % cores);
        let (clock, mut times) = (quanta::Clock::new(), histogram());
        start.wait();
        for _ in 0..DECISIONS / threads {
            let begun = clock.raw();
            assert!(decide(), "permits for all");
            times.saturating_record(clock.delta_as_nanos(begun, clock.raw()));
        }
        times
    };
    let each = &each;
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || each(thread))).collect();
        for thread in running {
            let own = thread.join().expect("no decision panics");
            times.add(own).expect("histograms of the same digits");
        }
    });
}

fn histogram() -> Histogram<u64> {
    // Up to a minute. Without bounds, it would saturate at 2,047 ns.
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("three digits")
}
