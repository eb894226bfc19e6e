//! Exact extremes: min and max are those of the values recorded, under any interleaving, and no
//! mean is above the maximum.
#![cfg(loom)]

use std::time::Duration;

use leaparray::{Bucket, MetricBucket, MetricEvent};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::thread;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn of_two_that_share_a_cell() {
    explore(Some(2), || {
        let bucket = Arc::new(MetricBucket::default());
        // Takes the cell that has an owner.
        bucket.record_rt(millis(5));
        let others = [(7, 1), (3, 2)].map(|(rt, concurrency)| {
            let bucket = bucket.clone();
            thread::spawn(move || {
                bucket.record_rt(millis(rt));
                bucket.record_concurrency(concurrency);
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert_eq!((bucket.min_rt(), bucket.max_rt()), (Some(millis(3)), Some(millis(7))));
        assert_eq!(bucket.max_concurrency(), Some(2));
        assert_eq!(bucket.total().avg_rt(), Some(millis(5)));
    });
}

#[test]
fn beside_a_reader() {
    explore(None, || {
        let bucket = Arc::new(MetricBucket::default());
        let reader = {
            let bucket = bucket.clone();
            thread::spawn(move || bucket.total())
        };
        bucket.record_rt(millis(4));
        bucket.record_rt(millis(8));
        let totals = reader.join().unwrap();
        if totals.sum(MetricEvent::Rt) > 0 {
            let avg = totals.avg_rt().expect("a sum has its count");
            let max = totals.max_rt().expect("a sum has its extremes");
            assert!(avg <= max, "mean {avg:?} above the maximum {max:?}");
        }
    });
}
