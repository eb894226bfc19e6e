//! The runs, and the goals.

use std::time::Duration;

use leaparray_redis::lease::LeaseConfig;

use super::{Failover, Faults, Observed, RoundTrips, Scenario, Strategy, Waits, float, simulate};
use crate::parallel;

/// A strategy in a scenario, with some seeds. The page shows some of the cases; the goals are of
/// all.
#[derive(Clone, Debug)]
pub struct Case {
    pub(super) table: Table,
    /// The faults, for their table; otherwise empty.
    pub(super) name: &'static str,
    pub(super) strategy: Strategy,
    pub(super) scenario: Scenario,
    /// The seeds are 1 to this number.
    pub(super) seeds: u64,
}

/// The group of a case, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// A limit of 10,000 permits in a second, by nodes.
    Second,
    /// A limit of 600,000 permits in a minute, by nodes.
    Minute,
    /// Other loads and limits.
    Loads,
    /// Limits in any second.
    AnySecond,
    /// Requests that wait, at nodes near and far from the server.
    Waiting,
    /// The same by the longest round trip, and by the share of the messages that are lost.
    Distances,
    Losses,
    Faults,
}

/// The cases, each with the worst results of its seeds.
#[derive(Debug)]
pub struct Results(pub(super) Vec<(Case, Observed)>);

/// The requests in a second, as a multiple of the limit.
const LOAD: f64 = 1.5;
/// A load with which the permits of a window are used at once.
const HIGH_LOAD: f64 = 5.0;
/// The numbers of nodes with a limit in a minute, and with a limit in a second.
const NODES_OF_MINUTES: [usize; 3] = [10, 100, 1_000];
const NODES_OF_SECONDS: [usize; 5] = [10, 30, 100, 300, 1_000];

/// The name of all faults at once.
const ALL_FAULTS: &str = "all of these";

/// Returns a limit whose bound on the rate error of the clocks is the error of the faults, so that
/// the protocol has no margin.
fn config(limit: u64, buckets: u32, secs: u64) -> LeaseConfig {
    let config = LeaseConfig::of_buckets(limit, buckets, Duration::from_secs(secs));
    config.and_then(|it| it.with_drift_ppm(Faults::ALL.drift_ppm)).expect("valid")
}

fn second(nodes: usize) -> Scenario {
    let config = config(10_000, 10, 1);
    Scenario { nodes, demand: LOAD * 10_000.0, ..Scenario::alike(config, 15) }
}

fn minute(nodes: usize) -> Scenario {
    Scenario { config: config(600_000, 60, 60), secs: 120, ..second(nodes) }
}

/// Returns all cases.
#[must_use]
pub fn all() -> Vec<Case> {
    // The long runs first, so that the processors end at the same time.
    let mut all = minutes();
    all.extend(seconds());
    all.extend(loads());
    all.extend(any_second());
    all.extend(waiting());
    all.extend(distances());
    all.extend(losses());
    all.extend(leases_with_faults());
    all.extend(others_with_faults());
    all
}

fn minutes() -> Vec<Case> {
    let case = |(nodes, strategy)| {
        let seeds = if strategy == Strategy::Leases { 3 } else { 1 };
        Case { table: Table::Minute, name: "", strategy, scenario: minute(nodes), seeds }
    };
    by_nodes(&NODES_OF_MINUTES).map(case).collect()
}

fn seconds() -> Vec<Case> {
    let case = |(nodes, strategy)| {
        let scenario = second(nodes);
        Case { table: Table::Second, name: "", strategy, scenario, seeds: 3 }
    };
    by_nodes(&NODES_OF_SECONDS).map(case).collect()
}

fn by_nodes(nodes: &[usize]) -> impl Iterator<Item = (usize, Strategy)> {
    nodes.iter().flat_map(|&nodes| Strategy::ALL.map(|strategy| (nodes, strategy)))
}

fn loads() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |strategy, scenario| {
        all.push(Case { table: Table::Loads, name: "", strategy, scenario, seeds: 3 });
    };
    for nodes in [100, 1_000] {
        for load in [0.5, 0.8, 1.0, 1.2, 5.0] {
            add(Strategy::Leases, second(nodes).with_load(load));
        }
        for strategy in [Strategy::Leases, Strategy::RoundTrips] {
            let small = Scenario { config: config(1_000, 10, 1), ..second(nodes) };
            add(strategy, small.with_load(LOAD));
        }
    }
    add(Strategy::Leases, minute(1_000).with_load(1.0));
    all
}

/// Returns a limit in any interval of a second.
fn in_any_second(limit: u64) -> LeaseConfig {
    let config = LeaseConfig::new(limit, Duration::from_secs(1));
    config.and_then(|it| it.with_drift_ppm(Faults::ALL.drift_ppm)).expect("valid")
}

fn any_second() -> Vec<Case> {
    let second = Scenario { config: in_any_second(10_000), ..second(100) };
    let loads = [0.5, 0.8, 1.5, 5.0].map(|load| ("", second.with_load(load)));
    let faults = Scenario { faults: Faults::ALL, ..second };
    // With requests that wait: they are granted permits before these are free.
    let waiting = Scenario { waits: Waits::Window, ..second };
    let back = |step_back, faults| Scenario { faults: Faults { step_back, ..faults }, ..waiting };
    let faults = [
        (ALL_FAULTS, faults),
        ("the server's clock steps back by 30 ms each 2.3 s", back(30_000, Faults::NONE)),
        ("the same by 700 ms", back(700_000, Faults::NONE)),
        ("the same by 700 ms, and all", back(700_000, Faults::ALL)),
    ];
    let case = |(name, scenario)| {
        let (table, strategy) = (Table::AnySecond, Strategy::Leases);
        Case { table, name, strategy, scenario, seeds: 3 }
    };
    loads.into_iter().chain(faults).map(case).collect()
}

