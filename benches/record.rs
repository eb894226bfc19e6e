//! The cost of recording one event, on 1, 2 and 4 threads that share one window of 2 × 500 ms.
//!
//! Measured are `add_at` and `record_success_at`, to which the caller passes the time, `add` and
//! `record_success` with the precise clock, and `add` with a [`CachedClock`] that is refreshed
//! every millisecond. For comparison, in the same process: the raw counter of `quanta`, the clocks
//! alone, `Instant::now`, a `fetch_add` on one shared counter, and an `ArcSwapOption::load`.
//!
//! The last part of each name is the number of threads. The time is for one operation on one
//! thread, while the other threads do the same. With more threads than cores, it includes waiting
//! for a core: 4 threads on 2 cores take twice the time for the same number of operations per
//! second.
//!
//! The group `request` measures requests of a `ResourceNode` that end on the thread on which they
//! entered, and others that end on another thread, beside idle threads that have used the node.
//!
//! ```console
//! $ cargo bench --bench record
//! ```

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use criterion::{BenchmarkId, Criterion};
use crossbeam_utils::CachePadded;
use leaparray::MetricEvent::Pass;
use leaparray::time::CachedClock;
use leaparray::{Clock, Entry, MonotonicClock, NodeConfig, ResourceNode, SlidingWindow, Timestamp};

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
        .expect("a thread starts");
    let window = SlidingWindow::with_clock(*common::window(2).config(), clock);
    row(group, "add, cached", threads, || window.add(Pass, black_box(1)));
    row(group, "CachedClock::now", threads, || window.clock().now());
}

fn to_compare_with(group: &mut Group<'_>, threads: u32) {
    let quanta = quanta::Clock::new();
    row(group, "quanta raw", threads, || quanta.raw());
    row(group, "Instant::now", threads, Instant::now);

    // Padded, so that it shares its cache line with nothing else, like the counters of a window.
    let counter = CachePadded::new(AtomicI64::new(0));
    row(group, "fetch_add", threads, || counter.fetch_add(black_box(1), Ordering::Relaxed));
    let slot = ArcSwapOption::new(Some(Arc::new(0_u64)));
    row(group, "ArcSwapOption::load", threads, || slot.load());
}

/// Requests that enter on this thread, and end on this one or on another one, beside idle threads
/// that have used the node. One operation is a request; the threads take turns.
fn requests(criterion: &mut Criterion) {
    let mut group = common::group(criterion, "request");
    for idle in [0, 7, 127, 511] {
        let node = Arc::new(ResourceNode::new(NodeConfig::default()));
        let _idle: Vec<_> = (0..idle).map(|_| idle_thread(&node)).collect();
        for (name, ends_elsewhere) in [("ends here", false), ("ends elsewhere", true)] {
            group.bench_function(BenchmarkId::new(name, format!("{idle} idle")), |bencher| {
                bencher.iter_custom(|iters| time_requests(&node, iters, ends_elsewhere));
            });
        }
    }
    group.finish();
}

/// Starts a thread that uses the node once and then lives until the sender is dropped.
fn idle_thread(node: &Arc<ResourceNode>) -> Sender<()> {
    let node = Arc::clone(node);
    let (entered, has_entered) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    thread::spawn(move || {
        node.enter().success();
        entered.send(()).expect("the bench waits");
        let _ = ended.recv();
    });
    has_entered.recv().expect("the thread enters");
    end
}

/// Returns the time that the requests take on the thread on which they enter and on the thread on
/// which they end.
///
/// The requests are handed to another thread in batches of 64. That thread ends them, or moves them
/// elsewhere in memory and hands them back. So in both cases the threads wait equally long, and the
/// thread that ends a request fetches it from the cache of the other thread.
fn time_requests(node: &ResourceNode, iters: u64, ends_elsewhere: bool) -> Duration {
    type Batch<'a> = Vec<Entry<&'a ResourceNode>>;
    fn end(batch: Batch<'_>) -> Duration {
        let started = Instant::now();
        batch.into_iter().for_each(Entry::success);
        started.elapsed()
    }
    fn moved(batch: Batch<'_>) -> Batch<'_> {
        let mut moved = Vec::with_capacity(batch.len());
        for entry in batch {
            moved.push(black_box(entry));
        }
        moved
    }
    let (sender, receiver) = mpsc::channel::<Batch<'_>>();
    let (sender_back, receiver_back) = mpsc::channel::<(Batch<'_>, Duration)>();
    thread::scope(|scope| {
        scope.spawn(move || {
            for batch in receiver {
                let back = if ends_elsewhere {
                    (Vec::new(), end(batch))
                } else {
                    (moved(batch), Duration::ZERO)
                };
                sender_back.send(back).expect("the bench waits");
            }
        });
        let (mut taken, mut left) = (Duration::ZERO, iters);
        while left > 0 {
            let count = left.min(64);
            left -= count;
            let started = Instant::now();
            let batch = (0..count).map(|_| node.enter()).collect();
            taken += started.elapsed();
            sender.send(batch).expect("the thread waits");
            let (batch, taken_elsewhere) = receiver_back.recv().expect("the thread answers");
            taken += taken_elsewhere + end(batch);
        }
        drop(sender);
        taken
    })
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
    requests(&mut criterion);
    criterion.final_summary();
}
