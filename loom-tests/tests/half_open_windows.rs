//! Half-open windows: a read at now covers exactly the buckets k(now) − n + 1 ..= k(now).
#![cfg(loom)]

use leaparray_loom_tests::{explore, ring, start};
use loom::thread;

#[test]
fn read_beside_a_rollover() {
    explore(None, || {
        let ring = ring(2);
        ring.add(0, 1);
        ring.add(1, 10);
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || (ring.sum(1), ring.sum(2)))
        };
        ring.add(2, 100);
        let (before, after) = reader.join().unwrap();
        // Bucket 2 takes the slot of bucket 0: that may be gone from here, and this is not there.
        assert!([10, 11].contains(&before), "bucket 1, and 0 while it is there: {before}");
        // Bucket 0 has left, whoever still finds it in its slot.
        assert!([10, 110].contains(&after), "bucket 1, and 2 once it is there: {after}");
        assert_eq!((ring.sum(1), ring.sum(2), ring.sum(3), ring.sum(4)), (10, 110, 100, 0));
        let ledgers = [1, 2, 3, 4].map(|number| ring.ledger(start(number)));
        assert_eq!(ledgers.map(|ledger| ledger.in_window), [10, 110, 100, 0]);
        assert_eq!(ledgers.map(|ledger| ledger.expired), [101, 1, 11, 111]);
    });
}

#[test]
fn predicate_beside_a_rollover() {
    explore(None, || {
        let ring = ring(2);
        ring.add(1, 10);
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || {
                [1, 2, 3].map(|number| {
                    ring.values_conditional(start(3), |bucket| bucket == start(number))
                        .map(|wrap| wrap.start())
                        .collect::<Vec<_>>()
                })
            })
        };
        ring.add(3, 100);
        let [first, second, third] = reader.join().unwrap();
        assert!(first.is_empty(), "bucket 1 is not in the window: {first:?}");
        assert!(second.is_empty(), "bucket 2 was never used: {second:?}");
        assert!(third.is_empty() || third == [start(3)], "bucket 3 once it is there: {third:?}");
        assert_eq!(ring.values_conditional(start(3), |bucket| bucket == start(3)).count(), 1);
    });
}

#[test]
fn previous_bucket_beside_a_rollover() {
    explore(None, || {
        let ring = ring(2);
        ring.add(1, 10);
        let reader = {
            let ring = ring.clone();
            thread::spawn(move || ring.previous_bucket(start(2)).map(|wrap| wrap.start()))
        };
        ring.add(3, 100);
        let previous = reader.join().unwrap();
        assert!(previous.is_none_or(|it| it == start(1)), "1 comes before 2, not {previous:?}");
        assert!(ring.previous_bucket(start(2)).is_none(), "bucket 1 is gone");
    });
}
