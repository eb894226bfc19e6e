//! Times each thread's first record in a bucket, one by one. The time advances by one bucket of a
//! millisecond with every operation.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_utils::Backoff;
use leaparray::MetricEvent::Pass;
use leaparray::{MonotonicClock, SlidingWindow, Timestamp};

use super::config;
use super::crowd::Crowd;
use crate::goals::{Row, Unit};
use crate::harness::Suite;
use crate::results::quantile;

/// The cost in a round is the median of the records. It includes one counter read.
const FIRST: &str = "first record of a thread in a bucket, median";

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    for threads in [1, 2] {
        let window = SlidingWindow::with_clock(config(10, Duration::from_millis(1)), clock.clone());
        let quanta = quanta::Clock::new();
        suite.add_run(FIRST, Crowd::of(threads), threads, move |iters, first| {
            median(&window, &quanta, threads, first..first + iters)
        });
    }
}

pub(crate) fn rows() -> Vec<Row> {
    let row = |threads| Row::new(FIRST, Crowd::of(threads), Unit::Nanos, 300.0);
    [1, 2].map(row).into()
}

/// Returns the median duration of the records in nanoseconds. The threads meet before each bucket,
/// so no record is late.
fn median(
    window: &SlidingWindow,
    quanta: &quanta::Clock,
    threads: usize,
    buckets: Range<u64>,
) -> Option<f64> {
    let arrivals = AtomicU64::new(0);
    let run = || {
        let mut nanos = Vec::new();
        for (bucket, meeting) in buckets.clone().zip(1..) {
            meet(&arrivals, meeting * threads as u64);
            let now = Timestamp::from_millis(bucket);
            let before = quanta.raw();
            window.add_at(black_box(now), Pass, black_box(1));
            let after = quanta.raw();
            nanos.push(quanta.delta_as_nanos(before, after) as f64);
        }
        nanos
    };
    let nanos: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().ok()).collect()
    });
    let mut nanos = nanos.into_iter().collect::<Option<Vec<_>>>()?.concat();
    nanos.sort_by(f64::total_cmp);
    Some(quantile(0.5, &nanos))
}

/// Counts an arrival, and waits until there are `all` of them.
fn meet(arrivals: &AtomicU64, all: u64) {
    let backoff = Backoff::new();
    let mut arrived = arrivals.fetch_add(1, Ordering::Relaxed) + 1;
    while arrived < all {
        backoff.snooze();
        arrived = arrivals.load(Ordering::Relaxed);
    }
}
