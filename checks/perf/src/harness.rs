//! Takes the samples. Each round measures every case once, while the machine is quiet. The cost of
//! a case is the median of the rounds.

use std::time::Duration;

use crate::quiet::Quiet;
use crate::results::{Cost, Results};
use crate::scenarios::crowd::Crowd;
use crate::timed::{on_processors, on_threads, warm_up};

/// The number of rounds, and the length of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The number of samples of each case.
    pub(crate) rounds: usize,
    pub(crate) sample: Duration,
}

/// Takes a sample. The arguments are the count of operations on each thread and the number of the
/// first one. Returns nanoseconds for one operation, or `None` if a thread panicked.
type Run = Box<dyn Fn(u64, u64) -> Option<f64>>;

struct Case {
    key: (String, Crowd),
    /// The number of threads that run the operation.
    threads: usize,
    run: Run,
    iters: u64,
    /// The number of the next operation.
    next: u64,
    /// The cost in each round in which the sample counted.
    samples: Vec<f64>,
    lost: usize,
}

/// The cases of a run.
pub(crate) struct Suite {
    cores: usize,
    cases: Vec<Case>,
}

impl Suite {
    pub(crate) const fn new(cores: usize) -> Self {
        Self { cores, cases: Vec::new() }
    }

    /// Adds a case that runs `op` on `threads` threads at once. No thread of the case passes the
    /// same number to `op` twice.
    pub(crate) fn add<R>(
        &mut self,
        name: &str,
        threads: usize,
        op: impl Fn(u64) -> R + Sync + 'static,
    ) {
        // With more threads than cores, the wait for a core is not part of the operation's cost.
        let waits_for_core = threads > self.cores;
        self.add_run(name, Crowd::of(threads), threads, move |iters, first| {
            let elapsed = on_threads(threads, iters, first, &op)?;
            Some(if waits_for_core { elapsed.core } else { elapsed.wall })
        });
    }

    /// Adds a case that runs `op` on `threads` threads at once, each bound to a processor. `op`
    /// gets the number of the thread and the number of the operation.
    pub(crate) fn add_bound<R>(
        &mut self,
        name: &str,
        threads: usize,
        op: impl Fn(usize, u64) -> R + Sync + 'static,
    ) {
        self.add_run(name, Crowd::of(threads), threads, move |iters, first| {
            on_processors(threads, iters, first, &op)
        });
    }

    /// Adds a case that runs an operation on `threads` threads at once. `make` makes the operation
    /// before each sample.
    pub(crate) fn add_made<R, Op: Fn(u64) -> R + Sync>(
        &mut self,
        name: &str,
        threads: usize,
        make: impl Fn() -> Op + 'static,
    ) {
        let waits_for_core = threads > self.cores;
        self.add_run(name, Crowd::of(threads), threads, move |iters, first| {
            let elapsed = on_threads(threads, iters, first, &make())?;
            Some(if waits_for_core { elapsed.core } else { elapsed.wall })
        });
    }

    /// Adds a case that runs `op` on one thread. The threads of the crowd have used the same
    /// window.
    pub(crate) fn add_with_crowd<R>(
        &mut self,
        name: &str,
        crowd: Crowd,
        op: impl Fn(u64) -> R + Sync + 'static,
    ) {
        self.add_run(name, crowd, 1, move |iters, first| {
            on_threads(1, iters, first, &op).map(|elapsed| elapsed.wall)
        });
    }

    /// Adds a case that `run` samples on `threads` threads.
    pub(crate) fn add_run(
        &mut self,
        name: &str,
        crowd: Crowd,
        threads: usize,
        run: impl Fn(u64, u64) -> Option<f64> + 'static,
    ) {
        let (key, run) = ((name.to_owned(), crowd), Box::new(run));
        let (samples, lost) = (Vec::new(), 0);
        self.cases.push(Case { key, threads, run, iters: 1_000, next: 0, samples, lost });
    }

    /// Measures every case in every round, and in reverse order in every other round. Calls
    /// `between` after each round.
    pub(crate) fn measure(
        mut self,
        plan: Plan,
        quiet: &mut Quiet,
        between: impl Fn(usize),
    ) -> Results {
        for case in &mut self.cases {
            case.calibrate(plan.sample, self.cores);
        }
        for round in 0..plan.rounds {
            self.cases.iter_mut().for_each(|case| case.sample(quiet));
            self.cases.reverse();
            between(round);
        }
        let cost = if quiet.is_checked() { Cost::of } else { Cost::of_quiet_tenth };
        let cases = self.cases.into_iter();
        Results(cases.map(|case| (case.key, cost(case.samples, case.lost))).collect())
    }
}

impl Case {
    /// Finds the number of operations in a sample. The runs also warm up the case.
    fn calibrate(&mut self, sample: Duration, cores: usize) {
        let threads_per_core = self.threads.max(cores) as f64 / cores as f64;
        let target = sample.as_secs_f64() * 1e9 / threads_per_core;
        let mut cheapest = f64::MAX;
        for _ in 0..8 {
            // A disturbance makes a sample longer, never shorter.
            cheapest = self.run_once().map_or(cheapest, |nanos| nanos.min(cheapest));
            self.iters = ((target / cheapest) as u64).clamp(100, 16 * self.iters);
        }
    }

    fn sample(&mut self, quiet: &mut Quiet) {
        match quiet.sample(|| self.run_once()) {
            Some(Some(nanos)) => self.samples.push(nanos),
            Some(None) => self.lost += 1,
            // The machine was not quiet. `quiet` has counted the missing sample.
            None => {}
        }
    }

    fn run_once(&mut self) -> Option<f64> {
        let first = self.next;
        self.next += self.iters + warm_up(self.iters);
        (self.run)(self.iters, first)
    }
}
