//! The results of this run, and the list of the results of all processors.

mod overview;
mod tables;
mod text;

pub(crate) use tables::thousands;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::bytes::Counted;
use crate::harness::Plan;
use crate::machine::Processor;
use crate::results::Results;
use crate::scenarios::first::First;
use crate::scenarios::record::{ARITHMETIC, RAW};
use crate::scenarios::tail::Tail;

/// All that came of a run.
pub(crate) struct Measured {
    pub(crate) plan: Plan,
    pub(crate) processor: Processor,
    pub(crate) cores: usize,
    pub(crate) results: Results,
    pub(crate) tail: Tail,
    pub(crate) first: First,
    pub(crate) bytes: Option<Counted>,
    pub(crate) took: Duration,
}

impl Measured {
    /// The share of time that threads which never wait were on a core, in the median round.
    fn on_core(&self) -> f64 {
        self.results.get(RAW, self.busy_threads()).map_or(f64::NAN, |cost| cost.on_core)
    }

    /// How many times as long plain arithmetic took in the median round as in the best tenth.
    fn slower(&self) -> f64 {
        let cost = self.results.get(ARITHMETIC, self.busy_threads());
        cost.map_or(f64::NAN, |cost| cost.median / cost.best_tenth)
    }

    fn busy_threads(&self) -> usize {
        self.cores.min(2)
    }

    /// Whether two threads had two cores, and those to themselves.
    ///
    /// Nothing here depends on how fast a processor is: one number is a share of the time, the other
    /// compares rounds of this run with each other.
    pub(crate) fn is_quiet(&self) -> bool {
        self.on_core() > 0.97 && self.slower() < 1.05
    }
}

/// Writes the results of this processor, and lists all that are in the folder.
pub(crate) fn write(measured: &Measured, folder: &Path) -> io::Result<()> {
    let (sets, id) = (folder.join("performance"), measured.processor.id());
    fs::create_dir_all(&sets)?;
    fs::write(sets.join(format!("{id}.md")), text::document(measured))?;
    fs::write(sets.join(format!("{id}.tsv")), overview::set(measured))?;
    fs::write(folder.join("PERFORMANCE.md"), overview::document(&sets)?)
}

pub(crate) fn print(measured: &Measured) {
    println!("{}", text::document(measured));
}
