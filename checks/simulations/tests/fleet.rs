//! A limit over a small fleet, for a debug build. The goals, and the limit in larger fleets, are
//! checked by the program.

use std::time::Duration;

use leaparray_redis::lease::LeaseConfig;
use leaparray_simulations::fleet::{Failover, Faults, Observed, Scenario, Strategy, simulate};

fn scenario(drift_ppm: u32, faults: Faults) -> Scenario {
    let config = LeaseConfig::new(1_000, 10, Duration::from_secs(1)).expect("valid");
    let config = config.with_drift_ppm(drift_ppm).expect("valid");
    Scenario { config, nodes: 20, demand: 1_500.0, secs: 12, faults }
}

/// Returns the worst results of some seeds.
fn worst(strategy: Strategy, scenario: &Scenario, seeds: u64) -> Observed {
    let results = (1..=seeds).map(|seed| simulate(strategy, scenario, seed));
    let worst = results.reduce(Observed::worse).expect("a seed");
    println!("{strategy:?}: {worst:?}");
    worst
}

#[test]
fn leases_do_not_overshoot() {
    let worst = worst(Strategy::Leases, &scenario(500, Faults::ALL), 5);
    assert_eq!(worst.overshoot.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn leases_are_used() {
    let worst = worst(Strategy::Leases, &scenario(500, Faults::NONE), 2);
    assert!(worst.utilisation > 0.9, "{worst:?}");
}

/// The observer sees the overshoot of other strategies.
#[test]
fn other_strategies_overshoot() {
    for strategy in [Strategy::RoundTrips, Strategy::Counts { every: 100 }] {
        let worst = worst(strategy, &scenario(500, Faults::ALL), 1);
        assert!(worst.overshoot > 0.05, "{worst:?}");
    }
}

/// A promoted replica that keeps the identity does not know the last leases.
#[test]
fn promotion_that_keeps_the_identity_overshoots() {
    let faults = Faults { failovers: Failover::Promotion, keeps_identity: true, ..Faults::NONE };
    assert!(worst(Strategy::Leases, &scenario(0, faults), 1).overshoot > 0.0);
}

/// A node with a slow clock uses permits after their lease has ended.
#[test]
fn drift_beyond_its_bound_overshoots() {
    let faults = Faults { drift_ppm: 300_000, ..Faults::NONE };
    assert!(worst(Strategy::Leases, &scenario(0, faults), 5).overshoot > 0.0);
}

#[test]
fn seed_determines_the_results() {
    for strategy in Strategy::ALL {
        let scenario = Scenario { secs: 6, ..scenario(500, Faults::ALL) };
        let run = |seed| simulate(strategy, &scenario, seed);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
