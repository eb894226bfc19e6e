//! The page of the fleet.

use std::error::Error;
use std::fmt::Write as _;

use super::cases::{Case, NODES, Table};
use super::plots::PLOTS;
use super::{Observed, Results};
use crate::table::{grouped, line, percent};

const HEAD: &str = "\
# A limit over a fleet, simulated

<!-- Written by `cargo run --release -p leaparray-simulations`. Do not edit: run it again. -->

Nodes share a limit of L requests in any window of n buckets of the server's time. A simulation by discrete events compares four ways to decide. The *leases* are those of
`leaparray-redis`: the simulation runs its `Node` and its `Ledger`.

| strategy | how a node decides |
|---|---|
| leases | from permits that it has leased |
| a round trip per request | the server counts in a sliding window; a node refuses a request without an answer after 200 ms |
| static shares | L / N per node, in a sliding window of its own |
| counts, every 100 or 500 ms | by its own counts and by those of all other nodes at the last exchange with the server |

The last strategy is the asynchronous global counting of gateways and rate-limit services, in a favourable form: a node sends its counts by bucket, so that repeated and
lost messages do no harm, and gets the counts of the others by bucket, so that it knows what leaves the window. Nodes with shares or counts have clocks without an error.

**Demand.** Requests arrive at random at 1.5 × L, unless a table says otherwise. The shares of the nodes follow Zipf's law with exponent 1.1. Every 5 s, the shares are dealt
anew. All strategies see the same requests. A request that waits is decided when the answer arrives; a client does not retry.

**Network.** A round trip takes 50 ms on average: each way takes 12.5 to 37.5 ms, evenly distributed, so that messages overtake each other. A node with leases gives up an
ask without an answer after 200 ms. The server takes no time for a message.

**Limits.** A window of a second has L = 10,000 and 10 buckets; a window of a minute has L = 600,000 and 60 buckets. Leases have their default parameters, except that
the bound on the rate error of the clocks is 500 ppm, the error of the clocks in the runs with drift.

At a load of 1.5, a window of a minute fills within 40 s, and refuses all requests for 20 s.

**Measured.** A run is measured for 15 s, or 120 s for windows of a minute, after the first quarantine and a window. Each number is the worst of the seeds 1, 2, …

- *Overshoot* is the most requests beyond L in any n consecutive buckets of the whole run, as a share of L. A request counts in the bucket of the server's time at which its
  node lets it go ahead. A server that decides on each request is exact in the buckets in which it decides. The requests go ahead 12.5 to 37.5 ms later, so some do so in
  the next bucket: its overshoot without faults comes from that alone.
- *Utilisation* is the number of admitted requests, divided by the number that a central limiter without latency would admit. It is above 100 % for a strategy that overshoots.
- *Operations* are messages that the server handles.
- *Local* is the share of the decisions that wait for no message, and in parentheses the same for the admitted requests. A refusal is local if the server has told the node when
  to ask again.
- *Mean* and *p99* are of the time until a decision, over all requests.

The program fails if leases overshoot in any run. It also fails if leases miss a goal in the tables by nodes: a utilisation of at least 95 %, at most 0.5 operations
per admitted request, and for windows of a minute, at least 90 % of the decisions local. These tables are of a load of 1.5. At other loads and limits, some numbers are
below the goals.

Regenerate this page and its plots with

```sh
cargo run --release -p leaparray-simulations
```
";

const LOADS: &str = "\
A limit in a second of 10 buckets, with seeds 1 to 3. The load is the demand, as a multiple of L. With a load below 1, each refusal is an error: a central limiter admits nearly
all requests, and leases strand permits on nodes that do not need them now. A limit of 1,000 over 1,000 nodes is 0.1 permits per node and bucket: a lease is then for one
request, and a node asks for most of them. The row with L = 600,000 is of a minute in 60 buckets.
";

