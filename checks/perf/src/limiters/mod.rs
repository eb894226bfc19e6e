//! Measures how the decisions of limiters scale with threads, in a run and with pages of their own.

mod decisions;
mod fills;
mod one_word;

use std::error::Error;
use std::time::{Duration, Instant};

use leaparray::flow::SlidingWindowLimiter;
use leaparray::{MonotonicClock, WindowConfig};

use crate::harness::{Plan, Suite};
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::method::{method, versions};
use crate::report::{Page, Run, tables};
use crate::{MAX_WAIT, goals};

/// The crates whose versions the report lists.
const CRATES: &str = "leaparray quanta governor";

const HOUR: Duration = Duration::from_secs(3_600);

/// Runs the measurements of limiters on several threads, and prints and writes the report.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the report
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("limiters")?;
    let run = measure(options.plan);
    let rows = [decisions::rows(), decisions::entries(), decisions::others(), fills::rows()];
    let goals = goals::of(&run.results, rows.concat());
    options.publish(&run, Page::Limiters, &document(&run), &goals)
}

fn measure(plan: Plan) -> Run {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    let (mut suite, clock) = (Suite::new(cores), MonotonicClock::new());
    decisions::add(&mut suite, &clock, cores);
    fills::add(&mut suite, &clock, cores);
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
        decisions = costs(&decisions::rows()),
        entries = costs(&decisions::entries()),
        others = costs(&decisions::others()),
        fills = costs(&fills::rows()),
        lost = tables::lost(&run.results),
        versions = versions(run, CRATES),
    )
}

/// Returns a limiter of a window of ten hours; with `None`, its limit is the highest one.
fn sliding(limit: Option<u64>, clock: &MonotonicClock) -> SlidingWindowLimiter<MonotonicClock> {
    let window = WindowConfig::new(10, HOUR * 10).expect("ten hours");
    let limit = limit.unwrap_or(SlidingWindowLimiter::max_limit(&window));
    SlidingWindowLimiter::with_clock(window, limit, clock.clone())
        .expect("at most the highest limit")
}
