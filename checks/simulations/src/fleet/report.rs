//! The section of the page on a limit over a fleet.

use super::cases::{Case, Table};
use super::{Observed, Results, RoundTrips};
use crate::table::{grouped, line, percent, plot};

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

const ANY_SECOND: &str = "
With L = 10,000 in any second, at 100 nodes, relative to a central limiter that knows the time of
each request. *In any second* is the most requests beyond L in any second, wherever it begins, by a
clock that does not step back. Where the server's clock steps back, requests wait for a second, and
the server tells processes ahead which permits they may use:

";

const WAITING: &str = "
With requests that wait: 8 nodes of 100 workers, each of which has its next request as soon as one
is admitted, and L = 4,000. The round trips are those above, or from 0.2 to 100 ms by node. A
*share* is what a node gets, relative to the mean of all:

";

const PLOTS: &str = "
The same with L = 4,000 in any second, by the longest of the round trips, which begin at 0.2 ms, and
at 0.2 to 100 ms by the share of the messages that are lost. A line of shares is from the least to
the most that a node gets, and its point is the mean of all:

```text
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
With requests that wait, each node gets its share within 10 %, and at round trips of 0.2 to 100 ms,
the utilisation is at least 95 %.
At other loads and limits, some numbers are below the goals.
";

/// Returns the section of the page.
#[must_use]
pub fn section(results: &Results) -> String {
    let is_shown = |case: &Case| match case.table {
        Table::Second => [100, 1_000].contains(&case.scenario.nodes),
        Table::Minute => case.scenario.nodes == 1_000,
        _ => false,
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
    let (any, waiting) = (any_second(results), waiting(results));
    let plots = plots(results) + "```\n";
    let waiting = [WAITING, &waiting, PLOTS, &plots].concat();
    [HEAD, &by_nodes, LOADS, &loads, ANY_SECOND, &any, &waiting, FAULTS, &faults, GOALS].concat()
}

fn any_second(results: &Results) -> String {
    let names = ["load", "faults", "in any second", "utilisation", "operations", "local", "p99 ms"];
    let mut text = line(names.into_iter());
    text += &line(["---:", "---", "---:", "---:", "---:", "---:", "---:"].into_iter());
    for (case, it) in results.0.iter().filter(|it| it.0.table == Table::AnySecond) {
        let [_, rest @ ..] = numbers(it);
        let cells = [load(case), case.name.to_owned(), overshoot(it.in_any_interval)];
        text += &line(cells.iter().chain(&rest).map(String::as_str));
    }
    text
}

fn waiting(results: &Results) -> String {
    let names = ["limit", "round trips", "overshoot", "utilisation", "operations", "p99 ms"];
    let mut text = line(names.into_iter().chain(["least share", "most share"]));
    let numbers_align = ["---:"; 6];
    text += &line(["---", "---"].into_iter().chain(numbers_align));
    for (case, it) in results.0.iter().filter(|it| it.0.table == Table::Waiting) {
        let is_even = case.scenario.round_trips == RoundTrips::Even;
        let round_trips = if is_even { "25 to 75 ms" } else { "0.2 to 100 ms" };
        let [overshoot, utilisation, operations, _, p99] = numbers(it);
        let shares = [it.fairness, it.most_share].map(|it| format!("{it:.2}"));
        let cells = [case.name.to_owned(), round_trips.to_owned(), overshoot, utilisation];
        let cells = cells.into_iter().chain([operations, p99]).chain(shares);
        text += &line(cells.collect::<Vec<_>>().iter().map(String::as_str));
    }
    text
}

/// Returns the name of a case in a plot.
type Name = fn(&Case) -> String;

/// Returns plots of the utilisation and of the shares.
fn plots(results: &Results) -> String {
    let by_round_trip = |case: &Case| match case.scenario.round_trips {
        RoundTrips::ByNode { longest } => format!("up to {longest} ms"),
        _ => String::new(),
    };
    let by_loss = |case: &Case| format!("{} lost", percent(case.scenario.faults.loss, 1));
    let names: [(Table, Name); 2] = [(Table::Distances, by_round_trip), (Table::Losses, by_loss)];
    let plots = names.iter().flat_map(|(table, name)| {
        let cases = || results.0.iter().filter(|it| it.0.table == *table);
        let rate = |it: &Observed| 100.0 * it.utilisation;
        let used = cases().map(|(case, it)| (name(case), [rate(it); 3]));
        let shares = cases().map(|(case, it)| (name(case), [it.fairness, 1.0, it.most_share]));
        [
            plot("utilisation, %", [0.0, 100.0], NAMES, used),
            plot("shares, relative to the mean", [0.0, 2.0], NAMES, shares),
        ]
    });
    plots.collect::<Vec<_>>().join("\n")
}

/// The width of the names in the plots.
const NAMES: usize = 16;

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
        overshoot(it.overshoot),
        percent(it.utilisation, 1),
        format!("{:.3}", it.operations_per_admitted),
        percent(it.local, 1),
        format!("{:.0}", it.p99_millis),
    ]
}

fn overshoot(it: f64) -> String {
    if it > 0.0 { percent(it, 2) } else { "0".to_owned() }
}

fn load(case: &Case) -> String {
    format!("{:.1}", case.scenario.load())
}
