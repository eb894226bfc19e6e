//! The report of this run, for one processor. The text is in `processor.md`.

use super::{Measured, tables};
use crate::scenarios::{decide, first, read, record, rollover};
use crate::{machine, quiet};

/// The crates whose versions the report lists.
const CRATES: &str = "leaparray arc-swap crossbeam-utils quanta sentinel-core prometheus \
                      prometheus-client metrics metrics-exporter-prometheus governor";

pub(crate) fn document(measured: &Measured) -> String {
    let (processor, cores) = (&measured.processor, measured.cores);
    let (samples, costs) = (measured.samples, |rows| tables::costs(measured, rows));
    let (usual_spread, worst_spread) = tables::spreads(measured);
    let verdict = if samples.is_complete() {
        ""
    } else {
        " **The machine was disturbed: these numbers are not reliable.**"
    };
    let versions =
        CRATES.split(' ').map(|krate| format!("| {krate} | {} |\n", machine::version(krate)));
    format!(
        include_str!("processor.md"),
        processor = processor,
        cores = cores,
        rounds = measured.plan.rounds,
        millis = measured.plan.sample.as_millis(),
        seconds = measured.elapsed.as_secs(),
        usual_spread = usual_spread,
        worst_spread = worst_spread,
        probe_threads = cores.min(2),
        probe_limit = quiet::LIMIT,
        samples = samples.quiet + samples.missing,
        missing = samples.missing,
        discarded = samples.discarded,
        verdict = verdict,
        recording = costs(&record::rows()),
        with_threads = costs(&record::rows_with_threads()),
        reading = costs(&read::rows(processor.is_zen_5())),
        rollover = costs(&[rollover::rows(), first::rows()].concat()),
        deciding = costs(&decide::rows()),
        peer_descriptions = tables::peer_descriptions(),
        peers = tables::peers(measured),
        lost = tables::lost(measured),
        memory = tables::memory(measured),
        nodes = tables::nodes(measured),
        system = machine::system(),
        rustc = machine::rustc(),
        versions = versions.collect::<Vec<_>>().concat(),
    )
}
