//! Decisions on one key from one thread to many: how long they take, and how long the slowest of
//! them wait.
//!
//! *One word* is a limiter without keys and without a lock, which takes permits by a
//! compare-exchange on one word. A limiter by key with a lock for each part of its table can form a
//! convoy: all threads wait for one that holds the lock and does not run. So the quantiles of the
//! times are also measured with twice as many threads as processors.

use std::hash::RandomState;
use std::num::NonZeroU32;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use governor::{Quota, RateLimiter};
use hdrhistogram::Histogram;
use leaparray::flow::{Keyed, Rate, TokenBucket};
use leaparray::{Clock, MonotonicClock};

use super::{THREADS, rows_of};
use crate::goals::{Row, Unit};
use crate::harness::Suite;
use crate::limiters::{COUNT, OneWord};
use crate::machine;
use crate::scenarios::crowd::Crowd;
use crate::timed::bind;

const WORD: &str = "one word";
const GOVERNOR: &str = "`governor` by key";
const OURS: &str = "`Keyed`";
const LIMITERS: [&str; 3] = [WORD, GOVERNOR, OURS];

const KEY: &str = "client-0000007";

/// The quantiles of the times of decisions.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

fn case(limiter: &str) -> String {
    format!("one hot key: {limiter}")
}

fn case_of_quantile(limiter: &str, quantile: f64) -> String {
    format!("one hot key, quantile {quantile} of the times: {limiter}")
}

/// The numbers of threads of the quantiles: those of the other cases, and twice as many as there
/// are processors.
fn crowds() -> Vec<usize> {
    let cores = machine::cores();
    THREADS.into_iter().filter(|&threads| threads <= cores).chain([2 * cores]).collect()
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<_> = LIMITERS.into_iter().flat_map(|it| rows_of(&case(it), None)).collect();
    for threads in THREADS {
        rows.push(Row::ratio(case(OURS), threads, case(GOVERNOR), None));
        rows.push(Row::ratio(case(OURS), threads, case(WORD), None));
    }
    for threads in crowds() {
        for quantile in QUANTILES {
            let [word, governor, ours] = LIMITERS.map(|it| case_of_quantile(it, quantile));
            rows.push(Row::baseline(&word, threads));
            rows.push(Row::baseline(&governor, threads));
            rows.push(Row::new(ours.clone(), Crowd::of(threads), Unit::Nanos, None));
            rows.push(Row::ratio(ours, threads, governor, None));
        }
    }
    rows
}

pub(super) fn add(suite: &mut Suite) {
    add_limiter(suite, WORD, word());
    add_limiter(suite, GOVERNOR, governor());
    add_limiter(suite, OURS, ours());
}

fn add_limiter(suite: &mut Suite, name: &str, decide: impl Fn() -> bool + Send + Sync + 'static) {
    assert!(decide(), "permits for all requests");
    let (decide, cores) = (Arc::new(decide), machine::cores());
    for threads in THREADS.into_iter().filter(|&threads| threads <= cores) {
        let decide = Arc::clone(&decide);
        suite.add_bound(&case(name), threads, move |_, _| assert!(decide()));
    }
    for threads in crowds() {
        for quantile in QUANTILES {
            let (name, decide) = (case_of_quantile(name, quantile), Arc::clone(&decide));
            suite.add_run(&name, Crowd::of(threads), threads, move |iters, _| {
                times(threads, iters, &*decide)
                    .map(|times| times.value_at_quantile(quantile) as f64)
            });
        }
    }
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

/// Returns the times of decisions on some threads, in nanoseconds. Each includes a reading of the
/// counter. `None` if a thread panicked.
fn times(
    threads: usize,
    decisions: u64,
    decide: &(impl Fn() -> bool + Sync),
) -> Option<Histogram<u64>> {
    let (start, processors) = (Barrier::new(threads), machine::cores());
    let each = |thread: usize| {
        bind(thread % processors);
        let (clock, mut times) = (quanta::Clock::new(), histogram());
        start.wait();
        for _ in 0..decisions {
            let begun = clock.raw();
            assert!(decide(), "permits for all requests");
            times.saturating_record(clock.delta_as_nanos(begun, clock.raw()));
        }
        times
    };
    let (each, mut all) = (&each, histogram());
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || each(thread))).collect();
        for thread in running {
            all.add(thread.join().ok()?).ok()?;
        }
        Some(all)
    })
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits")
}
