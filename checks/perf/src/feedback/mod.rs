//! Measures the circuit breaker and the adaptive limiter, beside `governor` and beside the record
//! of a success.
//!
//! A decision reads the clock. The permit of an admitted call is forgotten. A call is admitted at a
//! given time, and then ends with a success: the end reads the clock, counts the outcome and the
//! response time, and decides whether the state or the limit changes. Its baselines read the clock
//! and record a success and its response time, without and with a histogram. So each ratio includes
//! the admission. All windows have ten buckets in 10 s.

mod cases;

use std::error::Error;
use std::time::Instant;

use leaparray::MonotonicClock;

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::{Report, Run};
use crate::{MAX_WAIT, goals};

/// The crates whose versions belong to the results.
const CRATES: &str = "leaparray quanta governor";

/// Runs the measurements of the circuit breaker and the adaptive limiter, and prints and writes the
/// results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the results
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("feedback")?;
    let run = measure(options.plan);
    let values = goals::values(&run.results, &[cases::decisions(), cases::ends()].concat());
    options.publish(Report::new("feedback", run, values, CRATES), None)
}

fn measure(plan: Plan) -> Run {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    let mut suite = Suite::new(cores);
    cases::add(&mut suite, &MonotonicClock::new());
    let results = suite.measure(plan, &mut quiet, |_| {});
    let (processor, samples) = (Processor::current(), quiet.samples);
    Run { plan, processor, cores, results, elapsed: start.elapsed(), samples }
}
