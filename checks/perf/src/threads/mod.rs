//! Measures how the costs of a request change from one thread to many: recording, finding a
//! resource, middleware, a hot key, and reads beside threads that record.
//!
//! Each thread is bound to a processor of its own. There are cases with 1, 2, 4, 8 and 16 threads,
//! as far as the machine has processors. The baseline of each cost is the same cost on one thread;
//! a counter that all threads share shows what a machine makes of a line that all of them write.
//! On more than two processors, hardly a sample is undisturbed, so a cost is the 10th percentile of
//! the samples.

mod cases;
mod hot_key;
mod reads;
mod requests;

use std::error::Error;
use std::time::Instant;

use leaparray::MonotonicClock;

use crate::MAX_WAIT;
use crate::goals::{self, Row, Unit};
use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::{Report, Run};
use crate::scenarios::crowd::Crowd;

/// The crates whose versions belong to the results.
const CRATES: &str = "leaparray leaparray-tower axum governor prometheus quanta tower-http";

/// The numbers of threads, as far as the machine has processors.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// Runs the measurements on one thread to many, and prints and writes the results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the results
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("threads")?;
    let run = measure(options.plan);
    eprintln!("measuring the times of decisions");
    let quantiles = hot_key::quantiles(run.cores);
    let rows = [cases::rows(), requests::rows(), reads::rows(), hot_key::rows()].concat();
    let mut values = goals::values(&run.results, &rows);
    values.extend(requests::added(&run.results));
    values.extend(quantiles);
    options.publish(Report::new("threads", run, values, CRATES), None)
}

fn measure(plan: Plan) -> Run {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::for_all_cores(cores, MAX_WAIT * plan.rounds as u32);
    let (mut suite, clock) = (Suite::new(cores), MonotonicClock::new());
    for threads in THREADS.into_iter().filter(|&threads| threads <= cores) {
        cases::add(&mut suite, &clock, threads);
        requests::add(&mut suite, threads);
        reads::add(&mut suite, &clock, threads);
        hot_key::add(&mut suite, threads);
    }
    let results = suite.measure(plan, &mut quiet, |round| {
        if (round + 1) % 10 == 0 {
            eprintln!("round {}, {:.0?}", round + 1, start.elapsed());
        }
    });
    let (processor, samples) = (Processor::current(), quiet.samples);
    Run { plan, processor, cores, results, elapsed: start.elapsed(), samples }
}

/// Returns the rows of a case: its cost on each number of threads, and how often that on one
/// thread this is, at most `at_most`.
fn rows_of(case: &str, at_most: Option<f64>) -> Vec<Row> {
    let mut rows: Vec<_> = THREADS.map(|threads| Row::baseline(case, threads)).into();
    rows.extend(
        THREADS[1..]
            .iter()
            .map(|&threads| Row::new(case, Crowd::of(threads), Unit::RatioToOneThread, at_most)),
    );
    rows
}
