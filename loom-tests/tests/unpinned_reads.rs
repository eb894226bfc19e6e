//! Reads without pins: a read finds only counts that were recorded in the bucket, and finds every
//! add that returned before the read, although the wrap may be recycled for another bucket during
//! the read.
//!
//! A read of a ring of one bucket visits all wraps. A read of bucket 0, at the beginning of time,
//! goes through the slot.
#![cfg(loom)]

use leaparray::WindowConfig;
use leaparray::array::LeapArray;
use leaparray_loom_tests::{LEN, OwnedPair, explore, ring, start};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// The main thread rotates to buckets 2 and 3, which recycle the wraps of buckets 0 and 1, while
/// another thread reads one of the four. The reader finds the add of that bucket or nothing.
#[test]
fn read_of_a_recycled_wrap_finds_one_bucket() {
    for (number, own) in [(0, 1), (1, 10), (2, 100), (3, 1_000)] {
        explore(None, move || {
            let ring = ring(1);
            ring.add(0, 1);
            ring.add(1, 10);
            let reader = {
                let ring = ring.clone();
                thread::spawn(move || ring.sum_unpinned(number))
            };
            ring.add(2, 100);
            ring.add(3, 1_000);
            let sum = reader.join().unwrap();
            assert!([0, own].contains(&sum), "not of bucket {number}: {sum}");
            assert_eq!([2, 3].map(|number| ring.sum_unpinned(number)), [0, 1_000]);
        });
    }
}

/// One thread makes the first add while another reads through the slot. If the reader finds an
/// index in the slot, it finds the memory of the wrap allocated.
#[test]
fn read_beside_the_first_add_finds_it_or_nothing() {
    explore(None, || {
        let ring = ring(1);
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || ring.sum_unpinned(0))
        };
        ring.add(0, 1);
        let sum = reader.join().unwrap();
        assert!(sum <= 1, "{sum}");
        assert_eq!(ring.sum_unpinned(0), 1);
    });
}

/// Creates an array with an add in bucket 1, and a thread that reads that bucket.
fn pairs_and_reader() -> (Arc<LeapArray<OwnedPair>>, thread::JoinHandle<[u64; 2]>) {
    let config = WindowConfig::new(1, LEN).expect("valid by construction");
    let array = Arc::new(LeapArray::<OwnedPair>::new(config));
    array.current_bucket(start(1)).add(1);
    let read = array.clone();
    let reader = thread::spawn(move || both(&read, 1));
    (array, reader)
}

fn both(array: &LeapArray<OwnedPair>, number: u32) -> [u64; 2] {
    array.fold(start(number), [0; 2], OwnedPair::both, |_, pair| pair)
}

/// One thread recycles the wrap of bucket 1 while another reads the bucket. The reader finds the
/// whole bucket or nothing.
#[test]
fn read_of_a_wrap_that_is_emptied_finds_one_bucket() {
    explore(None, || {
        let (array, reader) = pairs_and_reader();
        // Bucket 3 recycles the wrap of bucket 1.
        for number in [2, 3] {
            drop(array.current_bucket(start(number)));
        }
        let first = reader.join().unwrap();
        assert!([[0; 2], [1; 2]].contains(&first), "a part of bucket 1: {first:?}");
    });
}

/// Two threads rotate while a third one reads bucket 1. The thread that empties the wrap of bucket
/// 1 need not be the thread that has replaced it. The reader finds the whole bucket or nothing.
#[test]
fn read_of_a_wrap_that_another_thread_empties_finds_one_bucket() {
    explore(Some(2), || {
        let (array, reader) = pairs_and_reader();
        let other = {
            let array = array.clone();
            thread::spawn(move || drop(array.current_bucket(start(3))))
        };
        drop(array.current_bucket(start(2)));
        other.join().unwrap();
        let first = reader.join().unwrap();
        assert!([[0; 2], [1; 2]].contains(&first), "a part of bucket 1: {first:?}");
    });
}

/// One thread recycles the wrap of bucket 1 for bucket 3, and another adds to it, while a third one
/// reads bucket 1. The reader finds the whole bucket or nothing, and no add of the new bucket.
#[test]
fn read_beside_an_add_to_a_recycled_wrap_finds_one_bucket() {
    explore(Some(3), || {
        let (array, reader) = pairs_and_reader();
        for number in [2, 3] {
            drop(array.current_bucket(start(number)));
        }
        let writer = {
            let array = array.clone();
            thread::spawn(move || array.current_bucket(start(3)).add(10))
        };
        let first = reader.join().unwrap();
        assert!([[0; 2], [1; 2]].contains(&first), "not bucket 1: {first:?}");
        writer.join().unwrap();
        assert_eq!(both(&array, 3), [10; 2]);
    });
}

/// One thread adds while another reads. A read that begins after the add returned finds it.
#[test]
fn read_that_begins_after_the_add_returned_finds_it() {
    for first in [0, 1] {
        explore(None, move || {
            let ring = ring(2);
            ring.add(first, 1);
            let returned = Arc::new(AtomicBool::new(false));
            let reader = {
                let (ring, returned) = (ring.clone(), returned.clone());
                thread::spawn(move || {
                    (returned.load(Ordering::Acquire), ring.sum_unpinned(first + 1))
                })
            };
            ring.add(first + 1, 10);
            returned.store(true, Ordering::Release);
            let (after, sum) = reader.join().unwrap();
            assert!(sum == 11 || (!after && sum == 1), "after: {after}, sum: {sum}");
            assert_eq!(ring.sum_unpinned(first + 2), 10);
        });
    }
}
