//! The report of this run, for one processor. The text is in `processor.md`.

use super::{Measured, method, tables};
use crate::scenarios::{decide, first, read, record, rollover};

/// The crates whose versions the report lists.
const CRATES: &str = "leaparray arc-swap crossbeam-utils quanta sentinel-core prometheus \
                      prometheus-client metrics metrics-exporter-prometheus governor";

pub(crate) fn document(measured: &Measured) -> String {
    let run = &measured.run;
    let costs = |rows| tables::costs(&run.results, rows);
    format!(
        include_str!("processor.md"),
        processor = run.processor,
        method = method::method(run),
        recording = costs(&record::rows()),
        with_threads = costs(&record::rows_with_threads()),
        reading = costs(&read::rows(run.processor.is_zen_5())),
        rollover = costs(&[rollover::rows(), first::rows()].concat()),
        deciding = costs(&decide::rows()),
        peer_descriptions = tables::peer_descriptions(),
        peers = tables::peers(measured),
        lost = tables::lost(&run.results),
        memory = tables::memory(measured),
        nodes = tables::nodes(measured),
        versions = method::versions(run, CRATES),
    )
}
