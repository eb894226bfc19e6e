//! Measures leaparray beside its building blocks and beside its peers. Prints the results, and
//! writes those of this machine's processor to `docs/performance`. `checks/perf-page` makes
//! `docs/PERFORMANCE.md` of them.
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml
//! ```
//!
//! `--quick` runs a smoke test that writes nothing. `--out DIR` writes to another folder, even if
//! the machine was disturbed. A commit that changes the numbers deletes the sets of the processors
//! on which it was not measured.
//!
//! Each round measures every case once, in reverse order in every other round. A cost is the median
//! over the rounds, in nanoseconds for one operation on one thread, while the other threads of the
//! case run the same operation. Each sample has new threads. A thread warms up, waits for the
//! others at a barrier, and measures its own time from there; the sample is the mean of these
//! times. If a case has more threads than the machine has cores, the CPU time of the threads
//! counts, without the wait for a core.
//!
//! Compare ratios within a run: the nanoseconds depend on the machine and on the hour. *A raw
//! counter read, measured again* measures one operation a second time. The distance of its ratio
//! from 1 is the smallest difference that means anything.
//!
//! A separate program measures the histograms of response times, with the same options:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin histograms
//! ```
//!
//! Another one measures the middleware of `leaparray-tower`, with the same options. It counts
//! instructions if valgrind is installed:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin middleware
//! ```
//!
//! A third one measures the circuit breaker and the adaptive limiter, with the same options:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin feedback
//! ```
//!
//! A fourth one measures the limiter of `leaparray-redis`, with the same options. The script is
//! measured on a Redis server, if `redis-server` is installed:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin leases
//! ```
//!
//! A fifth one measures the window over a fleet of `leaparray-redis`, on a Redis server, with the
//! same options:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin windows
//! ```
//!
//! A sixth one measures how the decisions of limiters scale with threads, and a seventh one the
//! limits by key, with the same options:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin limiters
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin keyed
//! ```
//!
//! An eighth one measures how the costs of recording, of middleware and of a hot key change from
//! one thread to many, with the same options:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin threads
//! ```
//!
//! A ninth one measures rules beside those of sentinel-core, with the same options:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin rules
//! ```
//!
//! A tenth one counts the adds that this crate and its peers lose at rollovers:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin losses
//! ```
//!
//! An eleventh one prints the guide's table of geometries: the error of a rate, and the bytes of a
//! node:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin geometry
//! ```

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers for display, far below 2⁵³"
)]

mod bytes;
mod feedback;
mod goals;
mod harness;
mod histograms;
mod keyed;
mod leases;
mod limiters;
mod losses;
mod machine;
mod middleware;
mod options;
mod peers;
mod quiet;
mod redis_server;
mod report;
mod results;
mod rules;
mod scenarios;
mod standins;
mod threads;
mod timed;
mod windows;

pub use feedback::run as run_feedback;
pub use histograms::run as run_histograms;
pub use keyed::run as run_keyed;
pub use leases::run as run_leases;
pub use limiters::run as run_limiters;
pub use losses::run as run_losses;
pub use middleware::run as run_middleware;
pub use rules::run as run_rules;
pub use threads::run as run_threads;
pub use windows::run as run_windows;

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use leaparray::MonotonicClock;

use harness::{Plan, Suite};
use machine::Processor;
use options::Options;
use quiet::Quiet;
use report::{Report, Run};
use scenarios::{decide, elsewhere, first, many, read, record, rollover};

/// The crates whose versions belong to the results.
const CRATES: &str = "leaparray arc-swap crossbeam-utils quanta sentinel-core prometheus \
                      prometheus-client metrics metrics-exporter-prometheus governor";

/// The time that a program may wait for the machine to be quiet, for each round.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Runs the measurements, and prints and writes the results.
///
/// # Errors
///
/// Returns an error if an argument is invalid, if the machine was disturbed, or if the results
/// cannot be written.
pub fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args("leaparray-perf")?;
    eprintln!("counting bytes");
    let bytes = bytes::measure();
    let run = measure(options.plan);
    let rows = [
        record::rows(),
        record::rows_with_threads(),
        elsewhere::rows(),
        read::rows(run.processor.is_zen_5()),
        rollover::rows(),
        first::rows(),
        many::rows(),
        decide::rows(),
    ];
    let mut values = goals::values(&run.results, &rows.concat());
    values.extend(bytes.values());
    options.publish(Report::new("", run, values, CRATES), None)
}

/// Counts heap bytes and prints them: of histograms, of limits by key, or of requests with
/// middleware, if that is the argument. The global allocator must be `dhat`'s.
pub fn print_bytes() {
    match env::args().nth(1).as_deref() {
        Some("histograms") => histograms::print_bytes(),
        Some("keyed") => keyed::print_bytes(),
        Some("middleware") => middleware::print_allocations(),
        _ => bytes::print(),
    }
}

fn measure(plan: Plan) -> Run {
    let (start, cores) = (Instant::now(), machine::cores());
    let clock = MonotonicClock::new();
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, MAX_WAIT * plan.rounds as u32);
    let mut results = rollover::measure(plan, &clock, &mut quiet);
    let mut suite = Suite::new(cores);
    record::add(&mut suite, &clock);
    elsewhere::add(&mut suite, &clock);
    read::add(&mut suite, &clock);
    first::add(&mut suite, &clock);
    many::add(&mut suite, &clock);
    decide::add(&mut suite, &clock);
    let upkeep = peers::add(&mut suite, &clock);
    let of_suite = suite.measure(plan, &mut quiet, |round| {
        upkeep.run();
        if (round + 1) % 20 == 0 {
            eprintln!("round {}, {:.0?}", round + 1, start.elapsed());
        }
    });
    results.0.extend(of_suite.0);
    let (processor, samples) = (Processor::current(), quiet.samples);
    Run { plan, processor, cores, results, elapsed: start.elapsed(), samples }
}
