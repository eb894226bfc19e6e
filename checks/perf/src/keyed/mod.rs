//! Measures limits by key: a `Keyed` of token buckets beside the keyed limiter of
//! `governor`, which keeps its keys in a `DashMap`.
//!
//! The tables of `governor` double, so its bytes depend on the number of keys, and on that of its
//! shards, which follows from the number of processors. With two processors and 1,000,000 keys, the
//! tables are 48 % full, near the worst case, 44 %. If they were 87.5 % full, the best case, it
//! would take 19.4 bytes for a `u64` and 51.7 for a `String`, less than `Keyed`. These two
//! numbers are computed, not measured.
//!
//! Each thread is bound to a processor of its own. In the hot case, all requests are of one key. In
//! the uniform case, they are of all keys alike. In the zipf case, the key of rank *r* has a share
//! in proportion to 1 / *r*.

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
use crate::report::{Report, Run};
use crate::results::Results;
use crate::{MAX_WAIT, goals};
use traffic::Traffic;

/// The crates whose versions belong to the results.
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

/// Runs the measurements of limits by key, and prints and writes the results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the results
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("keyed")?;
    let mut values = bytes::values(&bytes::measure());
    let run = measure(options.plan);
    let rows = [decisions::rows::<u64>(), decisions::rows::<String>()];
    values.extend(goals::values(&run.results, &rows.concat()));
    options.publish(Report::new("keyed", run, values, CRATES), None)
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

/// Returns the name of a limiter with keys of a type, and of a case of it.
fn case<K: Key>(limiter: &str, what: impl Display) -> String {
    format!("{limiter}, {}, {what}", K::NAME)
}

const GOVERNOR: &str = "`governor`";
const OURS: &str = "`Keyed`";
