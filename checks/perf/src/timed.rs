//! Runs an operation on several threads and times it.

use std::hint::black_box;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds for one operation: the mean over the threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elapsed {
    pub(crate) wall: f64,
    /// The CPU time of the thread.
    pub(crate) core: f64,
}

/// Returns the number of operations that warm up each new thread: enough to visit 1,000 windows
/// twice.
pub(crate) const fn warm_up(iters: u64) -> u64 {
    2_500 + iters / 50
}

/// Runs `op` `iters` times on each thread, after a warm-up. The numbers that `op` gets begin with
/// `first`. Returns `None` if a thread panicked.
///
/// Each thread measures the time from the common start to its own last operation.
pub(crate) fn on_threads<R>(
    threads: usize,
    iters: u64,
    first: u64,
    op: &(impl Fn(u64) -> R + Sync),
) -> Option<Elapsed> {
    on_threads_each(threads, iters, first, &|| move |number| op(number))
}

/// Does the same with an operation of each thread, which the thread makes before its warm-up.
pub(crate) fn on_threads_each<R, Op: FnMut(u64) -> R>(
    threads: usize,
    iters: u64,
    first: u64,
    make: &(impl Fn() -> Op + Sync),
) -> Option<Elapsed> {
    let start = Barrier::new(threads);
    let run = || {
        let warm = first + warm_up(iters);
        // A thread that panics still has to reach the barrier, since the other threads wait there.
        let warmed = panic::catch_unwind(AssertUnwindSafe(|| {
            let mut op = make();
            repeat(first..warm, &mut op);
            op
        }));
        start.wait();
        let mut op = warmed.ok()?;
        let (wall, core) = (Instant::now(), core_time());
        repeat(warm..warm + iters, &mut op);
        Some([wall.elapsed(), core_time().saturating_sub(core)])
    };
    let times: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    });
    let times = times.into_iter().collect::<Option<Vec<_>>>()?;
    let [wall, core] = [0, 1].map(|which| {
        let sum: Duration = times.iter().map(|time| time[which]).sum();
        sum.as_secs_f64() * 1e9 / (iters * threads as u64) as f64
    });
    Some(Elapsed { wall, core })
}

/// Does the same on threads that are bound to a processor each, so that they run at the same time.
/// `op` also gets the number of its thread. Returns nanoseconds for one operation.
pub(crate) fn on_processors<R>(
    threads: usize,
    iters: u64,
    first: u64,
    op: &(impl Fn(usize, u64) -> R + Sync),
) -> Option<f64> {
    let started = AtomicUsize::new(0);
    let make = || {
        let thread = started.fetch_add(1, Ordering::Relaxed);
        bind(thread);
        move |number| op(thread, number)
    };
    on_threads_each(threads, iters, first, &make).map(|elapsed| elapsed.wall)
}

/// Binds the calling thread to one of the processors on which it may run.
pub(crate) fn bind(thread: usize) {
    let allowed = sched_getaffinity(None).expect("a thread can ask for its processors");
    let mut processors = (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor));
    let mut own = CpuSet::new();
    own.set(processors.nth(thread).expect("at most as many threads as processors"));
    sched_setaffinity(None, &own).expect("a thread can be bound to one of its processors");
}

#[inline]
fn repeat<R>(numbers: Range<u64>, op: &mut impl FnMut(u64) -> R) {
    for number in numbers {
        black_box(op(number));
    }
}

/// Runs `work` while another thread runs `write` in a loop.
pub(crate) fn with_writer<R>(write: &(impl Fn() + Sync), work: impl FnOnce() -> R) -> R {
    let (stop, started) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            started.wait();
            while !stop.load(Ordering::Relaxed) {
                repeat(0..64, &mut |_| write());
            }
        });
        started.wait();
        let result = work();
        stop.store(true, Ordering::Relaxed);
        // If the writer panicked, the panic hook has printed the message.
        let _ = writer.join();
        result
    })
}

/// Returns the CPU time of the calling thread.
fn core_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
