//! Rules that are changed while requests hold permits: random histories against the reference.

use leaparray_simulations::histories::rules::search;

/// Histories in which a tenant gets a permit too many if shares are too large by one.
const TENANTS: [u64; 2] = [901, 1_414];

/// More seeds run outside of the tests, by `cargo run --release -p leaparray-simulations -- rules 0
/// 50000`.
#[test]
fn each_decision_is_that_of_the_reference() {
    let seeds = if cfg!(debug_assertions) { 200 } else { 4_000 };
    let found = search((0..seeds).chain(TENANTS));
    assert!(found.is_none(), "{found:#?}");
}
