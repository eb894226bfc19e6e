//! The options of the programs that measure costs.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::Plan;
use crate::report::Report;

/// The rounds take three minutes on two quiet cores, and a quarter of an hour on a machine that is
/// often disturbed.
const FULL: Plan = Plan { rounds: 41, sample: Duration::from_millis(5) };
const QUICK: Plan = Plan { rounds: 3, sample: Duration::from_millis(1) };

const SETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance");

/// The plan of a run, and where its set goes.
pub(crate) struct Options {
    pub(crate) plan: Plan,
    /// `None` for a smoke test, which writes nothing.
    folder: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments of a program.
    pub(crate) fn from_args(program: &str) -> Result<Self, String> {
        let args: Vec<_> = env::args().skip(1).collect();
        let (plan, folder) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => (FULL, Some(SETS)),
            ["--quick"] => (QUICK, None),
            ["--out", folder] => (FULL, Some(folder)),
            ["--quick", "--out", folder] => (QUICK, Some(folder)),
            _ => return Err(format!("usage: {program} [--quick] [--out DIR]")),
        };
        Ok(Self { plan, folder: folder.map(PathBuf::from) })
    }

    /// Returns whether the run is a smoke test.
    pub(crate) const fn is_quick(&self) -> bool {
        self.plan.rounds == QUICK.rounds
    }

    /// Prints the report of a run, and writes its set, unless the report is `incomplete` for a
    /// reason.
    ///
    /// # Errors
    ///
    /// Returns an error if the set should be written and the report is incomplete, if the set
    /// belongs to the documentation and the machine was disturbed, or if the set cannot be written.
    pub(crate) fn publish(
        &self,
        report: Report,
        incomplete: Option<&str>,
    ) -> Result<(), Box<dyn Error>> {
        report.print();
        let Some(folder) = &self.folder else { return Ok(()) };
        if let Some(reason) = incomplete {
            return Err(format!("{reason}: nothing was written").into());
        }
        if folder.as_os_str() == SETS && !report.run.samples.is_complete() {
            return Err("the machine was disturbed: nothing was written; try again".into());
        }
        report.write(folder)?;
        println!("written to {}", folder.display());
        println!("`cargo run -p leaparray-perf-page` writes docs/PERFORMANCE.md");
        Ok(())
    }
}
