//! Conservation: recorded = in the window + expired + late, readable at run time, with writers, a
//! rotator and a reader; what was recorded only grows.
#![cfg(loom)]

use leaparray_loom_tests::{Ring, explore, ring, start};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

fn recorded(ring: &Ring, number: u32) -> u64 {
    ring.ledger(start(number)).recorded()
}

#[test]
fn straggler_and_a_rotator_of_two_laps() {
    explore(None, || {
        let ring = ring(1);
        ring.add(0, 1);
        let straggler = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(0, 10))
        };
        ring.add(1, 100);
        ring.add(2, 1_000);
        straggler.join().unwrap();

        let ledger = ring.ledger(start(2));
        assert_eq!(ledger.recorded(), 1_111, "every add, once: {ledger}");
        assert_eq!(ledger.in_window, 1_000, "{ledger}");
        assert!([0, 10].contains(&ledger.late), "the straggler is late or expired: {ledger}");
    });
}

#[test]
fn reader_beside_a_rotator_counts_each_add_once() {
    explore(Some(3), || {
        let ring = ring(1);
        ring.add(0, 1);
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || [0, 1].map(|number| recorded(&ring, number)))
        };
        ring.add(1, 10);
        ring.add(2, 100);
        let totals = reader.join().unwrap();
        assert!(totals.is_sorted(), "what was recorded went back: {totals:?}");
        for total in totals {
            assert!([1, 11, 111].contains(&total), "an add lost or counted twice: {totals:?}");
        }
        assert_eq!(recorded(&ring, 2), 111);
    });
}

#[test]
fn writer_a_rotator_and_a_reader() {
    explore(Some(2), || {
        let ring = ring(1);
        ring.add(0, 1);
        let returned = Arc::new(AtomicBool::new(false));
        let writer = {
            let (ring, returned) = (ring.clone(), returned.clone());
            thread::spawn(move || {
                ring.add(0, 10);
                returned.store(true, Ordering::Release);
            })
        };
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || {
                let after = returned.load(Ordering::Acquire);
                (after, recorded(&ring, 1))
            })
        };
        ring.add(1, 100);
        ring.add(2, 1_000);
        let (after, total) = reader.join().unwrap();
        assert_eq!(total % 10, 1, "bucket 0's first add: {total}");
        assert!(!after || total / 10 % 10 == 1, "an add that returned is not counted: {total}");
        writer.join().unwrap();
        let ledger = ring.ledger(start(2));
        assert_eq!(ledger.recorded(), 1_111, "{ledger}");
    });
}

#[test]
fn two_rotators_retire_a_wrap_once() {
    explore(Some(3), || {
        let ring = ring(1);
        ring.add(0, 1);
        let other = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(1, 10))
        };
        ring.add(2, 100);
        other.join().unwrap();
        ring.add(3, 1_000);
        let ledger = ring.ledger(start(3));
        assert_eq!(ledger.recorded(), 1_111, "{ledger}");
    });
}

#[test]
fn rotators_of_two_slots_retire_both_wraps() {
    explore(None, || {
        let ring = ring(2);
        ring.add(0, 1);
        ring.add(1, 10);
        let other = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(2, 100))
        };
        ring.add(3, 1_000);
        other.join().unwrap();
        let ledger = ring.ledger(start(3));
        assert_eq!((ledger.in_window, ledger.expired), (1_100, 11), "{ledger}");
    });
}

/// Who has lost the race for bucket 1 prepares a wrap for it in memory that was bucket 1 meanwhile.
#[test]
fn beside_a_loser_that_renews_for_a_bucket_that_has_gone() {
    explore(Some(3), || {
        let ring = ring(1);
        ring.add(0, 1);
        let loser = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(1, 10))
        };
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || {
                let ledger = ring.ledger(start(2));
                (ledger.in_window, ledger.recorded())
            })
        };
        ring.add(1, 100);
        ring.add(2, 1_000);
        let (in_window, recorded) = reader.join().unwrap();
        if in_window == 1_000 {
            assert!(recorded >= 1_101, "lost: {recorded}");
        }
        loser.join().unwrap();
        assert_eq!(ring.ledger(start(2)).recorded(), 1_111);
    });
}
