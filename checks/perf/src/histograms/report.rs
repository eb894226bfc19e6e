//! The report of the histograms, for one processor. The text is in `report.md`.

use std::fmt::Write;

use super::{Measured, bytes, errors, peers, read, record, rotate};
use crate::report::method::{method, versions};
use crate::report::{format_grouped, tables};
use crate::scenarios::crowd::Crowd;
use crate::scenarios::record::RAW;

/// The crates whose versions the report lists.
const CRATES: &str =
    "leaparray quanta hdrhistogram histogram sketches-ddsketch prometheus prometheus-client";

const NONE: &str = "–";

pub(super) fn document(measured: &Measured) -> String {
    let run = &measured.run;
    let costs = |rows: &[_]| tables::costs(&run.results, rows);
    format!(
        include_str!("report.md"),
        processor = run.processor,
        method = method(run),
        recording = costs(&record::rows()),
        reading = costs(&read::rows()),
        rotation = costs(&rotate::rows()),
        peer_descriptions = peer_descriptions(),
        streams = errors::STREAMS,
        rts = format_grouped(errors::RTS as u64),
        peers = peers(measured),
        lost = tables::lost(&run.results),
        memory = memory(measured),
        memory_goals = memory_goals(measured),
        versions = versions(run, CRATES),
    )
}

fn peer_descriptions() -> String {
    let rows = peers::all().into_iter().map(|about| {
        let peers::About { name, window, description } = about;
        format!("{name} | {window} | {description}")
    });
    tables::table("histogram | window | what is measured", rows).replace("---:", "---")
}

/// Returns a table of the costs, bytes and errors of all peers.
fn peers(measured: &Measured) -> String {
    let nanos = |case: &str, threads| {
        let cost = measured.run.results.median(case, Crowd::of(threads));
        cost.map_or(NONE.to_owned(), tables::nanos)
    };
    let raw = [1, 2, 1, 2].map(|threads| nanos(RAW, threads)).join(" | ");
    let mut rows = vec![format!("{RAW} | {NONE} | {raw} | {NONE} | {NONE} | {NONE}")];
    for peers::About { name, window, .. } in peers::all() {
        let mut row = format!("{name} | {window}");
        for input in [record::CONSTANT, record::SPREAD] {
            for threads in [1, 2] {
                let _ = write!(row, " | {}", nanos(&record::case(name, input), threads));
            }
        }
        let bytes = measured.bytes.peers.iter().find(|(peer, _)| peer == name);
        let bytes = bytes.map_or(NONE.to_owned(), |&(_, bytes)| format_grouped(bytes as u64));
        let error = measured.errors.iter().find(|(peer, _)| *peer == name);
        let error = error.and_then(|&(_, error)| error);
        let error = error.map_or(NONE.to_owned(), |error| format!("{:.2} %", error * 100.0));
        let _ = write!(row, " | {} | {bytes} | {error}", nanos(&read::case(name), 1));
        rows.push(row);
    }
    let head = "histogram | window | one response time, 1 thread | 2 threads \
                | three decades, 1 thread | 2 threads | quantiles | bytes | error";
    tables::table(head, rows)
}

/// Returns a table of the bytes of nodes.
fn memory(measured: &Measured) -> String {
    let columns = bytes::COLUMNS.map(bytes::Column::name).join(" | ");
    let rows = measured.bytes.nodes.iter().map(|(scale, bytes)| {
        let bytes: Vec<_> = bytes.iter().map(|&bytes| format_grouped(bytes as u64)).collect();
        format!("{scale} | {}", bytes.join(" | "))
    });
    tables::table(&format!("bytes | {columns}"), rows)
}

fn memory_goals(measured: &Measured) -> String {
    let rows = bytes::goals(&measured.bytes).into_iter();
    let rows = rows.map(|goal| format!("{} | {}", goal.case, tables::outcome(&goal)));
    tables::table("goal | bytes", rows)
}