/// Returns a case of 8 nodes of 100 workers.
fn workers(table: Table, name: &'static str, config: LeaseConfig, round_trips: RoundTrips) -> Case {
    let scenario = Scenario { nodes: 8, workers: 100, ..Scenario::alike(config, 15) };
    let scenario = Scenario { waits: Waits::Window, round_trips, ..scenario };
    Case { table, name, strategy: Strategy::Leases, scenario, seeds: 3 }
}

fn distances() -> Vec<Case> {
    let config = in_any_second(4_000);
    let case = |longest| workers(Table::Distances, "", config, RoundTrips::ByNode { longest });
    [1, 5, 25, 50, 100, 150, 200, 250].map(case).into()
}

fn losses() -> Vec<Case> {
    let case = |loss| {
        let config = in_any_second(4_000);
        let mut case = workers(Table::Losses, "", config, RoundTrips::BELOW_HALF_A_WINDOW);
        case.scenario.faults.loss = loss;
        case
    };
    [0.0, 0.005, 0.01, 0.02, 0.05, 0.1].map(case).into()
}

fn waiting() -> Vec<Case> {
    let case = |(name, config, round_trips)| workers(Table::Waiting, name, config, round_trips);
    [
        ("any second", in_any_second(4_000), RoundTrips::BELOW_HALF_A_WINDOW),
        ("any second", in_any_second(4_000), RoundTrips::Even),
        ("10 buckets", config(4_000, 10, 1), RoundTrips::BELOW_HALF_A_WINDOW),
        ("10 buckets", config(4_000, 10, 1), RoundTrips::Even),
    ]
    .map(case)
    .into()
}

fn leases_with_faults() -> Vec<Case> {
    let none = Faults::NONE;
    let Faults { loss, repeats, late, crashes, drift_ppm, .. } = Faults::ALL;
    let rare = Faults { failover_secs: 150, ..Faults::ALL };
    let minute = Scenario { secs: 310, ..minute(100) };
    let second = second(100);
    let high = second.with_load(HIGH_LOAD);
    // The highest bound of the protocol: leases are much shorter or longer on a node than on the
    // server.
    let drift = Faults { drift_ppm: LeaseConfig::MAX_DRIFT_PPM, ..none };
    let bound = second.config.with_drift_ppm(LeaseConfig::MAX_DRIFT_PPM).expect("valid");
    let bound = Scenario { config: bound, ..second };
    let cases = [
        ("none", second, none),
        ("5 % of the messages lost", second, Faults { loss, ..none }),
        ("5 % delivered twice", second, Faults { repeats, ..none }),
        ("1 % up to 2 s late", second, Faults { late, ..none }),
        ("20 % of the nodes crash in a second", second, Faults { crashes, ..none }),
        ("a blank restart every 5 s", second, Faults { failovers: Failover::Restart, ..none }),
        ("a promotion every 5 s", second, Faults { failovers: Failover::Promotion, ..none }),
        ("clocks fast or slow by 500 ppm", second, Faults { drift_ppm, ..none }),
        (ALL_FAULTS, second, Faults::ALL),
        (ALL_FAULTS, Scenario { nodes: 10, ..second }, Faults::ALL),
        (ALL_FAULTS, Scenario { nodes: 1_000, ..second }, Faults::ALL),
        (ALL_FAULTS, high, Faults::ALL),
        ("clocks fast or slow by 10 %, with that bound", bound, drift),
        ("clocks fast or slow by 10 %, with that bound", bound.with_load(HIGH_LOAD), drift),
        ("all, 600,000 in a minute, a failover every 150 s", minute, rare),
    ];
    let case = |(name, scenario, faults)| {
        let seeds = if faults == rare { 3 } else { 10 };
        let scenario = Scenario { faults, ..scenario };
        Case { table: Table::Faults, name, strategy: Strategy::Leases, scenario, seeds }
    };
    cases.map(case).into()
}

fn others_with_faults() -> Vec<Case> {
    let scenario = Scenario { faults: Faults::ALL, ..second(100) };
    let case = |&strategy| {
        let name = ALL_FAULTS;
        Case { table: Table::Faults, name, strategy, scenario, seeds: 10 }
    };
    Strategy::ALL[1..].iter().map(case).collect()
}

impl Scenario {
    /// Returns the scenario with a demand that is `load` times the limit.
    fn with_load(self, load: f64) -> Self {
        Self { demand: self.demand / self.load() * load, ..self }
    }

    /// Returns the demand as a multiple of the limit.
    pub(super) fn load(&self) -> f64 {
        let window = self.config.bucket_len() * self.config.buckets();
        self.demand * window.as_secs_f64() / float(self.config.limit())
    }
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
                Table::Loads | Table::Faults | Table::AnySecond | Table::Losses => true,
                Table::Waiting | Table::Distances => {
                    let is_even = it.fairness >= 0.9 && it.most_share <= 1.1;
                    match case.scenario.round_trips {
                        RoundTrips::ByNode { longest } => {
                            longest > 100 || is_even && it.utilisation >= 0.95
                        }
                        _ => is_even,
                    }
                }
            };
            it.overshoot > 0.0 || !is_reached
        });
        missed.map(|(case, observed)| format!("{case:?}: {observed:?}")).collect()
    }
}