const FAULTS: &str = "\
L = 10,000 in a second, with seeds 1 to 10. *Late* messages take from 0 to 2 s, longer than the server keeps the numbers of asks. A node that crashes starts
again at once without its state; its waiting requests are *lost*. A blank restart loses the state of the server. A promotion restores the state of 300 ms before,
with another identity. In the rows with all faults, these two alternate. Half of the clocks are fast by the error and half are slow. The utilisation contains the quarantines after failovers:
1.7 s of each 5 s. The row of a window of a minute has seeds 1 to 3, is measured for 310 s, and contains two quarantines of 67 s.

Under these faults, the server with a window for each request loses or doubles counts, and forgets all of them in a restart. Nodes with shares forget their counts in
a crash: shares that are not used hide that here.
";

/// Returns the page and its plots, each with its path in the folder of the page.
///
/// # Errors
///
/// Returns the error of a plot.
pub fn files(results: &Results) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut files = vec![("FLEET.md".to_owned(), text(results))];
    for plot in PLOTS {
        files.push((plot.file.to_owned(), plot.draw(results)?));
    }
    Ok(files)
}

fn text(results: &Results) -> String {
    let mut text = HEAD.to_owned();
    let by_nodes = |table| rows(results, table, &["nodes"], |case| vec![nodes(case)]);
    let mut section = |name: &str, before: &str, table: &str| {
        write!(text, "\n## {name}\n\n{before}\n{table}").expect("memory");
    };
    let plots: Vec<_> =
        PLOTS.iter().map(|plot| format!("![{}]({})\n", plot.text, plot.file)).collect();
    section("Windows of a second", "Seeds 1 to 3.\n", &by_nodes(Table::Second));
    section("By the number of nodes", "Windows of a second, seeds 1 to 3.\n", &plots.join("\n"));
    let before = "Seeds 1 to 3 for leases, and seed 1 for the others.\n";
    section("Windows of a minute", before, &by_nodes(Table::Minute));
    let of = |case: &Case| vec![nodes(case), grouped(case.scenario.config.limit()), load(case)];
    let loads = rows(results, Table::Loads, &["nodes", "L", "load"], of);
    section("Other loads and limits", LOADS, &loads);
    let of = |case: &Case| vec![case.name.to_owned(), nodes(case), load(case)];
    let faults = rows(results, Table::Faults, &["faults", "nodes", "load"], of);
    section("Faults", FAULTS, &faults);
    text
}

/// Returns a table whose first columns are `names` and the strategy.
fn rows(
    results: &Results,
    table: Table,
    names: &[&str],
    of: impl Fn(&Case) -> Vec<String>,
) -> String {
    let has_faults = table == Table::Faults;
    let mut columns = names.to_vec();
    columns.extend(["strategy", "overshoot", "utilisation", "operations /s", "per admitted"]);
    columns.extend(["local (of admitted)", "mean ms", "p99 ms"]);
    columns.extend(has_faults.then_some("lost"));
    let align = columns.iter().map(|name| match *name {
        "faults" | "strategy" => "---",
        _ => "---:",
    });
    let mut text = line(columns.iter().copied()) + &line(align);
    let is_shown = |case: &Case| {
        case.table == table && (table != Table::Second || NODES.contains(&case.scenario.nodes))
    };
    for (case, observed) in results.0.iter().filter(|(case, _)| is_shown(case)) {
        let mut cells = of(case);
        cells.push(case.strategy.name().to_owned());
        cells.extend(numbers(observed));
        cells.extend(has_faults.then(|| percent(observed.lost, 2)));
        text += &line(cells.iter().map(String::as_str));
    }
    text
}

fn numbers(it: &Observed) -> [String; 7] {
    [
        if it.overshoot > 0.0 { percent(it.overshoot, 2) } else { "0".to_owned() },
        percent(it.utilisation, 1),
        format!("{:.0}", it.operations),
        format!("{:.3}", it.operations_per_admitted),
        format!("{} ({})", percent(it.local, 1), percent(it.admitted_locally, 1)),
        format!("{:.1}", it.mean_millis),
        format!("{:.0}", it.p99_millis),
    ]
}

fn nodes(case: &Case) -> String {
    grouped(case.scenario.nodes as u64)
}

fn load(case: &Case) -> String {
    format!("{:.1}", case.scenario.load())
}
