//! Measures leaparray beside what it is made of and beside its peers, all in one process, and
//! writes `docs/PERFORMANCE.md` with its plots.
//!
//! ```console
//! $ cargo run --release --manifest-path perf/Cargo.toml
//! ```
//!
//! A program of its own counts what is lost where buckets roll over, here and by peers:
//!
//! ```console
//! $ cargo run --release --manifest-path perf/Cargo.toml --bin losses
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
mod report;
mod results;
mod scenarios;
mod standins;

pub use bytes::print as print_bytes;
pub use losses::run as run_losses;

use std::error::Error;
use std::time::Instant;

use leaparray::MonotonicClock;

use harness::Suite;
use options::Options;
use report::Measured;
use scenarios::tail::Tail;

/// Measures, and writes what came of it.
///
/// # Errors
///
/// An argument that is not understood, or a folder that cannot be written to.
pub fn run() -> Result<(), Box<dyn Error>> {
    let Some(options) = Options::from_args()? else {
        println!("{}", options::HELP);
        return Ok(());
    };
    let measured = measure(&options);
    report::print(&measured);
    if let Some(folder) = &options.out {
        report::write(&measured, folder)?;
        plot::write(&measured, folder)?;
        println!("written to {}", folder.display());
    }
    Ok(())
}

fn measure(options: &Options) -> Measured {
    let (began, cores, plan) = (Instant::now(), machine::cores(), options.plan);
    eprintln!("counting bytes");
    let bytes = bytes::measure();
    let clock = MonotonicClock::new();
    let mut suite = Suite::new(cores);
    scenarios::record::add(&mut suite, &clock, cores);
    scenarios::read::add(&mut suite, &clock);
    scenarios::rotate::add(&mut suite, &clock);
    scenarios::decide::add(&mut suite, &clock);
    let upkeep = peers::add(&mut suite, &clock, cores);
    let mut tail = Tail::new(&clock);
    suite.keep(&options.only);
    eprintln!("measuring, {} rounds", plan.rounds);
    let results = suite.measure(plan, |round| {
        tail.sample(plan.sample);
        upkeep.run();
        if (round + 1) % 20 == 0 {
            eprintln!("round {}, {:.0?}", round + 1, began.elapsed());
        }
    });
    Measured { plan, cores, results, tail, bytes, took: began.elapsed() }
}
