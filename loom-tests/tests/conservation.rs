//! Conservation: recorded = in the window + expired + late, in every ledger, beside writers and
//! rotators. The recorded total only grows.
#![cfg(loom)]

use leaparray_loom_tests::{Ring, explore, ring, start};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

fn recorded(ring: &Ring, number: u32) -> u64 {
    ring.ledger(start(number)).recorded()
}

/// One thread adds in bucket 0 while another rotates to buckets 1 and 2. The ledger has each add
/// once.
#[test]
fn add_that_stalls_for_two_laps_is_counted_once() {
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
        assert_eq!(ledger.recorded(), 1_111, "each add is counted once: {ledger}");
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
        assert!(totals.is_sorted(), "the recorded total decreased: {totals:?}");
        for total in totals {
            assert!([1, 11, 111].contains(&total), "an add is lost or counted twice: {totals:?}");
        }
        assert_eq!(recorded(&ring, 2), 111);
    });
}

/// One thread adds in bucket 0, another rotates to buckets 1 and 2, and a third one takes a ledger.
/// The ledger has each add that returned before it.
#[test]
fn reader_beside_a_writer_and_a_rotator_counts_each_add_once() {
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
        assert_eq!(total % 10, 1, "the first add of bucket 0 is counted once: {total}");
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

/// Two threads race for bucket 1, and one of them goes on to bucket 2. The loser takes a wrap to
/// prepare it for bucket 1, and this wrap may be the wrap that was used for bucket 1 in between. A
/// ledger that has the add of bucket 2 has the adds before it, and no add is lost. If
/// `after_the_winner`, a ledger is taken only once the winner has finished.
fn two_threads_race_for_a_bucket(preemptions: usize, after_the_winner: bool) {
    explore(Some(preemptions), move || {
        let ring = ring(1);
        ring.add(0, 1);
        let loser = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(1, 10))
        };
        let finished = Arc::new(AtomicBool::new(false));
        let reader = {
            let (ring, finished) = (ring.clone(), finished.clone());
            thread::spawn(move || {
                // Relaxed, so the reader acquires nothing from the winner.
                if after_the_winner && !finished.load(Ordering::Relaxed) {
                    return None;
                }
                let ledger = ring.ledger(start(2));
                Some((ledger.in_window, ledger.recorded()))
            })
        };
        ring.add(1, 100);
        ring.add(2, 1_000);
        if after_the_winner {
            finished.store(true, Ordering::Relaxed);
        }
        if let Some((1_000, recorded)) = reader.join().unwrap() {
            assert!(recorded >= 1_101, "an add is lost: {recorded}");
        }
        loser.join().unwrap();
        assert_eq!(ring.ledger(start(2)).recorded(), 1_111);
    });
}

/// To reuse the wrap beside a ledger takes three preemptions: of the winner before it rotates, of
/// the loser once it has read the slot, and of the reader. With a reader beside the winner as well,
/// three are 320,000 executions, so that exploration has two.
#[test]
fn rotator_that_lost_the_race_does_not_reuse_a_gone_bucket() {
    two_threads_race_for_a_bucket(2, false);
    two_threads_race_for_a_bucket(3, true);
}
