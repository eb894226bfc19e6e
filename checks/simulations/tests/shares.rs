//! Tenants that share a limit, with the goals.

use leaparray_simulations::shares::{missed, run_all, section};

#[test]
fn goals_are_met() {
    let results = run_all();
    print!("{}", section(&results));
    assert_eq!(missed(&results), [""; 0]);
}
