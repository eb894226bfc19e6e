//! Measures the histograms of response times beside those of other crates.
//!
//! A histogram of scale *s* has 2^*s* bins in each power of two. There are two inputs. *One
//! response time* is 250 µs, again and again. *Three decades* are 4,096 response times from 100 µs
//! to 100 ms, spread at random and evenly in the logarithm; all cases walk the same array of them
//! in turn. Each crate records by its ordinary interface. A crate without a window does not read a
//! clock.

mod bytes;
mod errors;
mod input;
mod peers;
mod read;
mod record;
mod rotate;

pub(crate) use bytes::print as print_bytes;

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
const CRATES: &str =
    "leaparray quanta hdrhistogram histogram sketches-ddsketch prometheus prometheus-client";

/// Runs the measurements of histograms, and prints and writes the results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the results
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("histograms")?;
    eprintln!("counting bytes");
    let bytes = bytes::measure();
    eprintln!("computing errors");
    let clock = MonotonicClock::new();
    let errors = errors::measure(&clock);
    let run = measure(options.plan, &clock);
    let rows = [record::rows(), read::rows(), rotate::rows()];
    let mut values = goals::values(&run.results, &rows.concat());
    values.extend(errors::values(&errors));
    values.extend(bytes::values(&bytes));
    options.publish(Report::new("histograms", run, values, CRATES), None)
}

fn measure(plan: Plan, clock: &MonotonicClock) -> Run {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    // Before the cases that start threads, as the number of threads so far affects the cost of a
    // rotation.
    let mut results = rotate::measure(plan, clock, &mut quiet);
    let mut suite = Suite::new(cores);
    record::add(&mut suite, clock);
    read::add(&mut suite, clock);
    let of_suite = suite.measure(plan, &mut quiet, |round| {
        if (round + 1) % 20 == 0 {
            eprintln!("round {}, {:.0?}", round + 1, start.elapsed());
        }
    });
    results.0.extend(of_suite.0);
    let (processor, samples) = (Processor::current(), quiet.samples);
    Run { plan, processor, cores, results, elapsed: start.elapsed(), samples }
}
