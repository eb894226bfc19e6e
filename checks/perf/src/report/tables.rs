//! The tables.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::Measured;
use super::overview::outcome;
use crate::bytes::{Bytes, OURS, STAGES};
use crate::goals::{self, Row};
use crate::peers::{self, Peer};
use crate::results::Cost;
use crate::scenarios::crowd::{CROWDS, Crowd};
use crate::scenarios::first::THREADS;
use crate::scenarios::read::{LOAD, RATE, SNAPSHOT, SUM_MINUTE, with_crowd};
use crate::scenarios::rotate::{MINUTE, SECOND, STORE, Stage};
use crate::scenarios::tail::mean_of_slowest_thousandth;

const NONE: &str = "–";

/// Rows with what each is held against, the ratio, and the goal.
pub(super) fn ratios(measured: &Measured, rows: &[Row]) -> String {
    let mut table = String::from(
        "| what | threads | ns | ± | beside | ns | ratio | goal | |\n\
         |---|---:|---:|---:|---|---:|---:|---:|---|\n",
    );
    for row in rows {
        if let Some((cost, beside)) = row.costs(&measured.results) {
            ratio(&mut table, row, cost, beside);
        }
    }
    table
}

fn ratio(table: &mut String, row: &Row, cost: Cost, beside: Cost) {
    let Row { what, threads, against, against_threads, at_most } = *row;
    let against = match (against == what, against_threads) {
        (true, 1) => "itself on 1 thread".to_owned(),
        _ => against.to_owned(),
    };
    // As it is shown.
    let ratio = (cost.median / beside.median * 100.0).round() / 100.0;
    let goal = at_most.map_or(NONE.into(), |at_most| format!("≤ {at_most:.2}"));
    let reached = at_most.map_or("", |at_most| if ratio <= at_most { "met" } else { "**missed**" });
    let (ns, spread, other) = (nanos(cost.median), spread(cost), nanos(beside.median));
    let _ = writeln!(
        table,
        "| {what} | {threads} | {ns} | {spread} | {against} | {other} | {ratio:.2} | {goal} | {reached} |"
    );
}

/// What each of the peers costs.
pub(super) fn peers(measured: &Measured) -> String {
    let mut table = String::from(
        "| | one event, 1 thread | 2 threads | a finished request, 1 thread | 2 threads | a rate, \
         idle | beside a writer |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for peer in peers::ALL {
        let _ = write!(table, "| {} |", peer.name);
        for (name, threads) in columns(peer) {
            let _ = write!(table, " {} |", cell(measured, &name, threads));
        }
        table.push('\n');
    }
    table
}

fn columns(peer: &Peer) -> [(String, usize); 6] {
    [
        (peer.record(), 1),
        (peer.record(), 2),
        (peer.request(), 1),
        (peer.request(), 2),
        (peer.rate(), 1),
        (peer.rate_beside(), 1),
    ]
}

