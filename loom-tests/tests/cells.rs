//! Cells: one thread writes an owned cell, and what is recorded in a shared one is not lost, whoever
//! comes first.
#![cfg(loom)]

use leaparray::{MetricBucket, MetricEvent};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

const PASS: MetricEvent = MetricEvent::Pass;

#[test]
fn an_owner_and_one_that_shares() {
    explore(None, || {
        let bucket = Arc::new(MetricBucket::default());
        let other = {
            let bucket = bucket.clone();
            thread::spawn(move || {
                bucket.add(PASS, 1);
                bucket.add(PASS, 10);
            })
        };
        bucket.add(PASS, 100);
        bucket.add(PASS, 1_000);
        other.join().unwrap();
        assert_eq!(bucket.sum(PASS), 1_111);
    });
}

#[test]
fn an_owner_and_two_that_share() {
    explore(Some(3), || {
        let bucket = Arc::new(MetricBucket::default());
        let others = [1, 10].map(|count| {
            let bucket = bucket.clone();
            thread::spawn(move || bucket.add(PASS, count))
        });
        bucket.add(PASS, 100);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(bucket.sum(PASS), 111);
    });
}

#[test]
fn a_reader_finds_every_cell_in_which_an_add_has_returned() {
    explore(None, || {
        let bucket = Arc::new(MetricBucket::default());
        let returned = Arc::new(AtomicBool::new(false));
        bucket.add(PASS, 1);
        let writer = {
            let (bucket, returned) = (bucket.clone(), returned.clone());
            thread::spawn(move || {
                bucket.add(PASS, 10);
                returned.store(true, Ordering::Release);
            })
        };
        let reader = {
            let bucket = bucket.clone();
            thread::spawn(move || (returned.load(Ordering::Acquire), bucket.sum(PASS)))
        };
        writer.join().unwrap();
        let (after, sum) = reader.join().unwrap();
        assert!(sum == 11 || (!after && sum == 1), "after: {after}, sum: {sum}");
    });
}

#[test]
fn a_cell_that_is_handed_on_keeps_what_its_owners_counted() {
    explore(None, || {
        let bucket = Arc::new(MetricBucket::default());
        // The second may start when the first has ended, and then has its token and its cell.
        let others = [1, 10].map(|count| {
            let bucket = bucket.clone();
            thread::spawn(move || {
                bucket.add(PASS, count);
                bucket.add(PASS, count);
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(bucket.sum(PASS), 22);
    });
}

#[test]
fn huge_counts_that_race_do_not_wrap() {
    explore(Some(2), || {
        let bucket = Arc::new(MetricBucket::default());
        // Takes the cell that has an owner.
        bucket.add(PASS, 0);
        let others = [(); 2].map(|()| {
            let bucket = bucket.clone();
            thread::spawn(move || {
                // Four of these are 2⁶⁴.
                bucket.add(PASS, u64::MAX);
                bucket.add(PASS, u64::MAX);
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(bucket.sum(PASS), MetricBucket::CEILING);
    });
}
