//! Runs an operation on threads, and times it.

use std::hint::black_box;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What the threads of one sample took for so many operations, in the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) wall: Duration,
    /// Only the time on a core.
    pub(crate) core: Duration,
}

/// The number of operations that warm up each new thread: enough to visit 1,000 windows twice.
pub(crate) const fn warm_up(iters: u64) -> u64 {
    2_500 + iters / 50
}

/// Does `op` so many times on each thread, after a warm-up; `None` if a thread panicked. `op` gets numbers
/// from `first` on.
///
/// Each time runs from the common start to that thread's last operation.
pub(crate) fn on_threads<R>(
    threads: usize,
    iters: u64,
    first: u64,
    op: &(impl Fn(u64) -> R + Sync),
) -> Option<Taken> {
    let start = Barrier::new(threads);
    let run = || {
        let warm = first + warm_up(iters);
        // A panic must not leave the other threads at the barrier.
        let warmed = panic::catch_unwind(AssertUnwindSafe(|| repeat(first..warm, op)));
        start.wait();
        warmed.ok()?;
        let (wall, core) = (Instant::now(), core_time());
        repeat(warm..warm + iters, op);
        let wall = wall.elapsed();
        Some(Taken { wall, core: core_time().saturating_sub(core) })
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let taken: Vec<_> =
            running.into_iter().map(|thread| thread.join().ok().flatten()).collect();
        mean(&taken.into_iter().collect::<Option<Vec<_>>>()?)
    })
}

#[inline]
fn repeat<R>(numbers: std::ops::Range<u64>, op: &impl Fn(u64) -> R) {
    for number in numbers {
        black_box(op(number));
    }
}

fn mean(taken: &[Taken]) -> Option<Taken> {
    let threads = u32::try_from(taken.len()).ok()?;
    let wall = taken.iter().map(|taken| taken.wall).sum::<Duration>() / threads;
    let core = taken.iter().map(|taken| taken.core).sum::<Duration>() / threads;
    Some(Taken { wall, core })
}

/// Does `work` beside a thread that does `other` all the time.
pub(crate) fn beside<R, S>(other: &(impl Fn() -> S + Sync), work: impl FnOnce() -> R) -> R {
    let (stop, started) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            started.wait();
            while !stop.load(Ordering::Relaxed) {
                repeat(0..64, &|_| other());
            }
        });
        started.wait();
        let result = work();
        stop.store(true, Ordering::Relaxed);
        // A neighbour that panicked has said so.
        let _ = neighbour.join();
        result
    })
}

/// For how long this thread has been on a core.
fn core_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