/// How many times as much as leaparray's with the precise clock.
pub(super) fn peers_as_ratios(measured: &Measured) -> String {
    let mut table = String::from(
        "| × leaparray with the precise clock | one event, 1 thread | 2 threads | a finished \
         request, 1 thread | 2 threads | a rate, idle | beside a writer |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    let ours = columns(peers::ALL[0]);
    for peer in &peers::ALL[1..] {
        let _ = write!(table, "| {} |", peer.name);
        for ((name, threads), (our_name, _)) in columns(peer).into_iter().zip(&ours) {
            let costs = measured.results.get(&name, threads);
            let costs = costs.zip(measured.results.get(our_name, threads));
            let ratio = costs.map(|(cost, ours)| cost.median / ours.median);
            let _ = write!(table, " {} |", ratio.map_or(NONE.into(), |r| format!("{r:.1}")));
        }
        table.push('\n');
    }
    table
}

/// What the peers are.
pub(super) fn who() -> String {
    let rows = peers::ALL.map(|peer| format!("| {} | {} |\n", peer.name, peer.what));
    format!("| | what is measured |\n|---|---|\n{}", rows.concat())
}

fn cell(measured: &Measured, name: &str, threads: usize) -> String {
    measured.results.get(name, threads).map_or(NONE.into(), |cost| nanos(cost.median))
}

/// The goals of this run.
pub(super) fn goals(measured: &Measured) -> String {
    let mut table = String::from(
        "| goal | record | idle | ended | unit | measured |\n|---|---:|---:|---:|---|---|\n",
    );
    for goal in goals::all(measured) {
        let (crowd, outcome) = (crowd(goal.crowd), outcome(&goal));
        let _ = writeln!(table, "| {} | {crowd} | {} | {outcome} |", goal.what, goal.unit);
    }
    table
}

/// Three cells: the threads that record, idle, and have ended.
pub(super) fn crowd(Crowd { record, idle, ended }: Crowd) -> String {
    [record, idle, ended].map(|threads| thousands(threads as u64)).join(" | ")
}

/// What reads cost with more threads.
pub(super) fn crowds(measured: &Measured) -> String {
    let mut table = String::from(
        "| what | record | idle | ended | ns | ± | × `ArcSwapOption::load` |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for what in [RATE, SUM_MINUTE, SNAPSHOT] {
        for of in CROWDS {
            let cost = measured.results.get(&with_crowd(what, of), 1);
            if let Some((cost, load)) = cost.zip(measured.results.median(LOAD, 1)) {
                let (crowd, ns, spread) = (crowd(of), nanos(cost.median), spread(cost));
                let ratio = cost.median / load;
                let _ = writeln!(table, "| {what} | {crowd} | {ns} | {spread} | {ratio:.2} |");
            }
        }
    }
    table
}

/// What a rotation costs, in processes of their own.
pub(super) fn rotations(measured: &Measured) -> String {
    let mut table = String::from(
        "| what | record | idle | ended | ns | ± | × the store | × in a fresh process |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for what in [STORE, SECOND, MINUTE] {
        for stage in Stage::ALL {
            let Some(cost) = measured.results.get(&stage.name(what), 1) else { continue };
            let ratio = |to: String| {
                let median = measured.results.median(&to, 1);
                median.map_or(NONE.into(), |median| format!("{:.2}", cost.median / median))
            };
            let (idle, ended) = stage.idle_and_ended();
            let crowd = crowd(Crowd::beside(idle, ended));
            let (ns, spread) = (nanos(cost.median), spread(cost));
            let [store, fresh] = [ratio(stage.name(STORE)), ratio(Stage::Fresh.name(what))];
            let _ = writeln!(table, "| {what} | {crowd} | {ns} | {spread} | {store} | {fresh} |");
        }
    }
    table
}

/// The bytes of a node.
pub(super) fn nodes(measured: &Measured) -> String {
    let mut table = String::from(
        "| a node, after a minute | record | idle | ended | bytes | cells |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for node in measured.bytes.iter().flat_map(|counted| &counted.nodes) {
        let rows = [
            ("all threads in each bucket", Crowd::of(node.threads), node.recording),
            ("one thread, since the others have ended", Crowd::beside(0, node.threads), node.ended),
        ];
        for (what, of, (bytes, cells)) in rows {
            let (crowd, bytes) = (crowd(of), thousands(bytes as u64));
            let _ = writeln!(table, "| {what} | {crowd} | {bytes} | {cells} |");
        }
    }
    table
}

/// The instructions of the operations that have a goal.
pub(super) fn instructions() -> String {
    let baseline = include_str!("../../../../benches/instructions.baseline");
    let recorded = |name: &str| {
        let line = baseline.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.split(' ').next()?.parse::<f64>().ok()
    };
    let mut table = String::from("| operation | instructions | goal | |\n|---|---:|---:|---|\n");
    for (name, what, at_most) in goals::INSTRUCTIONS {
        if let Some(instructions) = recorded(name) {
            let met = if instructions <= at_most { "met" } else { "**missed**" };
            let _ = writeln!(table, "| {what} | {instructions} | ≤ {at_most} | {met} |");
        }
    }
    table
}

/// The first records, each with the time that it takes to read the clock.
pub(super) fn first(measured: &Measured) -> String {
    let mut table = String::from(
        "| ns | threads | median | 99 % | 99.9 % | 99.99 % | 99.999 % | longest | mean of the \
         slowest 0.1 % | operations |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (threads, histogram) in THREADS.into_iter().zip(&measured.first.record) {
        let cells = quantiles(histogram).join(" | ");
        let _ = writeln!(table, "| first record in a bucket | {threads} | {cells} |");
    }
    table
}

pub(super) fn tail(measured: &Measured) -> String {
    let mut table = String::from(
        "| ns | median | 99 % | 99.9 % | 99.99 % | 99.999 % | longest | mean of the slowest 0.1 % | \
         operations |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let tail = &measured.tail;
    for (name, histogram) in [("a bare clock read", &tail.bare), ("record one event", &tail.record)]
    {
        let _ = writeln!(table, "| {name} | {} |", quantiles(histogram).join(" | "));
    }
    table
}

fn quantiles(histogram: &Histogram<u64>) -> Vec<String> {
    let at = |quantile| thousands(histogram.value_at_quantile(quantile));
    let mut cells: Vec<_> = [0.5, 0.99, 0.999, 0.9999, 0.99999].map(at).into();
    cells.push(thousands(histogram.max()));
    cells.push(thousands(mean_of_slowest_thousandth(histogram).round() as u64));
    cells.push(thousands(histogram.len()));
    cells
}

pub(super) fn memory(measured: &Measured) -> String {
    let Some(rows) = &measured.bytes else { return "Not counted in this run.\n".into() };
    let mut table = format!("| bytes | {} |\n|---|---:|---:|---:|---:|\n", STAGES.join(" | "));
    for Bytes { name, stages } in &rows.resources {
        let _ = writeln!(table, "| {name} | {} |", cells(stages));
        if name == OURS {
            let _ = writeln!(table, "| its budget | {} |", cells(&goals::BYTES));
        }
    }
    table
}

fn cells(stages: &[usize; 4]) -> String {
    stages.map(|bytes| thousands(bytes as u64)).join(" | ")
}

/// Every case in which a thread panicked.
pub(super) fn lost(measured: &Measured) -> String {
    let lost = measured.results.iter().filter(|(_, cost)| cost.lost > 0);
    let lines = lost.map(|(key, cost)| {
        format!(
            "- {}, {} threads: a thread panicked in {} rounds.\n",
            key.name, key.threads, cost.lost
        )
    });
    let lines: String = lines.collect();
    if lines.is_empty() { "No thread panicked in any round.\n".into() } else { lines }
}

/// The rows' spreads, from the smallest to the largest: the one in the middle, and the last.
pub(super) fn spreads(measured: &Measured) -> (f64, f64) {
    let mut spreads: Vec<_> = measured.results.iter().map(|(_, cost)| cost.spread()).collect();
    spreads.sort_by(f64::total_cmp);
    let middle = spreads.get(spreads.len() / 2).copied().unwrap_or(f64::NAN);
    (middle, spreads.last().copied().unwrap_or(f64::NAN))
}

fn spread(cost: Cost) -> String {
    format!("{:.0} %", cost.spread() * 100.0)
}

fn nanos(nanos: f64) -> String {
    if nanos < 100.0 { format!("{nanos:.1}") } else { thousands(nanos.round() as u64) }
}

/// A ratio or a count, as short as it is exact.
pub(super) fn count(number: f64) -> String {
    if number.fract() == 0.0 && number >= 1_000.0 {
        thousands(number as u64)
    } else {
        format!("{number}")
    }
}

pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
