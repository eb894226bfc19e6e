//! The cost of a read of a window, without a writer and beside one thread that records in the
//! window all the time.
//!
//! Measured are the sum, the rate, the mean response time and the ledger of a window of 2 × 500 ms;
//! the sum of a view of 2 × 500 ms over an array of 120 buckets; and the sum and the ledger of
//! all 120. The caller passes the time, except to `qps`, which reads the precise or the cached
//! clock. For comparison: one `ArcSwapOption::load`, which a read would need for each bucket if
//! buckets were behind such pointers.
//!
//! The writer records requests without a pause, all in the newest bucket. For the cache line that
//! the reader needs, this is the worst case. Where the time is passed, there is no rollover.
//!
//! ```console
//! $ cargo bench --bench read
//! ```

mod common;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use criterion::{BenchmarkId, Criterion};
use leaparray::MetricEvent::Pass;
use leaparray::time::CachedClock;
use leaparray::{Clock, MonotonicClock, SlidingWindow, Timestamp};

use common::Group;

const NOW: Timestamp = Timestamp::from_secs(1_540_629_300);
const RT: Duration = Duration::from_micros(250);

/// Records one request, at `NOW`.
fn request_at_now(window: &SlidingWindow) {
    window.add_at(NOW, Pass, 1);
    window.record_success_at(NOW, RT);
}

/// Records one request, at the time of the window's clock.
fn request(window: &SlidingWindow<impl Clock>) {
    window.add(Pass, 1);
    window.record_success(RT);
}

/// A window with counts in every bucket at `NOW`.
fn filled(sample_count: u32) -> SlidingWindow {
    let window = common::window(sample_count);
    for age in (0..sample_count).rev() {
        let then = NOW.saturating_sub(common::BUCKET_LEN * age);
        window.add_at(then, Pass, 1);
        window.record_success_at(then, RT);
    }
    window
}

/// Stops the writer when the reader ends or panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` beside a thread that calls `write` all the time.
fn beside_writer<R>(write: impl Fn() + Sync, work: impl FnOnce() -> R) -> R {
    let (stop, started) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            started.wait();
            while !stop.load(Ordering::Relaxed) {
                write();
            }
        });
        started.wait();
        let _stop = StopOnDrop(&stop);
        work()
    })
}

fn row<R>(group: &mut Group<'_>, name: &str, write: impl Fn() + Sync, read: impl Fn() -> R + Sync) {
    let reads = |iters| common::on_threads(1, iters, |_| read());
    group.bench_function(BenchmarkId::new(name, "idle"), |bencher| {
        bencher.iter_custom(|iters| {
            // After a second without a record, a window that reads the clock would be empty.
            write();
            reads(iters)
        });
    });
    group.bench_function(BenchmarkId::new(name, "one writer"), |bencher| {
        bencher.iter_custom(|iters| beside_writer(&write, || reads(iters)));
    });
}

fn one_second(group: &mut Group<'_>) {
    let window = filled(2);
    let write = || request_at_now(&window);
    row(group, "sum_at", write, || window.at(black_box(NOW)).sum(Pass));
    row(group, "qps_at", write, || window.at(black_box(NOW)).qps(Pass));
    row(group, "avg_rt_at", write, || window.at(black_box(NOW)).totals().avg_rt());
    row(group, "ledger_at", write, || window.at(black_box(NOW)).ledger());

    let live = common::window(2);
    row(group, "qps, precise", || request(&live), || live.now().qps(Pass));
    let clock = CachedClock::start(MonotonicClock::new(), Duration::from_millis(1))
        .expect("a thread starts");
    let live = SlidingWindow::with_clock(*common::window(2).config(), clock);
    row(group, "qps, cached", || request(&live), || live.now().qps(Pass));
}

fn one_minute(group: &mut Group<'_>) {
    let minute = filled(120);
    let second = minute.view(*common::window(2).config()).expect("two buckets of 120");
    let write = || request_at_now(&minute);
    row(group, "sum_at, view of 2 in 120", write, || second.at(black_box(NOW)).sum(Pass));
    row(group, "sum_at, 120", write, || minute.at(black_box(NOW)).sum(Pass));
    row(group, "ledger_at, 120", write, || minute.at(black_box(NOW)).ledger());
}

fn to_compare_with(group: &mut Group<'_>) {
    // The writer records in another window: any cost to the reader comes from the machine.
    let elsewhere = filled(2);
    let slot = ArcSwapOption::new(Some(Arc::new(0_u64)));
    row(group, "ArcSwapOption::load", || request_at_now(&elsewhere), || slot.load());
}

fn read(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "read");
    to_compare_with(&mut group);
    one_second(&mut group);
    one_minute(&mut group);
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    read(&mut criterion);
    criterion.final_summary();
}
