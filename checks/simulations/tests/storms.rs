//! A storm of retries and a herd, with their goals.

use leaparray_simulations::storms::{Bound, herd, run_all, section, storm};

#[test]
fn goals_are_met() {
    let results = run_all();
    print!("{}", section(&results));
    assert_eq!(results.missed(), [""; 0]);
}

/// The simulation shows the trouble that a budget prevents.
#[test]
fn backend_does_not_recover_from_a_storm_without_a_budget() {
    let without = storm(Bound::Attempts);
    assert_eq!((without.recovery(), without.factor() > 2.9), (None, true));
    assert!(storm(Bound::NoRetries).recovery().is_some_and(|it| it <= 10));
    assert!(herd(1_000, 0).most >= 900);
}
