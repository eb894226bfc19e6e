//! Takes the samples: every case once in each round, at a moment at which the machine is quiet. The median
//! of the rounds is each one's cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::quiet::Quiet;
use crate::results::{Cost, Key, Results};
use crate::timed::{Taken, beside, on_threads, warm_up};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How often every case is measured.
    pub(crate) rounds: usize,
    /// For how long, each time.
    pub(crate) sample: Duration,
}

/// Runs so many operations on each thread, numbered from the first; `None` if a thread panicked.
type Run = Box<dyn Fn(u64, u64) -> Option<Taken>>;

struct Case {
    key: Key,
    run: Run,
    iters: u64,
    next: AtomicU64,
    /// The cost in each round.
    samples: Vec<f64>,
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
    pub(crate) fn measure(
        mut self,
        plan: Plan,
        quiet: &mut Quiet,
        mut between: impl FnMut(usize, &mut Quiet),
    ) -> Results {
        for case in &mut self.cases {
            case.calibrate(plan.sample, self.cores);
        }
        for round in 0..plan.rounds {
            let cases = self.cases.iter_mut();
            if round % 2 == 0 {
                cases.for_each(|case| case.sample(self.cores, quiet));
            } else {
                cases.rev().for_each(|case| case.sample(self.cores, quiet));
            }
            between(round, quiet);
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
            cheapest = self.once(cores).map_or(cheapest, |nanos| nanos.min(cheapest));
            let iters = target / cheapest;
            self.iters = (iters as u64).clamp(100, 16 * self.iters);
        }
    }

    fn sample(&mut self, cores: usize, quiet: &mut Quiet) {
        match quiet.sample(|| self.once(cores)) {
            Some(Some(nanos)) => self.samples.push(nanos),
            Some(None) => self.lost += 1,
            // No moment was quiet, which `quiet` counts.
            None => {}
        }
    }

    /// Nanoseconds for one operation.
    fn once(&self, cores: usize) -> Option<f64> {
        let first = self.next.fetch_add(self.iters + warm_up(self.iters), Ordering::Relaxed);
        let taken = (self.run)(self.iters, first)?;
        // Where threads have to wait for a core, their waiting is no cost of the operation.
        let time = if self.key.threads > cores { taken.core } else { taken.wall };
        Some(time.as_secs_f64() * 1e9 / self.iters as f64)
    }
}
