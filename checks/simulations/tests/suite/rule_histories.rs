//! Rules that are changed while requests hold permits: random histories against the reference.

use leaparray_simulations::histories::rules::search;

/// More seeds run outside of the tests, by `cargo run --release -p leaparray-simulations -- rules 0
/// 50000`.
#[test]
fn each_decision_is_that_of_the_reference() {
    let seeds = if cfg!(debug_assertions) { 200 } else { 4_000 };
    let found = search(0..seeds);
    assert!(found.is_none(), "{found:#?}");
}
