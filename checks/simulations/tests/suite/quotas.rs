//! Clients of quotas that break off, fall silent and come again: random ones against the audit.

use leaparray_simulations::quotas::search::search;

/// More seeds run outside of the tests, by `cargo run --release -p leaparray-simulations --
/// quotas 0 50000`.
#[test]
fn no_interval_has_more_than_the_limit_and_the_parts_of_others_come_back() {
    let seeds = if cfg!(debug_assertions) { 10 } else { 300 };
    let found = search(0..seeds);
    assert!(found.is_none(), "{found:#?}");
}
