//! The options of the programs that measure costs.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use crate::goals::Goal;
use crate::harness::Plan;
use crate::report::{self, Page, Run};

/// The rounds take three minutes on two quiet cores, and a quarter of an hour on a machine that is
/// often disturbed.
const FULL: Plan = Plan { rounds: 41, sample: Duration::from_millis(5) };
const QUICK: Plan = Plan { rounds: 3, sample: Duration::from_millis(1) };

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// The plan of a run, and where its report goes.
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
            [] => (FULL, Some(DOCS)),
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

    /// Prints a report that is incomplete, and writes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error with the reason if the report should be written.
    pub(crate) fn withhold(&self, document: &str, reason: &str) -> Result<(), Box<dyn Error>> {
        println!("{document}");
        match self.folder {
            Some(_) => Err(format!("{reason}: nothing was written").into()),
            None => Ok(()),
        }
    }

    /// Prints the report of a run, and writes it.
    ///
    /// # Errors
    ///
    /// Returns an error if the report belongs to the documentation and the machine was disturbed,
    /// or if the report cannot be written.
    pub(crate) fn publish(
        &self,
        run: &Run,
        page: Page,
        document: &str,
        goals: &[Goal],
    ) -> Result<(), Box<dyn Error>> {
        println!("{document}");
        let Some(folder) = &self.folder else { return Ok(()) };
        if folder.as_os_str() == DOCS && !run.samples.is_complete() {
            return Err("the machine was disturbed: nothing was written; try again".into());
        }
        report::write(run, page, document, goals, folder)?;
        println!("written to {}", folder.display());
        Ok(())
    }
}
