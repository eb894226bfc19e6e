//! No loss: an add with time t is in every read that begins after the add returned and whose window
//! covers the bucket of t, as long as no thread has recorded in a later bucket of that slot.
#![cfg(loom)]

use leaparray_loom_tests::{explore, ring};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// Two threads add in the first bucket of an empty ring. A later read finds both adds.
#[test]
fn two_adds_at_first_use() {
    explore(None, || {
        let ring = ring(1);
        let other = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(0, 1))
        };
        ring.add(0, 10);
        other.join().unwrap();
        assert_eq!(ring.sum(0), 11, "both adds of the first bucket");
    });
}

/// Two threads rotate to bucket 1 and add in it. A later read finds both adds.
#[test]
fn two_adds_at_a_rollover() {
    explore(Some(4), || {
        let ring = ring(1);
        ring.add(0, 100);
        let other = {
            let ring = ring.clone();
            thread::spawn(move || ring.add(1, 1))
        };
        ring.add(1, 10);
        other.join().unwrap();
        assert_eq!(ring.sum(1), 11, "both adds of the new bucket only");
        assert_eq!(ring.sum(0), 0, "the old bucket is gone");
    });
}

/// Three threads rotate to bucket 1 and add in it. A later read finds all adds.
#[test]
fn three_adds_at_a_rollover() {
    explore(Some(2), || {
        let ring = ring(1);
        ring.add(0, 100);
        let others = [1, 10].map(|count| {
            let ring = ring.clone();
            thread::spawn(move || ring.add(1, count))
        });
        ring.add(1, 1_000);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(ring.sum(1), 1_011, "every add of the new bucket");
    });
}

/// One thread adds in buckets 1 and 2 while another reads. A read that begins after both adds
/// returned finds both.
#[test]
fn read_that_begins_after_the_add_returned() {
    explore(None, || {
        let ring = ring(2);
        ring.add(0, 100);
        let returned = Arc::new(AtomicBool::new(false));
        let reader = {
            let (ring, returned) = (ring.clone(), returned.clone());
            thread::spawn(move || (returned.load(Ordering::Acquire), ring.sum(2)))
        };
        ring.add(1, 1);
        ring.add(2, 10);
        returned.store(true, Ordering::Release);
        let (after, sum) = reader.join().unwrap();
        assert!(!after || sum == 11, "the window of bucket 2 is buckets 1 and 2: {sum}");
        assert!([0, 1, 10, 11].contains(&sum), "nothing of bucket 0: {sum}");
    });
}
