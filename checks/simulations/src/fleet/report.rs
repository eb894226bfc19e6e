//! The section of the page on a limit over a fleet.

use super::cases::{Case, Table};
use super::{Observed, Results};
use crate::table::{grouped, line, percent};

const HEAD: &str = "
## A limit over a fleet

Nodes share a limit of L requests in any window of the server's time. The *leases* are those of
`leaparray-redis`: the simulation runs its `Node` and its `Ledger`. With *a round trip per
request*, the server counts in a sliding window. With *static shares*, each node has L / N. With
*counts*, a node decides by its own counts and by those of the others at the last exchange, as
gateways do; this form of it is a favourable one, since lost and repeated messages do no harm.

A window of a second has L = 10,000 and 10 buckets, and one of a minute L = 600,000 and 60
buckets. The demand is 1.5 × L, by Zipf's law, and dealt anew every 5 s. A round trip takes 25 to
75 ms. Each number is the worst of the seeds. *Overshoot* is the most requests beyond L in any
window, as a share of L; with a round trip, a request goes ahead only after the way back.
*Utilisation* is relative to a central limiter without latency. *Operations* are messages that the
server handles for an admitted request. *Local* is the share of the decisions that wait for no
message. *p99* is of the time to a decision.

";

const LOADS: &str = "
At other loads and limits, with 100 nodes, or 1,000 nodes for L = 1,000:

";

const FAULTS: &str = "
With faults, L = 10,000 in a second, 100 nodes, and ten seeds. *Late* messages take up to 2 s. A
node that crashes starts again without its state; its waiting requests are *lost*. A blank restart
loses the state of the server. A promotion restores the state of 300 ms before. After both, leases
pause for 1.7 s of each 5 s.

";

const GOALS: &str = "
The program fails if leases overshoot in any run. It also fails if they miss a goal with 10 to
1,000 nodes, at a load of 1.5 and without faults: a utilisation of at least 95 %, at most 0.5
operations per admitted request, and for windows of a minute, at least 90 % of the decisions local.
At other loads and limits, some numbers are below the goals.
";

/// Returns the section of the page.
#[must_use]
pub fn section(results: &Results) -> String {
    let is_shown = |case: &Case| match case.table {
        Table::Second => [100, 1_000].contains(&case.scenario.nodes),
        Table::Minute => case.scenario.nodes == 1_000,
        Table::Loads | Table::Faults => false,
    };
    let of = |case: &Case| {
        let window = if case.table == Table::Second { "a second" } else { "a minute" };
        vec![window.to_owned(), grouped(case.scenario.nodes as u64)]
    };
    let by_nodes = rows(results, &["window of", "nodes"], of, is_shown);
    let is_shown = |case: &Case| {
        let is_small = case.scenario.config.limit() == 1_000;
        let nodes = if is_small { 1_000 } else { 100 };
        case.table == Table::Loads && case.scenario.nodes == nodes
    };
    let of = |case: &Case| vec![grouped(case.scenario.config.limit()), load(case)];
    let loads = rows(results, &["L", "load"], of, is_shown);
    let is_shown = |case: &Case| {
        case.table == Table::Faults && case.scenario.nodes == 100 && load(case) == "1.5"
    };
    let faults = rows(results, &["faults"], |case| vec![case.name.to_owned()], is_shown);
    [HEAD, &by_nodes, LOADS, &loads, FAULTS, &faults, GOALS].concat()
}

/// Returns a table whose first columns are `names` and the strategy.
fn rows(
    results: &Results,
    names: &[&str],
    of: impl Fn(&Case) -> Vec<String>,
    is_shown: impl Fn(&Case) -> bool,
) -> String {
    let has_faults = names == ["faults"];
    let mut columns = names.to_vec();
    columns.extend(["strategy", "overshoot", "utilisation", "operations", "local", "p99 ms"]);
    columns.extend(has_faults.then_some("lost"));
    let align = columns.iter().map(|name| match *name {
        "faults" | "strategy" | "window of" => "---",
        _ => "---:",
    });
    let mut text = line(columns.iter().copied()) + &line(align);
    // The cases are in the order of their run, the long ones first.
    let mut shown: Vec<_> = results.0.iter().filter(|(case, _)| is_shown(case)).collect();
    shown.sort_by_key(|(case, _)| case.table as u8);
    for (case, observed) in shown {
        let mut cells = of(case);
        cells.push(case.strategy.name().to_owned());
        cells.extend(numbers(observed));
        cells.extend(has_faults.then(|| percent(observed.lost, 2)));
        text += &line(cells.iter().map(String::as_str));
    }
    text
}

fn numbers(it: &Observed) -> [String; 5] {
    [
        if it.overshoot > 0.0 { percent(it.overshoot, 2) } else { "0".to_owned() },
        percent(it.utilisation, 1),
        format!("{:.3}", it.operations_per_admitted),
        percent(it.local, 1),
        format!("{:.0}", it.p99_millis),
    ]
}

fn load(case: &Case) -> String {
    format!("{:.1}", case.scenario.load())
}
