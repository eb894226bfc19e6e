//! One window over a small fleet, for a debug build, and with broken rules. Larger fleets are
//! checked by the program.

use leaparray_redis::fleet::FleetConfig;
use leaparray_simulations::windows::{
    After, Broken, Check, Clocks, Faults, Observed, Outage, Scenario, search, simulate,
};

const OUTAGES: &[Outage] = &[
    Outage { at: 20, secs: 10, after: After::Same },
    Outage { at: 45, secs: 1, after: After::Replica(3_000) },
    Outage { at: 60, secs: 1, after: After::Blank },
];

fn scenario(faults: Faults) -> Scenario {
    Scenario {
        config: FleetConfig::default(),
        processes: 8,
        secs: 90,
        resources: 4,
        second_bytes: 1 << 10,
        outbox_bytes: 16 << 10,
        faults,
        broken: None,
    }
}

/// Faults that are frequent, for a small fleet.
fn faults() -> Faults {
    Faults { crashes: 0.01, leaves: 0.01, stalls: 0.01, ..Faults::NETWORK }
}

/// Returns the results of some seeds.
fn run(scenario: &Scenario, seeds: u64) -> Observed {
    (1..=seeds).map(|seed| simulate(scenario, seed)).fold(Observed::default(), Observed::plus)
}

#[test]
fn checks_hold_under_faults() {
    let observed = run(&scenario(Faults { outages: OUTAGES.into(), ..faults() }), 4);
    assert!(observed.violations.is_empty(), "{:#?}", observed.violations);
    assert!(observed.returns > 0 && observed.missed > 0 && observed.lost > 0 && observed.left > 0);
}

/// The answer to the first delivery of a process is lost, and then the server loses its data.
#[test]
fn checks_hold_if_a_process_joins_twice() {
    const BLANK: &[Outage] = &[Outage { at: 29, secs: 1, after: After::Blank }];
    let faults = Faults { loss: 0.4, crashes: 0.1, outages: BLANK.into(), ..faults() };
    let scenario = Scenario { processes: 20, secs: 60, ..scenario(faults) };
    let observed = run(&scenario, 20);
    assert!(observed.violations.is_empty(), "{:#?}", observed.violations);
}

/// After a blank restart, a process is forgotten that does not reach the server for `lost_after`.
/// The second reader begins after that: it learns of the process when the process is back, and then
/// the process delivers a second that is final.
#[test]
fn checks_hold_if_a_forgotten_process_comes_back() {
    const BLANK: &[Outage] = &[Outage { at: 53, secs: 1, after: After::Blank }];
    let faults = Faults { loss: 0.4, clocks: Clocks::Far, outages: BLANK.into(), ..Faults::NONE };
    let scenario = Scenario { secs: 110, ..scenario(faults) };
    let observed = run(&scenario, 10);
    assert!(observed.violations.is_empty(), "{:#?}", observed.violations);
}

/// A record expires while the server is away, and the answer to the last delivery was lost.
#[test]
fn checks_hold_if_a_record_expires_during_an_outage() {
    const AWAY: &[Outage] = &[Outage { at: 21, secs: 31, after: After::Same }];
    let config = FleetConfig::default()
        .with_history(10)
        .and_then(|it| it.with_delivery(12))
        .and_then(|it| it.with_departed(32));
    let faults = Faults { loss: 0.4, outages: AWAY.into(), ..Faults::NONE };
    let scenario = Scenario { config: config.expect("valid"), ..scenario(faults) };
    let observed = run(&scenario, 10);
    assert!(observed.violations.is_empty(), "{:#?}", observed.violations);
}

/// A process joins between two outages, while the reader has already seen that the server is
/// silent. After the second outage, a replica does not know the process, and has the deliveries
/// that the reader knows.
#[test]
fn checks_hold_if_a_join_between_two_outages_is_lost() {
    const OUTAGES: &[Outage] = &[
        Outage { at: 28, secs: 2, after: After::Replica(12_816) },
        Outage { at: 58, secs: 36, after: After::Same },
        Outage { at: 96, secs: 45, after: After::Replica(1_613) },
    ];
    let faults = Faults {
        loss: 0.193_409_377_807_140_74,
        slow: 0.149_719_507_493_135_73,
        clocks: Clocks::Far,
        crashes: 0.043_599_360_932_195_644,
        outages: OUTAGES.into(),
        ..Faults::NONE
    };
    let scenario = Scenario {
        config: FleetConfig::default(),
        processes: 3,
        secs: 191,
        resources: 0,
        second_bytes: 16 << 10,
        outbox_bytes: 1 << 20,
        faults,
        broken: None,
    };
    let observed = simulate(&scenario, 3_460_377);
    assert!(observed.violations.is_empty(), "{:#?}", observed.violations);
}

#[test]
fn checks_hold_if_clocks_are_far_off() {
    let observed = run(&scenario(Faults { clocks: Clocks::Far, ..faults() }), 4);
    assert!(observed.violations.is_empty(), "{:#?}", observed.violations);
}

#[test]
fn checks_hold_if_outboxes_are_small() {
    let small = Scenario { second_bytes: 40, outbox_bytes: 300, ..scenario(faults()) };
    let faults = Faults { outages: OUTAGES.into(), ..faults() };
    let observed = run(&Scenario { faults, ..small }, 4);
    assert!(observed.violations.is_empty(), "{:#?}", observed.violations);
    assert!((150..=300).contains(&observed.most_bytes), "{observed:?}");
}

#[test]
fn no_second_is_lost_by_the_network() {
    let observed = run(&scenario(Faults::NETWORK), 4);
    assert!(observed.violations.is_empty(), "{:#?}", observed.violations);
    assert_eq!((observed.present, observed.forgotten), (observed.seconds, 0));
}

/// A late duplicate replaces the record by an older one, and a second is in the record of two
/// deliveries.
#[test]
fn server_that_takes_any_version_is_caught() {
    let broken = Some(Broken::TakesAnyVersion);
    let observed = run(&Scenario { broken, ..scenario(faults()) }, 1);
    assert!(observed.violations.count(Check::Conservation) > 0, "{:#?}", observed.violations);
}

/// A process joins with a second that the reader has shown as final.
#[test]
fn reader_without_the_grace_is_caught() {
    let broken = Some(Broken::NoGrace);
    let observed = run(&Scenario { broken, ..scenario(faults()) }, 2);
    assert!(observed.violations.count(Check::Final) > 0, "{:#?}", observed.violations);
}

/// The server has taken seconds that the process counts as missed.
#[test]
fn process_that_counts_unanswered_deliveries_as_missed_is_caught() {
    let broken = Some(Broken::UnansweredIsMissed);
    let observed = run(&Scenario { broken, ..scenario(faults()) }, 1);
    assert!(observed.violations.count(Check::Conservation) > 0, "{:#?}", observed.violations);
}

#[test]
fn seed_determines_the_results() {
    let scenario =
        Scenario { secs: 50, ..scenario(Faults { outages: OUTAGES.into(), ..faults() }) };
    assert_eq!(simulate(&scenario, 1), simulate(&scenario, 1));
    assert_ne!(simulate(&scenario, 1), simulate(&scenario, 2));
}

/// More seeds run outside of the tests, by `cargo run --release -p leaparray-simulations --
/// delivery 0 50000`.
#[test]
fn each_count_of_a_random_fleet_arrives_once_or_is_told_as_missed() {
    let seeds = if cfg!(debug_assertions) { 10 } else { 200 };
    let found = search::search(0..seeds);
    assert!(found.is_none(), "{found:#?}");
}
