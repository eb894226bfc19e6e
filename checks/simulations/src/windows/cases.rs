//! The runs of the page, and the goals.

use leaparray_redis::fleet::FleetConfig;

use super::{After, Clocks, Faults, Observed, Outage, Scenario, simulate};
use crate::parallel;

/// A row of the page: a scenario with some seeds.
#[derive(Clone, Debug)]
pub struct Case {
    pub(super) name: &'static str,
    pub(super) scenario: Scenario,
    /// The seeds are 1 to this number.
    pub(super) seeds: u64,
}

/// The cases, each with the results of its seeds.
#[derive(Debug)]
pub struct Results(pub(super) Vec<(Case, Observed)>);

const AWAY: &[Outage] = &[
    Outage { at: 40, secs: 10, after: After::Same },
    Outage { at: 90, secs: 45, after: After::Same },
];
const BLANK: &[Outage] = &[
    Outage { at: 50, secs: 0, after: After::Blank },
    Outage { at: 78, secs: 10, after: After::Blank },
    Outage { at: 140, secs: 1, after: After::Blank },
];
const PROMOTIONS: &[Outage] = &[
    Outage { at: 50, secs: 0, after: After::Replica(300) },
    Outage { at: 90, secs: 2, after: After::Replica(5_000) },
    Outage { at: 140, secs: 10, after: After::Replica(2_000) },
];
/// One of each kind.
const ALL: &[Outage] = &[
    Outage { at: 40, secs: 10, after: After::Same },
    Outage { at: 70, secs: 2, after: After::Replica(5_000) },
    Outage { at: 86, secs: 1, after: After::Blank },
    Outage { at: 100, secs: 40, after: After::Same },
];

/// The names of faults with several rows.
const PROCESSES: &str = "network, clocks, crashes, leaves and stalls";
const FAR: &str = "these, clocks 10 s behind and ahead";
const ALL_FAULTS: &str = "these, and an outage of each kind";

/// Returns a fleet without faults.
fn fleet(processes: usize) -> Scenario {
    Scenario {
        config: FleetConfig::default(),
        processes,
        secs: 180,
        resources: 6,
        second_bytes: 16 << 10,
        outbox_bytes: 1 << 20,
        faults: Faults::NONE,
        broken: None,
    }
}

/// Returns the cases of the page.
#[must_use]
pub fn all() -> Vec<Case> {
    // The long runs first, so that the processors end at the same time.
    let mut all = large();
    all.extend(medium());
    all.extend(small());
    all
}

fn large() -> Vec<Case> {
    let fleet = fleet(1_000);
    let short = Scenario { secs: 90, faults: Faults::PROCESSES, ..fleet.clone() };
    vec![
        Case { name: ALL_FAULTS, scenario: fleet.with_outages(ALL), seeds: 1 },
        Case { name: PROCESSES, scenario: short, seeds: 1 },
    ]
}

fn medium() -> Vec<Case> {
    let fleet = fleet(100);
    let with = |faults| Scenario { faults, ..fleet.clone() };
    let small = Scenario { second_bytes: 60, outbox_bytes: 900, ..fleet.clone() };
    let config = FleetConfig::default().with_history(20).and_then(|it| it.with_departed(60));
    let short = Scenario { config: config.expect("valid"), ..fleet.clone() };
    let cases = [
        ("none", with(Faults::NONE)),
        ("network, clocks up to 1 s ahead or behind", with(Faults::NETWORK)),
        (PROCESSES, with(Faults::PROCESSES)),
        (FAR, with(Faults { clocks: Clocks::Far, ..Faults::PROCESSES })),
        ("the server away for 10 s and for 45 s", fleet.with_outages(AWAY)),
        ("the server restarts blank three times", fleet.with_outages(BLANK)),
        ("a replica is promoted three times", fleet.with_outages(PROMOTIONS)),
        (ALL_FAULTS, fleet.with_outages(ALL)),
        ("small outboxes, the server away for 10 s and for 45 s", small.with_outages(AWAY)),
        (
            "a history of 20 s, records kept for 60 s",
            Scenario { faults: Faults::PROCESSES, ..short },
        ),
    ];
    cases.map(|(name, scenario)| Case { name, scenario, seeds: 2 }).into()
}

fn small() -> Vec<Case> {
    let fleet = fleet(10);
    let far =
        Scenario { faults: Faults { clocks: Clocks::Far, ..Faults::PROCESSES }, ..fleet.clone() };
    let network = Scenario { faults: Faults::NETWORK, ..fleet.clone() };
    let cases = [
        ("network, clocks up to 1 s ahead or behind", network),
        (FAR, far),
        (ALL_FAULTS, fleet.with_outages(ALL)),
    ];
    cases.map(|(name, scenario)| Case { name, scenario, seeds: 5 }).into()
}

impl Scenario {
    /// Returns the scenario with all faults of the network and of the processes, and with outages
    /// of the server.
    fn with_outages(&self, outages: &'static [Outage]) -> Self {
        let faults = Faults { outages: outages.into(), ..Faults::PROCESSES };
        Self { faults, ..self.clone() }
    }
}

/// Runs the cases.
#[must_use]
pub fn run(cases: Vec<Case>) -> Results {
    let runs: Vec<_> =
        cases.iter().flat_map(|case| (1..=case.seeds).map(move |seed| (case, seed))).collect();
    let done = parallel::map(&runs, |(case, seed)| simulate(&case.scenario, *seed));
    let mut done = done.into_iter();
    let sums = cases.into_iter().map(|case| {
        let seeds = usize::try_from(case.seeds).unwrap_or_default();
        let sum = done.by_ref().take(seeds).fold(Observed::default(), Observed::plus);
        (case, sum)
    });
    Results(sums.collect())
}

impl Results {
    /// Returns a line for each case in which a check fails, or a second of a process is lost
    /// without a reason.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let line = |(case, it): &(Case, Observed)| {
            let (violations, present) = (&it.violations, it.present);
            let Case { name, scenario, .. } = case;
            format!(
                "{} processes, {name}: {present} of {} seconds, {violations:#?}",
                scenario.processes, it.seconds
            )
        };
        self.0.iter().filter(|(case, it)| !case.is_reached(it)).map(line).collect()
    }
}

impl Case {
    fn is_reached(&self, it: &Observed) -> bool {
        let faults = &self.scenario.faults;
        let has_reason = faults.crashes > 0.0 || !faults.outages.is_empty();
        let is_all = has_reason || it.present == it.seconds;
        let is_known = faults.loses_data() || it.forgotten == 0;
        it.violations.is_empty() && is_all && is_known && it.seconds > 0
    }
}
