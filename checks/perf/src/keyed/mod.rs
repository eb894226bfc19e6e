//! Measures limits by key, in a run and with pages of their own.

mod bytes;
mod decisions;
mod limiter;
mod traffic;

pub(crate) use bytes::print as print_bytes;

use std::error::Error;
use std::fmt::Display;
use std::hash::Hash;
use std::time::Instant;

use crate::harness::Plan;
use crate::machine::{self, Processor};
use crate::options::Options;
use crate::quiet::Quiet;
use crate::report::method::{method, versions};
use crate::report::{Page, Run, format_grouped, tables};
use crate::results::Results;
use crate::{MAX_WAIT, goals};
use bytes::Counted;
use traffic::Traffic;

/// The crates whose versions the report lists.
const CRATES: &str = "leaparray quanta governor dashmap foldhash";

/// The number of keys.
const KEYS: u32 = 1_000_000;

/// How often the limiters are made. Where their tables lie in memory changes the cost of a cache
/// miss, for all rounds.
const LAYOUTS: usize = 5;

/// A type of keys.
trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    const NAME: &'static str;

    fn of(number: u32) -> Self;

    fn all() -> Vec<Self> {
        (0..KEYS).map(Self::of).collect()
    }
}

impl Key for u64 {
    const NAME: &'static str = "`u64`";

    fn of(number: u32) -> Self {
        // Spread over the range by Fibonacci hashing, so that the keys are not dense.
        Self::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 3
    }
}

impl Key for String {
    const NAME: &'static str = "`String`";

    fn of(number: u32) -> Self {
        format!("client-{number:07}")
    }
}

/// Runs the measurements of limits by key, and prints and writes the report.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the report
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("keyed")?;
    let counted = bytes::measure();
    let run = measure(options.plan);
    let rows = [decisions::rows::<u64>(), decisions::rows::<String>()];
    let goals = [bytes::goals(&counted), goals::of(&run.results, rows.concat())].concat();
    options.publish(&run, Page::Keyed, &document(&run, &counted), &goals)
}

fn measure(plan: Plan) -> Run {
    let (start, cores) = (Instant::now(), machine::cores());
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    let traffic = Traffic::all();
    // Longer samples: each begins with caches that have the keys of another limiter.
    let of_layout = Plan { rounds: plan.rounds.div_ceil(LAYOUTS), sample: plan.sample * 4 };
    // One after the other: the limiters of a type take some hundred megabytes.
    let results = Results::median_of((0..LAYOUTS).map(|_| {
        let mut results = decisions::measure::<u64>(of_layout, &mut quiet, &traffic, cores);
        results.0.extend(decisions::measure::<String>(of_layout, &mut quiet, &traffic, cores).0);
        results
    }));
    let (processor, samples) = (Processor::current(), quiet.samples);
    Run { plan, processor, cores, results, elapsed: start.elapsed(), samples }
}

fn document(run: &Run, counted: &Counted) -> String {
    format!(
        include_str!("report.md"),
        processor = run.processor,
        method = method(run),
        keys = format_grouped(KEYS.into()),
        layouts = LAYOUTS,
        rounds = run.plan.rounds.div_ceil(LAYOUTS),
        millis = 4 * run.plan.sample.as_millis(),
        bytes = bytes::table(counted),
        numbers = tables::costs(&run.results, &decisions::rows::<u64>()),
        strings = tables::costs(&run.results, &decisions::rows::<String>()),
        lost = tables::lost(&run.results),
        versions = versions(run, CRATES),
    )
}

/// Returns the name of a limiter with keys of a type, and of a case of it.
fn case<K: Key>(limiter: &str, what: impl Display) -> String {
    format!("{limiter}, {}, {what}", K::NAME)
}

const GOVERNOR: &str = "`governor`";
const OURS: &str = "`KeyedLimiter`";
