//! Reads that hold nothing: what is read of a bucket was recorded in that bucket, and all of it that
//! had been, though its memory may be used for another one meanwhile.
//!
//! A ring of one bucket is read by looking at all wraps; at the beginning of time, in bucket 0, by
//! looking into the slot.
#![cfg(loom)]

use leaparray::{LeapArray, WindowConfig};
use leaparray_loom_tests::{LEN, OwnedPair, explore, ring, start};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// Bucket 2 is in the memory of bucket 0, and 3 in that of 1.
#[test]
fn while_the_wrap_is_used_again() {
    for (number, own) in [(0, 1), (1, 10), (2, 100), (3, 1_000)] {
        explore(None, move || {
            let ring = ring(1);
            ring.add(0, 1);
            ring.add(1, 10);
            let reader = {
                let ring = ring.clone();
                thread::spawn(move || ring.sum_unheld(number))
            };
            ring.add(2, 100);
            ring.add(3, 1_000);
            let sum = reader.join().unwrap();
            assert!([0, own].contains(&sum), "not of bucket {number}: {sum}");
            assert_eq!([2, 3].map(|number| ring.sum_unheld(number)), [0, 1_000]);
        });
    }
}

/// The reader looks into the slot, and has to find the memory of the wrap made.
#[test]
fn beside_the_first_add() {
    explore(None, || {
        let ring = ring(1);
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || ring.sum_unheld(0))
        };
        ring.add(0, 1);
        let sum = reader.join().unwrap();
        assert!(sum <= 1, "{sum}");
        assert_eq!(ring.sum_unheld(0), 1);
    });
}

fn pairs() -> Arc<LeapArray<OwnedPair>> {
    Arc::new(LeapArray::new(WindowConfig::new(1, LEN).expect("valid by construction")))
}

fn both(array: &LeapArray<OwnedPair>, number: u32) -> [u64; 2] {
    array.fold(start(number), [0; 2], OwnedPair::both, |_, pair| pair)
}

/// A bucket that is being emptied is read as a whole or not at all.
#[test]
fn while_the_wrap_is_emptied() {
    explore(None, || {
        let array = pairs();
        array.current_bucket(start(1)).add(1);
        let reader = {
            let array = array.clone();
            thread::spawn(move || both(&array, 1))
        };
        // Bucket 3 is in the memory of bucket 1.
        for number in [2, 3] {
            drop(array.current_bucket(start(number)));
        }
        let first = reader.join().unwrap();
        assert!([[0; 2], [1; 2]].contains(&first), "in the middle of bucket 1's end: {first:?}");
    });
}

/// Who empties the bucket need not be who has put another in its place.
#[test]
fn while_another_thread_empties_the_wrap() {
    explore(Some(2), || {
        let array = pairs();
        array.current_bucket(start(1)).add(1);
        let reader = {
            let array = array.clone();
            thread::spawn(move || both(&array, 1))
        };
        let other = {
            let array = array.clone();
            thread::spawn(move || drop(array.current_bucket(start(3))))
        };
        drop(array.current_bucket(start(2)));
        other.join().unwrap();
        let first = reader.join().unwrap();
        assert!([[0; 2], [1; 2]].contains(&first), "in the middle of bucket 1's end: {first:?}");
    });
}

/// Who adds in the new bucket need not be who has emptied the memory for it.
#[test]
fn while_another_thread_adds_to_the_wrap_that_is_used_again() {
    explore(Some(3), || {
        let array = pairs();
        array.current_bucket(start(1)).add(1);
        let reader = {
            let array = array.clone();
            thread::spawn(move || both(&array, 1))
        };
        for number in [2, 3] {
            drop(array.current_bucket(start(number)));
        }
        let writer = {
            let array = array.clone();
            thread::spawn(move || array.current_bucket(start(3)).add(10))
        };
        let first = reader.join().unwrap();
        assert!([[0; 2], [1; 2]].contains(&first), "not of bucket 1: {first:?}");
        writer.join().unwrap();
        assert_eq!(both(&array, 3), [10; 2]);
    });
}

#[test]
fn that_begin_after_the_add_returned() {
    for first in [0, 1] {
        explore(None, move || {
            let ring = ring(2);
            ring.add(first, 1);
            let returned = Arc::new(AtomicBool::new(false));
            let reader = {
                let (ring, returned) = (ring.clone(), returned.clone());
                thread::spawn(move || {
                    (returned.load(Ordering::Acquire), ring.sum_unheld(first + 1))
                })
            };
            ring.add(first + 1, 10);
            returned.store(true, Ordering::Release);
            let (after, sum) = reader.join().unwrap();
            assert!(sum == 11 || (!after && sum == 1), "after: {after}, sum: {sum}");
            assert_eq!(ring.sum_unheld(first + 2), 10);
        });
    }
}
