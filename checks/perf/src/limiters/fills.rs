//! Limiters from empty to full.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use leaparray::flow::LimiterExt;
use leaparray::{Clock, MonotonicClock};

use super::one_word::OneWord;
use super::sliding;
use crate::goals::Row;
use crate::harness::Suite;
use crate::scenarios::crowd::Crowd;
use crate::timed::bind;

const LIMITS: [u64; 7] = [10, 30, 64, 100, 300, 1_000, 10_000];
const THREADS: [usize; 2] = [2, 8];

fn case(limiter: &str, limit: u64) -> String {
    format!("{limiter}, limit {limit}")
}

const WORD: &str = "one word";
const SLIDING: &str = "`SlidingWindowLimiter`";

pub(super) fn rows() -> Vec<Row> {
    let pairs = THREADS.into_iter().flat_map(|threads| LIMITS.map(|limit| (threads, limit)));
    let rows = pairs.flat_map(|(threads, limit)| {
        let [word, limiter] = [WORD, SLIDING].map(|it| case(it, limit));
        let goal = (limit >= 1_000).then_some(0.3);
        [Row::baseline(&word, threads), Row::ratio(limiter, threads, word, goal)]
    });
    rows.collect()
}

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock, cores: usize) {
    let now = clock.now();
    for threads in THREADS.into_iter().filter(|&threads| threads <= cores) {
        for limit in LIMITS {
            let make = move || OneWord::new(limit, now);
            let take = move |word: &OneWord| word.try_acquire_at(black_box(now));
            add_fill(suite, WORD, threads, limit, make, take);
            let clock = clock.clone();
            let make = move || {
                let limiter = sliding(Some(limit), &clock);
                // Opens the bucket, and takes no permit.
                assert!(limiter.try_acquire_at(now, limit + 1).is_refused());
                limiter
            };
            add_fill(suite, SLIDING, threads, limit, make, move |limiter| {
                limiter.try_acquire_at(black_box(now), 1).is_admitted()
            });
        }
    }
}

/// Adds a case in which threads take all permits of limiters, one limiter after the other. The
/// operation is one permit of all threads together.
fn add_fill<L: Sync>(
    suite: &mut Suite,
    limiter: &str,
    threads: usize,
    limit: u64,
    make: impl Fn() -> L + 'static,
    take: impl Fn(&L) -> bool + Sync + 'static,
) {
    suite.add_run(&case(limiter, limit), Crowd::of(threads), threads, move |permits, _| {
        let limiters: Vec<_> =
            (0..permits.div_ceil(limit)).map(|_| CachePadded::new(make())).collect();
        Some(fill(threads, limit, &limiters, &take))
    });
}

/// Returns nanoseconds for a permit: the time of the thread that took longest, divided by the
/// permits of all threads.
fn fill<L: Sync>(
    threads: usize,
    limit: u64,
    limiters: &[CachePadded<L>],
    take: &(impl Fn(&L) -> bool + Sync),
) -> f64 {
    let barrier = SpinBarrier::default();
    let act = |thread| {
        bind(thread);
        let (mut time, mut taken) = (Duration::ZERO, 0);
        for limiter in limiters {
            barrier.wait(threads);
            let start = Instant::now();
            taken += (0..=limit).take_while(|_| take(limiter)).count() as u64;
            time += start.elapsed();
        }
        (time, taken)
    };
    let fills: Vec<_> = thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || act(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("no decision panics")).collect()
    });
    let permits = limit * limiters.len() as u64;
    assert_eq!(fills.iter().map(|fill| fill.1).sum::<u64>(), permits, "the limit, exactly");
    let longest = fills.iter().map(|fill| fill.0).max().unwrap_or_default();
    longest.as_secs_f64() * 1e9 / permits as f64
}

/// A barrier at which threads spin: they leave it at the same time, and a limiter is full before a
/// thread that sleeps would have woken.
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
