//! Measures leaparray beside what it is made of and beside its peers. Writes the results of this
//! machine's processor to `docs/performance`, and lists those of all processors in
//! `docs/PERFORMANCE.md`.
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml
//! ```
//!
//! A program of its own counts what is lost where buckets roll over, here and by peers:
//!
//! ```console
//! $ cargo run --release --manifest-path checks/perf/Cargo.toml --bin losses
//! ```

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers to be shown, far below 2⁵³"
)]

mod bytes;
mod goals;
mod harness;
mod losses;
mod machine;
mod options;
mod peers;
mod plot;
mod quiet;
mod report;
mod results;
mod scenarios;
mod standins;
mod timed;

pub use bytes::print as print_bytes;
pub use losses::run as run_losses;

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use leaparray::MonotonicClock;

use harness::Suite;
use machine::Processor;
use options::Options;
use quiet::Quiet;
use report::Measured;
use scenarios::first::First;
use scenarios::rotate::{self, Stage};
use scenarios::tail::Tail;

/// For how long the program may wait until the machine is quiet, for each round.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures, and writes what came of it.
///
/// # Errors
///
/// An argument that is not understood, or a folder that cannot be written to.
pub fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    if let [how, stage, rounds, micros] = &args[..]
        && how == "--rotate"
    {
        let stage = Stage::parse(stage).ok_or("no such stage")?;
        rotate::print(stage, rounds.parse()?, Duration::from_micros(micros.parse()?));
        return Ok(());
    }
    let Some(options) = Options::from_args()? else {
        println!("{}", options::HELP);
        return Ok(());
    };
    let measured = measure(&options);
    report::print(&measured);
    match &options.out {
        Some(folder) if options.writes_disturbed || measured.is_quiet() => {
            report::write(&measured, folder)?;
            plot::write(&measured, folder)?;
            println!("written to {}", folder.display());
            Ok(())
        }
        Some(_) => Err("the machine was disturbed: nothing is written; try again".into()),
        None => Ok(()),
    }
}

fn measure(options: &Options) -> Measured {
    let (began, cores, plan) = (Instant::now(), machine::cores(), options.plan);
    eprintln!("counting bytes");
    let bytes = bytes::measure();
    let clock = MonotonicClock::new();
    let mut suite = Suite::new(cores);
    scenarios::record::add(&mut suite, &clock, cores);
    scenarios::read::add(&mut suite, &clock);
    scenarios::decide::add(&mut suite, &clock);
    let upkeep = peers::add(&mut suite, &clock, cores);
    let (mut tail, mut first) = (Tail::new(&clock), First::new());
    suite.keep(&options.only);
    eprintln!("measuring, {} rounds", plan.rounds);
    let mut quiet = Quiet::new(cores, PATIENCE * plan.rounds as u32);
    let mut results = suite.measure(plan, &mut quiet, |round, quiet| {
        tail.sample(plan.sample);
        first.sample(plan.sample, quiet);
        upkeep.run();
        if (round + 1) % 20 == 0 {
            eprintln!("round {}, {:.0?}", round + 1, began.elapsed());
        }
    });
    eprintln!("rotating, in processes of their own");
    results.extend(rotate::measure(plan, &mut quiet.ledger));
    let (processor, took) = (Processor::current(), began.elapsed());
    let samples = quiet.ledger;
    Measured { plan, processor, cores, results, tail, first, bytes, took, samples }
}
