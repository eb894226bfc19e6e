//! A limit over a fleet: it is never exceeded, and the goals for its use hold.

use std::time::Duration;

use leaparray_redis::lease::LeaseConfig;
use leaparray_simulations::fleet::{Observed, Scenario, simulate};

fn second(nodes: usize) -> Scenario {
    let config = LeaseConfig::new(10_000, 10, Duration::from_secs(1)).expect("valid");
    Scenario {
        config,
        nodes,
        demand: 15_000.0,
        round_trip: 50_000,
        secs: 10,
        loss: 0.0,
        crashes: 0.0,
        failover_every: None,
        drift_ppm: 500,
    }
}

fn minute(nodes: usize) -> Scenario {
    let config = LeaseConfig::new(600_000, 60, Duration::from_secs(60)).expect("valid");
    Scenario { config, secs: 120, ..second(nodes) }
}

fn run(name: &str, scenario: &Scenario, seed: u64) -> Observed {
    let observed = simulate(scenario, seed);
    println!("{name}, {} nodes, seed {seed}: {observed:.3?}", scenario.nodes);
    assert_eq!(observed.overshoot, 0);
    observed
}

#[test]
fn windows_of_a_second_are_used() {
    for nodes in [10, 100, 1_000] {
        for seed in 1..=3 {
            let it = run("second", &second(nodes), seed);
            assert!(it.utilisation >= 0.95 && it.operations_per_permit <= 0.5, "{it:?}");
        }
    }
}

#[test]
fn windows_of_a_minute_are_used_and_decided_locally() {
    for nodes in [10, 100, 1_000] {
        let it = run("minute", &minute(nodes), 1);
        assert!(it.utilisation >= 0.95 && it.operations_per_permit <= 0.5, "{it:?}");
        assert!(it.local >= 0.9, "{it:?}");
    }
}

#[test]
fn faults_do_not_overshoot() {
    for seed in 1..=10 {
        let faults =
            Scenario { loss: 0.05, crashes: 0.2, failover_every: Some(5_000_000), ..second(100) };
        run("faults", &faults, seed);
    }
}
