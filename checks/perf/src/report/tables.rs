//! The tables of the reports.

use std::fmt::Write;

use super::Measured;
use crate::bytes::{OURS, STAGES};
use crate::goals::{self, Goal, Row};
use crate::peers::{self, EVENT, RATE, RATE_WITH_WRITER, REQUEST};
use crate::results::{Cost, Results, quantile};
use crate::scenarios::crowd::Crowd;

/// Returns a Markdown table. The cells of a row are separated by ` | `.
pub(crate) fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let alignment = "---:|".repeat(head.matches(" | ").count());
    let mut table = format!("| {head} |\n|---|{alignment}\n");
    for row in rows {
        let _ = writeln!(table, "| {row} |");
    }
    table
}

/// Returns a table of costs, in the unit of each row, with the goals.
pub(crate) fn costs(results: &Results, rows: &[Row]) -> String {
    let rows = rows.iter().filter_map(|row| {
        let cost = results.get(&row.case, row.crowd)?;
        let value = match row.goal(results) {
            Some(goal) => outcome(&goal),
            None => number(row.value(results)?),
        };
        let (case, crowd, ns, spread) =
            (&row.case, crowd(row.crowd), nanos(cost.median), percent(cost.spread()));
        Some(format!("{case} | {crowd} | {ns} | {spread} | {} | {value}", row.unit))
    });
    table("case | record | idle | ended | ns | ± | unit | measured", rows)
}

/// Returns three cells: the numbers of threads that record, idle, and have ended.
pub(crate) fn crowd(Crowd { record, idle, ended }: Crowd) -> String {
    [record, idle, ended].map(|threads| format_grouped(threads as u64)).join(" | ")
}

/// Returns the measured value, the goal, and whether it is met.
pub(crate) fn outcome(goal: &Goal) -> String {
    let is_met = goal.measured <= goal.at_most;
    let (sign, met) = if is_met { ("≤", "met") } else { (">", "**missed**") };
    format!("{} {sign} {}: {met}", number(goal.measured), number(goal.at_most))
}

/// Returns a table of the costs of all peers.
pub(super) fn peers(measured: &Measured) -> String {
    let one = Crowd::of(1);
    let columns = [EVENT, REQUEST].map(|case| [(case, one), (case, Crowd::of(2))]);
    let rates = [(RATE, one), (RATE_WITH_WRITER, one)];
    let rows = peers::ALL.map(|peer| {
        let mut row = peer.name.to_owned();
        for (case, crowd) in columns.concat().into_iter().chain(rates) {
            let cost = measured.run.results.median(&peer.case(case), crowd);
            let _ = write!(row, " | {}", cost.map_or("–".to_owned(), nanos));
        }
        row
    });
    let head = "peer | one event, 1 thread | 2 threads | a finished request, 1 thread | 2 threads \
                | a rate, no writer | concurrent writer";
    table(head, rows)
}

pub(super) fn peer_descriptions() -> String {
    let rows = peers::ALL.map(|peer| format!("{} | {}", peer.name, peer.description));
    table("peer | what is measured", rows).replace("---:", "---")
}

/// Returns a table of the bytes of a resource of each kind.
pub(super) fn memory(measured: &Measured) -> String {
    let row = |name: &str, bytes: [usize; 4]| {
        format!("{name} | {}", bytes.map(|bytes| format_grouped(bytes as u64)).join(" | "))
    };
    let mut rows = Vec::new();
    for (name, stages) in &measured.bytes.resources {
        rows.push(row(name, *stages));
        if name == OURS {
            rows.push(row("goal of leaparray, at most", goals::BYTES));
        }
    }
    table(&format!("bytes | {}", STAGES.join(" | ")), rows)
}

/// Returns a table of the bytes of a node.
pub(super) fn nodes(measured: &Measured) -> String {
    let rows = goals::nodes(&measured.bytes.nodes).into_iter();
    let rows = rows.map(|goal| format!("{} | {}", crowd(goal.crowd), outcome(&goal)));
    table("record | idle | ended | bytes", rows)
}

/// Returns a list of the cases in which a thread panicked.
pub(crate) fn lost(results: &Results) -> String {
    let mut lines = String::new();
    for ((case, Crowd { record, .. }), Cost { lost, .. }) in &results.0 {
        if *lost > 0 {
            let _ =
                writeln!(lines, "- {case}, {record} threads: a thread panicked in {lost} rounds.");
        }
    }
    if lines.is_empty() { "No thread panicked in any round.".into() } else { lines }
}

/// Returns the median and the maximum of the spreads of all cases.
pub(super) fn spreads(results: &Results) -> (String, String) {
    let mut spreads: Vec<_> = results.0.values().map(Cost::spread).collect();
    spreads.sort_by(f64::total_cmp);
    (percent(quantile(0.5, &spreads)), percent(quantile(1.0, &spreads)))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub(crate) fn nanos(nanos: f64) -> String {
    if nanos < 100.0 { format!("{nanos:.1}") } else { format_grouped(nanos.round() as u64) }
}

/// Formats a ratio or a count with the fewest digits that are exact.
pub(crate) fn number(number: f64) -> String {
    if number.fract() == 0.0 && number >= 1_000.0 {
        format_grouped(number as u64)
    } else {
        format!("{number}")
    }
}

pub(crate) fn format_grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
