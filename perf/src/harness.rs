//! Takes the samples: every case once in each round, so that what disturbs the machine for a while
//! disturbs all of them, and the median of the rounds is each one's cost.

use std::hint::black_box;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::results::{Cost, Key, Results};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How often every case is measured.
    pub(crate) rounds: usize,
    /// For how long, each time.
    pub(crate) sample: Duration,
}

/// What the threads of one sample took for so many operations, in the mean.
#[derive(Clone, Copy, Debug)]
struct Taken {
    wall: Duration,
    /// Only the time on a core.
    core: Duration,
}

/// Runs so many operations on each thread, numbered from the first; `None` if a thread panicked.
type Run = Box<dyn Fn(u64, u64) -> Option<Taken>>;

struct Case {
    key: Key,
    run: Run,
    iters: u64,
    next: AtomicU64,
    /// Of each round the cost, and the share of the time that the threads were on a core.
    samples: Vec<(f64, f64)>,
    lost: usize,
}

/// All the cases of a run.
pub(crate) struct Suite {
    cores: usize,
    cases: Vec<Case>,
}

impl Suite {
    pub(crate) const fn new(cores: usize) -> Self {
        Self { cores, cases: Vec::new() }
    }

    /// Measures `op` on so many threads at once. It gets a number that is never the same twice on
    /// one thread.
    pub(crate) fn add<R>(
        &mut self,
        name: &str,
        threads: usize,
        op: impl Fn(u64) -> R + Sync + 'static,
    ) {
        let run = move |iters, first| on_threads(threads, iters, first, &op);
        self.push(Key::new(name, threads), Box::new(run));
    }

    /// Measures `op` on one thread, beside another that does `other` all the time.
    pub(crate) fn add_beside<R, S>(
        &mut self,
        name: &str,
        op: impl Fn(u64) -> R + Sync + 'static,
        other: impl Fn() -> S + Sync + 'static,
    ) {
        let run = move |iters, first| beside(&other, || on_threads(1, iters, first, &op));
        self.push(Key::new(name, 1), Box::new(run));
    }

    fn push(&mut self, key: Key, run: Run) {
        let (iters, next) = (0, AtomicU64::new(0));
        self.cases.push(Case { key, run, iters, next, samples: Vec::new(), lost: 0 });
    }

    /// Leaves out the cases that do not have `text` in their name.
    pub(crate) fn keep(&mut self, text: &str) {
        self.cases.retain(|case| case.key.name.contains(text));
    }

    /// Measures every case in every round, forwards and backwards in turn. `between` comes after
    /// each round.
    pub(crate) fn measure(mut self, plan: Plan, mut between: impl FnMut(usize)) -> Results {
        for case in &mut self.cases {
            case.calibrate(plan.sample, self.cores);
        }
        for round in 0..plan.rounds {
            let cases = self.cases.iter_mut();
            if round % 2 == 0 {
                cases.for_each(|case| case.sample(self.cores));
            } else {
                cases.rev().for_each(|case| case.sample(self.cores));
            }
            between(round);
        }
        self.cases.into_iter().map(|case| (case.key, Cost::of(&case.samples, case.lost))).collect()
    }
}

impl Case {
    /// Finds how many operations make a sample, which warms everything up as well.
    fn calibrate(&mut self, sample: Duration, cores: usize) {
        let crowd = self.key.threads.max(cores) as f64 / cores as f64;
        let target = sample.as_secs_f64() * 1e9 / crowd;
        self.iters = 1_000;
        let mut cheapest = f64::MAX;
        for _ in 0..8 {
            // A disturbed sample is dearer, never cheaper.
            cheapest = self.once(cores).map_or(cheapest, |(nanos, _)| nanos.min(cheapest));
            let iters = target / cheapest;
            self.iters = (iters as u64).clamp(100, 16 * self.iters);
        }
    }

    fn sample(&mut self, cores: usize) {
        match self.once(cores) {
            Some(sample) => self.samples.push(sample),
            None => self.lost += 1,
        }
    }

    /// Nanoseconds for one operation, and the share of the time that the threads were on a core.
    fn once(&self, cores: usize) -> Option<(f64, f64)> {
        let first = self.next.fetch_add(self.iters + warm_up(self.iters), Ordering::Relaxed);
        let taken = (self.run)(self.iters, first)?;
        // Where threads have to wait for a core, their waiting is no cost of the operation.
        let time = if self.key.threads > cores { taken.core } else { taken.wall };
        let on_core = taken.core.as_secs_f64() / taken.wall.as_secs_f64();
        Some((time.as_secs_f64() * 1e9 / self.iters as f64, on_core))
    }
}

/// How often a thread does it before the start: it is a new one, and has nothing in its caches. Of
/// a thousand windows, each twice.
const fn warm_up(iters: u64) -> u64 {
    2_500 + iters / 50
}

/// Each time runs from the common start to that thread's last operation.
fn on_threads<R>(
    threads: usize,
    iters: u64,
    first: u64,
    op: &(impl Fn(u64) -> R + Sync),
) -> Option<Taken> {
    let start = Barrier::new(threads);
    let run = || {
        let warm = first + warm_up(iters);
        // Who panics here must not keep the others waiting.
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
fn beside<R, S>(other: &(impl Fn() -> S + Sync), work: impl FnOnce() -> R) -> R {
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
