//! Helpers of the benches: the duration of a measurement, and threads that start together.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode};
use leaparray::{SlidingWindow, WindowConfig};

pub(crate) type Group<'a> = BenchmarkGroup<'a, WallTime>;

pub(crate) const BUCKET_LEN: Duration = Duration::from_millis(500);

/// A group in which all samples are equally long: most of a short sample would pass before the last
/// of its threads has woken up.
pub(crate) fn group<'a>(criterion: &'a mut Criterion, name: &str) -> Group<'a> {
    let mut group = criterion.benchmark_group(name);
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(30)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    group
}

/// A window of `sample_count` buckets of half a second.
pub(crate) fn window(sample_count: u32) -> SlidingWindow {
    let interval = BUCKET_LEN * sample_count;
    SlidingWindow::new(WindowConfig::new(sample_count as usize, interval).expect("half seconds"))
}

/// Calls `op` with the numbers `0..iters` on each of `threads` threads, and returns the mean of the
/// threads' times.
///
/// The time of a thread runs from the common start to the end of its last operation. So criterion
/// reports the time of one operation on one thread while the other threads do the same. It does not
/// include the start of the threads. If there are more threads than cores, it includes waiting for
/// a core.
pub(crate) fn on_threads<R>(threads: u32, iters: u64, op: impl Fn(u64) -> R + Sync) -> Duration {
    let release = Barrier::new(threads as usize);
    let run = || {
        release.wait();
        let start = Instant::now();
        for i in 0..iters {
            black_box(op(i));
        }
        start.elapsed()
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let times = running.into_iter().map(|thread| thread.join().expect("op does not panic"));
        times.sum::<Duration>() / threads
    })
}
