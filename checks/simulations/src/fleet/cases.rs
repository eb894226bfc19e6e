//! The runs of the page, and the goals.

use std::time::Duration;

use leaparray_redis::lease::LeaseConfig;

use super::{Failover, Faults, Observed, Scenario, Strategy, simulate};
use crate::parallel;

/// A row of the page: a strategy in a scenario, with some seeds.
#[derive(Clone, Debug)]
pub struct Case {
    pub(super) table: Table,
    /// What is special about it, for tables by another thing than the number of nodes.
    pub(super) name: &'static str,
    pub(super) strategy: Strategy,
    pub(super) scenario: Scenario,
    /// The seeds are 1 to this number.
    pub(super) seeds: u64,
}

/// A table of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// A limit of 10,000 permits in a second, by nodes.
    Second,
    /// A limit of 600,000 permits in a minute, by nodes.
    Minute,
    /// Other loads and limits.
    Loads,
    Faults,
}

/// The cases, each with the worst results of its seeds.
#[derive(Debug)]
pub struct Results(pub(super) Vec<(Case, Observed)>);

/// The requests in a second, as a multiple of the limit.
pub(super) const LOAD: f64 = 1.5;
/// The numbers of nodes of the tables by nodes.
pub(super) const NODES: [usize; 3] = [10, 100, 1_000];
/// The numbers of nodes of the plots.
pub(super) const PLOTTED_NODES: [usize; 5] = [10, 30, 100, 300, 1_000];

/// The name of all faults at once.
pub(super) const ALL_FAULTS: &str = "all of these";

/// Returns a limit whose bound on the rate error of the clocks is the error of the faults, so that the protocol has no margin.
fn config(limit: u64, buckets: u32, secs: u64) -> LeaseConfig {
    let config = LeaseConfig::new(limit, buckets, Duration::from_secs(secs));
    config.and_then(|it| it.with_drift_ppm(Faults::ALL.drift_ppm)).expect("valid")
}

fn second(nodes: usize) -> Scenario {
    let config = config(10_000, 10, 1);
    Scenario { config, nodes, demand: LOAD * 10_000.0, secs: 15, faults: Faults::NONE }
}

fn minute(nodes: usize) -> Scenario {
    Scenario { config: config(600_000, 60, 60), secs: 120, ..second(nodes) }
}

/// Returns the cases of the page.
#[must_use]
pub fn all() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |table, name, strategy, scenario, seeds| {
        all.push(Case { table, name, strategy, scenario, seeds });
    };
    // The long runs first, so that the processors end at the same time.
    for (nodes, strategy) in by_nodes(&NODES) {
        let seeds = if strategy == Strategy::Leases { 3 } else { 1 };
        add(Table::Minute, "", strategy, minute(nodes), seeds);
    }
    for (nodes, strategy) in by_nodes(&PLOTTED_NODES) {
        add(Table::Second, "", strategy, second(nodes), 3);
    }
    for nodes in [100, 1_000] {
        for load in [0.5, 0.8, 1.0, 1.2, 5.0] {
            let scenario = Scenario { demand: load * 10_000.0, ..second(nodes) };
            add(Table::Loads, "", Strategy::Leases, scenario, 3);
        }
        for strategy in [Strategy::Leases, Strategy::RoundTrips] {
            let config = config(1_000, 10, 1);
            let scenario = Scenario { config, demand: LOAD * 1_000.0, ..second(nodes) };
            add(Table::Loads, "", strategy, scenario, 3);
        }
    }
    let scenario = Scenario { demand: 10_000.0, ..minute(1_000) };
    add(Table::Loads, "", Strategy::Leases, scenario, 3);
    for (name, faults) in faults() {
        add(Table::Faults, name, Strategy::Leases, Scenario { faults, ..second(100) }, 10);
    }
    for nodes in [10, 1_000] {
        let scenario = Scenario { faults: Faults::ALL, ..second(nodes) };
        add(Table::Faults, ALL_FAULTS, Strategy::Leases, scenario, 10);
    }
    let rare = Faults { failover_secs: 150, ..Faults::ALL };
    let scenario = Scenario { faults: rare, secs: 310, ..minute(100) };
    add(
        Table::Faults,
        "all, 600,000 in a minute, a failover every 150 s",
        Strategy::Leases,
        scenario,
        3,
    );
    for strategy in &Strategy::ALL[1..] {
        let scenario = Scenario { faults: Faults::ALL, ..second(100) };
        add(Table::Faults, ALL_FAULTS, *strategy, scenario, 10);
    }
    all
}

fn by_nodes(nodes: &[usize]) -> impl Iterator<Item = (usize, Strategy)> {
    nodes.iter().flat_map(|&nodes| Strategy::ALL.map(|strategy| (nodes, strategy)))
}

fn faults() -> [(&'static str, Faults); 9] {
    let none = Faults::NONE;
    let Faults { loss, repeats, late, crashes, drift_ppm, .. } = Faults::ALL;
    [
        ("none", none),
        ("5 % of the messages lost", Faults { loss, ..none }),
        ("5 % delivered twice", Faults { repeats, ..none }),
        ("1 % up to 2 s late", Faults { late, ..none }),
        ("20 % of the nodes crash in a second", Faults { crashes, ..none }),
        ("a blank restart every 5 s", Faults { failovers: Failover::Restart, ..none }),
        ("a promotion every 5 s", Faults { failovers: Failover::Promotion, ..none }),
        ("clocks fast or slow by 500 ppm", Faults { drift_ppm, ..none }),
        (ALL_FAULTS, Faults::ALL),
    ]
}

/// Runs the cases.
///
/// # Panics
///
/// Panics if a case has no seed.
#[must_use]
pub fn run(cases: Vec<Case>) -> Results {
    let runs: Vec<_> =
        cases.iter().flat_map(|case| (1..=case.seeds).map(move |seed| (case, seed))).collect();
    let done = parallel::map(&runs, |(case, seed)| simulate(case.strategy, &case.scenario, *seed));
    let mut done = done.into_iter();
    let worst = cases.into_iter().map(|case| {
        let seeds = usize::try_from(case.seeds).unwrap_or_default();
        let worst = done.by_ref().take(seeds).reduce(Observed::worse);
        (case, worst.expect("a seed"))
    });
    Results(worst.collect())
}

impl Results {
    /// Returns a line for each case in which leases overshoot or miss a goal.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let leases = self.0.iter().filter(|(case, _)| case.strategy == Strategy::Leases);
        let missed = leases.filter(|(case, it)| {
            let is_used = it.utilisation >= 0.95 && it.operations_per_admitted <= 0.5;
            let is_reached = match case.table {
                Table::Second => is_used,
                Table::Minute => is_used && it.local >= 0.9,
                Table::Loads | Table::Faults => true,
            };
            it.overshoot > 0.0 || !is_reached
        });
        missed.map(|(case, observed)| format!("{case:?}: {observed:?}")).collect()
    }
}
