//! Measures the circuit breaker and the adaptive limiter, in a run and with pages of their own.

mod cases;

use std::error::Error;
use std::time::Instant;

use leaparray::MonotonicClock;

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::method::{method, versions};
use crate::report::{Page, Run, tables};
use crate::{MAX_WAIT, goals};

/// The crates whose versions the report lists.
const CRATES: &str = "leaparray quanta governor";

/// Runs the measurements of the circuit breaker and the adaptive limiter, and prints and writes the
/// report.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the report
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("feedback")?;
    let run = measure(options.plan);
    let goals = goals::of(&run.results, [cases::decisions(), cases::ends()].concat());
    options.publish(&run, Page::Feedback, &document(&run), &goals)
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

fn document(run: &Run) -> String {
    let costs = |rows: &[_]| tables::costs(&run.results, rows);
    format!(
        include_str!("report.md"),
        processor = run.processor,
        method = method(run),
        decisions = costs(&cases::decisions()),
        ends = costs(&cases::ends()),
        lost = tables::lost(&run.results),
        versions = versions(run, CRATES),
    )
}
