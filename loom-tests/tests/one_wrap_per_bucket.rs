//! One wrap per bucket: each bucket number has at most one wrap that is ever in a slot, and the
//! starts in a slot only grow.
#![cfg(loom)]

use leaparray::array::{BucketWrap, CurrentBucket};
use leaparray_loom_tests::{Tally, explore, ring, start};
use loom::thread;

/// The address of the wrap, as its identity: a wrap is never moved or freed.
fn address(current: &CurrentBucket<'_, Tally>) -> usize {
    let wrap: *const BucketWrap<Tally> = current.in_time().expect("no bucket is newer");
    wrap.addr()
}

#[test]
fn two_threads_that_find_the_slot_empty_or_stale_get_the_same_wrap() {
    for stale in [false, true] {
        explore(Some(4), move || {
            let ring = ring(1);
            if stale {
                ring.add(0, 1);
            }
            let other = {
                let ring = ring.clone();
                thread::spawn(move || {
                    let current = ring.current_bucket(start(1));
                    let address = address(&current);
                    current.add(1);
                    (address, current.in_time().expect("no bucket is newer").start())
                })
            };
            let mine = ring.current_bucket(start(1));
            let (theirs, their_start) = other.join().unwrap();
            assert_eq!(their_start, start(1), "the wrap has the start of bucket 1");
            assert_eq!(address(&mine), theirs, "both threads get the same wrap");
            assert_eq!(address(&ring.current_bucket(start(1))), theirs, "it is still in its slot");
        });
    }
}

#[test]
fn starts_of_a_slot_only_grow() {
    explore(Some(3), || {
        let ring = ring(1);
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || {
                // The newest bucket in the slot. The numbers are checked in ascending order, so
                // that no bucket is missed.
                let is_there = |number: &u32| ring.values(start(*number)).next().is_some();
                let look = || (0..3).filter(is_there).max();
                [look(), look()]
            })
        };
        for number in 0..3 {
            ring.add(number, 1);
        }
        let seen = reader.join().unwrap();
        assert!(seen.is_sorted(), "the start in the slot decreased: {seen:?}");
    });
}

/// One thread asks for bucket 1 while another rotates to bucket 2. The first one gets bucket 1
/// before the rotation, or the late bucket, and bucket 2 stays in its slot.
#[test]
fn thread_that_is_a_lap_late_does_not_bring_the_old_bucket_back() {
    explore(Some(3), || {
        let ring = ring(1);
        ring.add(0, 1);
        let late = {
            let ring = ring.clone();
            thread::spawn(move || {
                let current = ring.current_bucket(start(1));
                current.in_time().is_none_or(|wrap| wrap.start() == start(1))
            })
        };
        ring.add(2, 1);
        assert_eq!(ring.sum(2), 1, "bucket 2 is in its slot");
        assert!(late.join().unwrap(), "the thread gets bucket 1 or the late bucket");
        assert_eq!(ring.sum(2), 1, "bucket 2 is still in its slot");
    });
}
