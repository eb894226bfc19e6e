//! The property of the harness of controllers, on a bounded number of seeds.

use leaparray_simulations::histories::controllers::{Family, search};

fn check(family: Family, seeds: u64) {
    let found = search(family, 0..seeds);
    assert!(found.is_none(), "{:#?}", found.expect("checked"));
}

#[test]
fn circuit_breakers_close_in_health() {
    check(Family::Circuits, 40);
}

#[test]
fn adaptive_breakers_drop_nothing_in_health() {
    check(Family::Breakers, 40);
}

#[test]
fn limits_admit_as_new_ones() {
    check(Family::Limits, 12);
}

#[test]
fn keys_have_room_and_their_limits() {
    check(Family::Keys, 30);
}

#[test]
fn queues_admit_what_their_limiters_admit() {
    check(Family::Queues, 30);
}
