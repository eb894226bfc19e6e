//! The report of this run, and the list of the results for all processors.

mod overview;
mod processor;
mod tables;

pub(crate) use processor::document;
pub(crate) use tables::format_grouped;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::bytes::Counted;
use crate::harness::Plan;
use crate::machine::Processor;
use crate::quiet::SampleCounts;
use crate::results::Results;

/// The results of a run.
pub(crate) struct Measured {
    pub(crate) plan: Plan,
    pub(crate) processor: Processor,
    pub(crate) cores: usize,
    pub(crate) results: Results,
    pub(crate) bytes: Counted,
    pub(crate) elapsed: Duration,
    pub(crate) samples: SampleCounts,
}

/// Writes the results for this processor, and the list of all results in the folder.
pub(crate) fn write(measured: &Measured, folder: &Path) -> io::Result<()> {
    let (sets, id) = (folder.join("performance"), measured.processor.id());
    fs::create_dir_all(&sets)?;
    fs::write(sets.join(format!("{id}.md")), document(measured))?;
    fs::write(sets.join(format!("{id}.tsv")), overview::set(measured))?;
    fs::write(folder.join("PERFORMANCE.md"), overview::document(&sets)?)
}
