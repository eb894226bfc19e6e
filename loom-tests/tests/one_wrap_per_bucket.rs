//! One wrap per bucket: each bucket number has at most one wrap ever reachable, and a slot's
//! starts only grow.
#![cfg(loom)]

use leaparray::{BucketWrap, CurrentBucket};
use leaparray_loom_tests::{Tally, explore, ring, start};
use loom::thread;

/// The wrap's identity. It is kept alive by the caller, so no other has this address.
fn address(current: &CurrentBucket<'_, Tally>) -> usize {
    let wrap: *const BucketWrap<Tally> = current.in_time().expect("nobody is ahead");
    wrap.addr()
}

#[test]
fn two_that_find_the_slot_empty_or_stale_get_the_same_wrap() {
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
                    (address, current.in_time().expect("nobody is ahead").start())
                })
            };
            let mine = ring.current_bucket(start(1));
            let (theirs, their_start) = other.join().unwrap();
            assert_eq!(their_start, start(1), "a wrap of the start that was asked for");
            assert_eq!(address(&mine), theirs, "one wrap for bucket 1");
            assert_eq!(address(&ring.current_bucket(start(1))), theirs, "and it is still there");
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
                // The newest bucket that is there. Asked for in rising order, none slips past.
                let is_there = |number: &u32| ring.values(start(*number)).next().is_some();
                let look = || (0..3).filter(is_there).max();
                [look(), look()]
            })
        };
        for number in 0..3 {
            ring.add(number, 1);
        }
        let seen = reader.join().unwrap();
        assert!(seen.is_sorted(), "a slot went back: {seen:?}");
    });
}

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
        assert_eq!(ring.sum(2), 1, "bucket 2 is there and stays");
        assert!(late.join().unwrap(), "bucket 1 or late, nothing else");
        assert_eq!(ring.sum(2), 1, "bucket 2 is still there");
    });
}
