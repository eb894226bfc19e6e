//! The reports of this run, and the list of the results for all processors.

pub(crate) mod method;
mod overview;
mod processor;
pub(crate) mod tables;

pub(crate) use processor::document;
pub(crate) use tables::format_grouped;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::bytes::Counted;
use crate::goals::Goal;
use crate::harness::Plan;
use crate::machine::Processor;
use crate::quiet::SampleCounts;
use crate::results::Results;

/// A run: its costs, and how they were measured.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) processor: Processor,
    pub(crate) cores: usize,
    pub(crate) results: Results,
    pub(crate) elapsed: Duration,
    pub(crate) samples: SampleCounts,
}

/// The results of a run that measures all but what has a page of its own.
pub(crate) struct Measured {
    pub(crate) run: Run,
    pub(crate) bytes: Counted,
}

/// The pages that each processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// All but what has a page of its own.
    Main,
    Histograms,
    Middleware,
    Feedback,
    Leases,
    Windows,
    Limiters,
    Keyed,
}

impl Page {
    /// Returns the end of the names of the page's files, after the name of the processor.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Histograms => "-histograms",
            Self::Middleware => "-middleware",
            Self::Feedback => "-feedback",
            Self::Leases => "-leases",
            Self::Windows => "-windows",
            Self::Limiters => "-limiters",
            Self::Keyed => "-keyed",
        }
    }

    /// Returns the page whose files have that name.
    fn of(name: &str) -> Self {
        let with_suffix = [
            Self::Histograms,
            Self::Middleware,
            Self::Feedback,
            Self::Leases,
            Self::Windows,
            Self::Limiters,
            Self::Keyed,
        ];
        with_suffix.into_iter().find(|page| name.ends_with(page.suffix())).unwrap_or(Self::Main)
    }
}

/// Writes a page for this processor, and the list of all results in the folder.
pub(crate) fn write(
    run: &Run,
    page: Page,
    document: &str,
    goals: &[Goal],
    folder: &Path,
) -> io::Result<()> {
    let sets = folder.join("performance");
    let name = format!("{}{}", run.processor.id(), page.suffix());
    fs::create_dir_all(&sets)?;
    fs::write(sets.join(format!("{name}.md")), document)?;
    fs::write(sets.join(format!("{name}.tsv")), overview::set(run, goals))?;
    fs::write(folder.join("PERFORMANCE.md"), overview::document(&sets)?)
}
