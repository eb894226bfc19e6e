//! What recording one event costs, on 1, 2 and 4 threads that share one window of 2 × 500 ms.
//!
//! Measured: `add_at` and `record_success_at` with the time given, `add` and `record_success` with
//! the precise clock, and `add` with a [`CachedClock`] that is refreshed every millisecond. Beside
//! them, in the same process, what these are made of: the raw counter of `quanta`, the clocks on
//! their own, `Instant::now`, a `fetch_add` on one shared counter, and an `ArcSwapOption::load`.
//!
//! The last part of each name is the number of threads, and the time is that of one operation on
//! one thread while the others do the same. With more threads than cores, as 4 on a machine of 2,
//! it includes waiting for a core: there, at twice the time, as much is done per second.
//!
//! ```console
//! $ cargo bench --bench record
//! ```

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use criterion::{BenchmarkId, Criterion};
use crossbeam_utils::CachePadded;
use leaparray::MetricEvent::Pass;
use leaparray::{CachedClock, Clock, MonotonicClock, SlidingWindow, Timestamp};

use common::Group;

const NOW: Timestamp = Timestamp::from_secs(1_540_629_300);
const RT: Duration = Duration::from_micros(250);

fn row<R>(group: &mut Group<'_>, name: &str, threads: u32, op: impl Fn() -> R + Sync) {
    group.bench_function(BenchmarkId::new(name, threads), |bencher| {
        bencher.iter_custom(|iters| common::on_threads(threads, iters, |_| op()));
    });
}

fn time_given(group: &mut Group<'_>, threads: u32) {
    let window = common::window(2);
    row(group, "add_at", threads, || window.add_at(black_box(NOW), Pass, black_box(1)));
    row(group, "record_success_at", threads, || {
        window.record_success_at(black_box(NOW), black_box(RT));
    });
}

fn precise(group: &mut Group<'_>, threads: u32) {
    let window = common::window(2);
    row(group, "add, precise", threads, || window.add(Pass, black_box(1)));
    row(group, "record_success, precise", threads, || window.record_success(black_box(RT)));
    row(group, "MonotonicClock::now", threads, || window.clock().now());
}

fn cached(group: &mut Group<'_>, threads: u32) {
    let clock = CachedClock::start(MonotonicClock::new(), Duration::from_millis(1))
        .expect("one more thread");
    let window = SlidingWindow::with_clock(*common::window(2).config(), clock);
    row(group, "add, cached", threads, || window.add(Pass, black_box(1)));
    row(group, "CachedClock::now", threads, || window.clock().now());
}

fn to_compare_with(group: &mut Group<'_>, threads: u32) {
    let quanta = quanta::Clock::new();
    row(group, "quanta raw", threads, || quanta.raw());
    row(group, "Instant::now", threads, Instant::now);

    // Padded, so that it shares its line with nothing else, as the window's counters do not.
    let counter = CachePadded::new(AtomicI64::new(0));
    row(group, "fetch_add", threads, || counter.fetch_add(black_box(1), Ordering::Relaxed));
    let slot = ArcSwapOption::new(Some(Arc::new(0_u64)));
    row(group, "ArcSwapOption::load", threads, || slot.load());
}

fn record(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "record");
    for threads in [1, 2, 4] {
        to_compare_with(&mut group, threads);
        time_given(&mut group, threads);
        precise(&mut group, threads);
        cached(&mut group, threads);
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    record(&mut criterion);
    criterion.final_summary();
}
