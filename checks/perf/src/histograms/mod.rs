//! Measures the histograms of response times beside those of other crates, in a run and with pages
//! of their own.

mod bytes;
mod errors;
mod input;
mod peers;
mod read;
mod record;
mod report;
mod rotate;

pub(crate) use bytes::print as print_bytes;

use std::error::Error;
use std::time::Instant;

use leaparray::MonotonicClock;

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::{Page, Run};
use crate::{MAX_WAIT, goals};
use bytes::Counted;
use errors::Errors;

/// The results of a run.
struct Measured {
    run: Run,
    bytes: Counted,
    errors: Errors,
}

/// Runs the measurements of histograms, and prints and writes the report.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the report
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("histograms")?;
    let measured = measure(options.plan);
    let results = &measured.run.results;
    let mut goals = goals::of(results, [record::rows(), read::rows(), rotate::rows()].concat());
    goals.extend(bytes::goals(&measured.bytes));
    options.publish(&measured.run, Page::Histograms, &report::document(&measured), &goals)
}

fn measure(plan: Plan) -> Measured {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("counting bytes");
    let bytes = bytes::measure();
    eprintln!("computing errors");
    let clock = MonotonicClock::new();
    let errors = errors::measure(&clock);
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    // Before the cases that start threads, as the number of threads so far affects the cost of a
    // rotation.
    let mut results = rotate::measure(plan, &clock, &mut quiet);
    let mut suite = Suite::new(cores);
    record::add(&mut suite, &clock);
    read::add(&mut suite, &clock);
    let of_suite = suite.measure(plan, &mut quiet, |round| {
        if (round + 1) % 20 == 0 {
            eprintln!("round {}, {:.0?}", round + 1, start.elapsed());
        }
    });
    results.0.extend(of_suite.0);
    let (processor, samples) = (Processor::current(), quiet.samples);
    let run = Run { plan, processor, cores, results, elapsed: start.elapsed(), samples };
    Measured { run, bytes, errors }
}
