//! No leak: an add is never counted in another bucket than the bucket of its time, whichever thread
//! stalls or rotates, even in a ring of one bucket.
#![cfg(loom)]

use leaparray_loom_tests::{explore, ring, start};
use loom::thread;

/// One thread adds in bucket 0 while another rotates to bucket 1. The add is not counted in
/// bucket 1.
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
        assert_eq!(ring.sum(1), 10, "the new bucket has its own add only");
        assert_eq!(ring.sum(0), 0, "the old bucket has left the window");
    });
}

/// One thread adds in bucket 0 while another rotates to buckets 1 and 2. The add is not counted in
/// bucket 2.
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
        assert_eq!(ring.sum(2), 100, "the newest bucket has its own add only");
    });
}

/// Two threads rotate one slot, to bucket 1 and to bucket 2. The adds of the other buckets are not
/// counted in bucket 2.
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
        assert_eq!(ring.sum(2), 10, "bucket 2 has its own add only");
        assert_eq!(ring.sum(1), 0, "bucket 1 has left its slot");
    });
}

/// One thread adds in bucket 0 while another rotates to buckets 1 to 4 and recycles wraps. The add
/// is not counted in bucket 4, and each add is recorded once.
#[test]
fn add_that_stalls_while_wraps_are_recycled() {
    explore(Some(3), || {
        let ring = ring(1);
        let staller = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(0, 1))
        };
        // The rotation to bucket 2 reclaims the wrap of bucket 0, unless it is pinned. Buckets 3
        // and 4 use recycled wraps.
        for number in 1..5 {
            ring.add(number, 10_u64.pow(number));
        }
        staller.join().unwrap();
        let ledger = ring.ledger(start(4));
        assert_eq!(ledger.in_window, 10_000, "{ledger}");
        assert_eq!(ledger.recorded(), 11_111, "{ledger}");
    });
}
