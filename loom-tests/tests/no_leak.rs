//! No leak: an add is never counted in another bucket than that of its time, whatever stalls,
//! whoever rotates, a ring of one bucket included.
#![cfg(loom)]

use leaparray_loom_tests::{explore, ring, start};
use loom::thread;

#[test]
fn add_that_stalls_for_a_lap() {
    explore(None, || {
        let ring = ring(1);
        ring.add(0, 100);
        let staller = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(0, 1))
        };
        ring.add(1, 10);
        staller.join().unwrap();
        assert_eq!(ring.sum(1), 10, "the new bucket has what was added in its time");
        assert_eq!(ring.sum(0), 0, "the old one has left the window");
    });
}

#[test]
fn add_that_stalls_while_two_laps_go_by() {
    explore(Some(3), || {
        let ring = ring(1);
        let staller = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(0, 1))
        };
        ring.add(1, 10);
        ring.add(2, 100);
        staller.join().unwrap();
        assert_eq!(ring.sum(2), 100, "the newest bucket has what was added in its time");
    });
}

#[test]
fn rotators_of_different_laps() {
    explore(Some(3), || {
        let ring = ring(1);
        ring.add(0, 100);
        let other = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(1, 1))
        };
        ring.add(2, 10);
        other.join().unwrap();
        assert_eq!(ring.sum(2), 10, "bucket 2 has what was added in its time");
        assert_eq!(ring.sum(1), 0, "bucket 1 has been overtaken");
    });
}

#[test]
fn add_that_stalls_while_wraps_are_used_again() {
    explore(Some(3), || {
        let ring = ring(1);
        let staller = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(0, 1))
        };
        // Bucket 2 settles bucket 0, unless that is held, and 3 and 4 are in memory used before.
        for number in 1..5 {
            ring.add(number, 10_u64.pow(number));
        }
        staller.join().unwrap();
        let ledger = ring.ledger(start(4));
        assert_eq!(ledger.in_window, 10_000, "{ledger}");
        assert_eq!(ledger.recorded(), 11_111, "{ledger}");
    });
}
