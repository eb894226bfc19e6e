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
use crate::quiet::Ledger;
use crate::results::Results;
use crate::scenarios::first::First;
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
    pub(crate) samples: Ledger,
}

impl Measured {
    /// Whether nearly every sample was taken while the machine was quiet.
    pub(crate) fn is_quiet(&self) -> bool {
        self.samples.is_complete()
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
