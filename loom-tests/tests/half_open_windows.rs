//! Half-open windows: a read at now covers exactly the buckets k(now) − n + 1 ..= k(now).
#![cfg(loom)]

use leaparray_loom_tests::{explore, ring, start};
use loom::thread;

/// One thread reads the windows of buckets 1 and 2 while another rotates to bucket 2. Each read
/// covers its own buckets only.
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
        // Bucket 2 takes the slot of bucket 0. Bucket 0 may be gone from this window, and bucket 2
        // is not in it.
        assert!([10, 11].contains(&before), "bucket 1, and 0 unless it is gone: {before}");
        // Bucket 0 is not in this window, even if it is still in its slot.
        assert!([10, 110].contains(&after), "bucket 1, and 2 once it is there: {after}");
        assert_eq!((ring.sum(1), ring.sum(2), ring.sum(3), ring.sum(4)), (10, 110, 100, 0));
        let ledgers = [1, 2, 3, 4].map(|number| ring.ledger(start(number)));
        assert_eq!(ledgers.map(|ledger| ledger.in_window), [10, 110, 100, 0]);
        assert_eq!(ledgers.map(|ledger| ledger.expired), [101, 1, 11, 111]);
    });
}

/// One thread reads with a predicate while another rotates to bucket 3. The reader finds only
/// buckets of the window.
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

/// One thread asks for the bucket before bucket 2 while another rotates to bucket 3. It gets bucket
/// 1, or none once that is gone.
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
        assert!(previous.is_none_or(|it| it == start(1)), "bucket 1 is before 2, not {previous:?}");
        assert!(ring.previous_bucket(start(2)).is_none(), "bucket 1 is gone");
    });
}
