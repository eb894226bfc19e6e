//! The sections that all reports have: how it is measured, and on which machine. The text is in
//! `method.md`.

use std::fmt::Write;

use super::{Run, tables};
use crate::{machine, quiet};

/// Returns the description of the rounds, the samples and their units.
pub(crate) fn method(run: &Run) -> String {
    let samples = run.samples;
    let (usual_spread, worst_spread) = tables::spreads(&run.results);
    let verdict = if samples.is_complete() {
        ""
    } else {
        " **The machine was disturbed: these numbers are not reliable.**"
    };
    format!(
        include_str!("method.md"),
        rounds = run.plan.rounds,
        millis = run.plan.sample.as_millis(),
        seconds = run.elapsed.as_secs(),
        cores = run.cores,
        usual_spread = usual_spread,
        worst_spread = worst_spread,
        probe_threads = run.cores.min(2),
        probe_limit = quiet::LIMIT,
        samples = samples.quiet + samples.missing,
        missing = samples.missing,
        discarded = samples.discarded,
        verdict = verdict,
    )
}

/// Returns a table of the machine, the compiler, and the versions of the crates, which are
/// separated by spaces.
pub(crate) fn versions(run: &Run, crates: &str) -> String {
    let machine = [
        ("processor", run.processor.to_string()),
        ("cores", run.cores.to_string()),
        ("system", machine::system()),
        ("compiler", machine::rustc()),
    ];
    let crates = crates.split_whitespace().map(|krate| (krate, machine::version(krate).to_owned()));
    let mut table = "| | |\n|---|---|\n".to_owned();
    for (name, value) in machine.into_iter().chain(crates) {
        let _ = writeln!(table, "| {name} | {value} |");
    }
    table
}
