//! The cost of a rollover: every operation is the first of its thread in its bucket, so it seals
//! the thread's cell into the window's history and binds the cell to the new bucket.
//!
//! Measured is `add_at` with a time that advances by one bucket with each operation, with 2 and
//! with 120 buckets: on one thread, and on two threads that meet before every operation and then
//! record in the same new bucket, so that both cross each rollover. The same is measured for
//! `LeapArray<MetricBucket>`, where the threads share the counters of a bucket, and a rollover
//! replaces the stale wrap. For comparison: an `add_at` without a rollover, a fresh bucket that is
//! allocated and stored in an `ArcSwapOption`, and, for two threads, the meeting alone.
//!
//! The last part of each name is the number of threads. Two threads need two idle cores: if they
//! share one core, the duration of a meeting depends on the scheduler.
//!
//! ```console
//! $ cargo bench --bench rotate
//! ```

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use criterion::{BenchmarkId, Criterion};
use crossbeam_utils::{Backoff, CachePadded};
use leaparray::MetricEvent::Pass;
use leaparray::Timestamp;
use leaparray::array::LeapArray;
use leaparray::metric::MetricBucket;

use common::Group;

/// A barrier at which all threads of a bench meet in each round. They spin at first, and later
/// yield.
struct Meeting {
    threads: u32,
    arrivals: CachePadded<AtomicU64>,
}

impl Meeting {
    fn new(threads: u32) -> Self {
        Self { threads, arrivals: CachePadded::default() }
    }

    /// Returns once every thread has come to `round`. Rounds are counted from 0, and none may be
    /// skipped.
    fn meet(&self, round: u64) {
        let all = (round + 1) * u64::from(self.threads);
        let backoff = Backoff::new();
        let mut arrived = self.arrivals.fetch_add(1, Ordering::Relaxed) + 1;
        while arrived < all {
            backoff.snooze();
            arrived = self.arrivals.load(Ordering::Relaxed);
        }
    }
}

/// Measures `op`, which gets the number of the round. No thread gets a number twice.
fn row<R>(group: &mut Group<'_>, name: &str, threads: u32, op: impl Fn(u64) -> R + Sync) {
    let mut rounds = 0;
    group.bench_function(BenchmarkId::new(name, threads), |bencher| {
        bencher.iter_custom(|iters| {
            let first = rounds;
            rounds += iters;
            common::on_threads(threads, iters, |i| op(first + i))
        });
    });
}

fn start_of(round: u64) -> Timestamp {
    // The end of time is 3.7 · 10¹⁰ rounds away, which takes hours.
    Timestamp::from_millis(round * 500)
}

fn one_thread(group: &mut Group<'_>) {
    let fixed = common::window(2);
    row(group, "no rollover", 1, |_| fixed.add_at(black_box(Timestamp::MIN), Pass, black_box(1)));
    let slot = ArcSwapOption::empty();
    row(group, "bare store", 1, |_| slot.store(Some(Arc::new(MetricBucket::default()))));

    for samples in [2, 120] {
        let window = common::window(samples);
        row(group, &format!("rollover, {samples}"), 1, |round| {
            window.add_at(start_of(round), Pass, black_box(1));
        });
        let array = LeapArray::<MetricBucket>::new(*window.config());
        row(group, &format!("LeapArray rollover, {samples}"), 1, |round| {
            array.current_bucket(start_of(round)).add(Pass, black_box(1));
        });
    }
}

fn two_threads(group: &mut Group<'_>) {
    let meeting = Meeting::new(2);
    row(group, "meeting alone", 2, |round| meeting.meet(round));

    for samples in [2, 120] {
        let (window, meeting) = (common::window(samples), Meeting::new(2));
        row(group, &format!("rollover, {samples}"), 2, |round| {
            meeting.meet(round);
            window.add_at(start_of(round), Pass, black_box(1));
        });
        let (array, meeting) = (LeapArray::<MetricBucket>::new(*window.config()), Meeting::new(2));
        row(group, &format!("LeapArray rollover, {samples}"), 2, |round| {
            meeting.meet(round);
            array.current_bucket(start_of(round)).add(Pass, black_box(1));
        });
    }
}

fn rotate(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "rotate");
    one_thread(&mut group);
    two_threads(&mut group);
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    rotate(&mut criterion);
    criterion.final_summary();
}
