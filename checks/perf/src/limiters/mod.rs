//! Measures how the decisions of limiters scale with threads, beside `governor` and beside a
//! limiter of one word.
//!
//! Each thread is bound to a processor of its own. There are cases with 1, 2, 4, 8 and 16 threads,
//! as far as the machine has processors. *One word* is a limiter without epochs and without later
//! buckets, which takes permits by a compare-exchange on one word. It stands for the limiter
//! without stripes, and does less: it has no step to a later bucket. On more than two
//! processors, hardly a sample is undisturbed, so a cost is the 10th percentile of the samples.

mod decisions;
mod fills;
mod one_word;

pub(crate) use one_word::{COUNT, OneWord};

use std::error::Error;
use std::time::{Duration, Instant};

use leaparray::flow::SlidingWindowLimiter;
use leaparray::{MonotonicClock, WindowConfig};

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::{Report, Run};
use crate::{MAX_WAIT, goals};

/// The crates whose versions belong to the results.
const CRATES: &str = "leaparray quanta governor";

const HOUR: Duration = Duration::from_secs(3_600);

/// Runs the measurements of limiters on several threads, and prints and writes the results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the results
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("limiters")?;
    let run = measure(options.plan);
    let rows = [decisions::rows(), decisions::entries(), decisions::others(), fills::rows()];
    let values = goals::values(&run.results, &rows.concat());
    options.publish(Report::new("limiters", run, values, CRATES), None)
}

fn measure(plan: Plan) -> Run {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::for_all_cores(cores, MAX_WAIT * plan.rounds as u32);
    let (mut suite, clock) = (Suite::new(cores), MonotonicClock::new());
    decisions::add(&mut suite, &clock, cores);
    fills::add(&mut suite, &clock, cores);
    let results = suite.measure(plan, &mut quiet, |_| {});
    let (processor, samples) = (Processor::current(), quiet.samples);
    Run { plan, processor, cores, results, elapsed: start.elapsed(), samples }
}

/// Returns a limiter of a window of ten hours; with `None`, its limit is the highest one.
fn sliding(limit: Option<u64>, clock: &MonotonicClock) -> SlidingWindowLimiter<MonotonicClock> {
    let window = WindowConfig::new(10, HOUR * 10).expect("ten hours");
    let limit = limit.unwrap_or(SlidingWindowLimiter::max_limit(&window));
    SlidingWindowLimiter::of_buckets_with_clock(window, limit, clock.clone())
        .expect("at most the highest limit")
}
