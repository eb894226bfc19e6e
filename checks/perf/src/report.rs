//! The report of a run: its values on the standard output, and in a file of `docs/performance`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use leaparray_perf_page::{Crowd, Set, Value, grouped};

use crate::harness::Plan;
use crate::machine::{self, Processor};
use crate::quiet::SampleCounts;
use crate::results::{Cost, Results};

/// A run: its costs, and how they were measured.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) processor: Processor,
    pub(crate) cores: usize,
    pub(crate) results: Results,
    pub(crate) elapsed: Duration,
    pub(crate) samples: SampleCounts,
}

/// A run of a program, with all values that it has measured.
pub(crate) struct Report {
    /// The name of the program; empty for the one without a name of its own.
    pub(crate) program: &'static str,
    pub(crate) run: Run,
    pub(crate) values: Vec<Value>,
    /// The versions of the crates and tools that were measured.
    pub(crate) versions: Vec<(String, String)>,
}

impl Report {
    /// Creates a report. `crates` are the names of the measured crates, separated by spaces.
    pub(crate) fn new(
        program: &'static str,
        run: Run,
        values: Vec<Value>,
        crates: &'static str,
    ) -> Self {
        let versions = crates.split_whitespace();
        let versions =
            versions.map(|it| (it.to_owned(), machine::version(it).to_owned())).collect();
        Self { program, run, values, versions }
    }

    /// Prints the values, and how they were measured.
    pub(crate) fn print(&self) {
        let Run { plan, elapsed, samples, .. } = &self.run;
        for value in &self.values {
            println!("{}", line(value));
        }
        println!(
            "{} rounds of {:?} on {} in {elapsed:.0?}: {} samples, {} missing because the machine \
             was not quiet, {} taken again",
            plan.rounds,
            plan.sample,
            self.run.processor,
            samples.quiet + samples.missing,
            samples.missing,
            samples.discarded,
        );
        for ((case, crowd), Cost { lost, .. }) in &self.run.results.0 {
            if *lost > 0 {
                println!("{case}, {} threads: a thread panicked in {lost} rounds", crowd.record);
            }
        }
    }

    /// Writes the set of this program and this processor to the folder.
    pub(crate) fn write(self, folder: &Path) -> io::Result<()> {
        let Run { processor, cores, samples, .. } = &self.run;
        let hyphen = if self.program.is_empty() { "" } else { "-" };
        // A machine with more cores of the same processor shows more, and has a file of its own.
        let of_cores = if *cores > 2 { format!("-{cores}-cores") } else { String::new() };
        let name = format!("{}{hyphen}{}{of_cores}.tsv", processor.id(), self.program);
        let quiet = match samples {
            SampleCounts { is_unchecked: true, .. } => "unchecked",
            samples if samples.is_complete() => "yes",
            _ => "no",
        };
        let machine = [
            ("quiet", quiet.to_owned()),
            ("cores", cores.to_string()),
            ("system", machine::system()),
            ("compiler", machine::rustc()),
        ];
        let machine = machine.into_iter().map(|(name, value)| (name.to_owned(), value));
        let set = Set {
            processor: processor.to_string(),
            known: processor.known_as().unwrap_or_default().to_owned(),
            commit: machine::commit(),
            about: machine.chain(self.versions).collect(),
            values: self.values,
        };
        fs::create_dir_all(folder)?;
        fs::write(folder.join(name), set.to_string())
    }
}

/// Returns a line with a value, its unit, its goal and its spread.
fn line(value: &Value) -> String {
    let Value { case, crowd: Crowd { record, idle, ended }, measured, unit, .. } = value;
    let goal = match value.at_most {
        Some(at_most) if value.is_missed() => format!(" > {at_most}: MISSED"),
        Some(at_most) => format!(" ≤ {at_most}: met"),
        None => String::new(),
    };
    let spread = value.spread.map_or(String::new(), |spread| format!(" ± {spread} %"));
    let threads = match (idle, ended) {
        (0, 0) => format!("{record}"),
        _ => format!("{record} + {idle} idle + {ended} ended"),
    };
    let measured = match *measured {
        number if number.fract() == 0.0 && number >= 1_000.0 => grouped(number),
        number => number.to_string(),
    };
    format!("{case} [{threads}]: {measured} {unit}{spread}{goal}")
}
