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
fn of_two_recorders() {
    explore(None, || {
        let bucket = Arc::new(MetricBucket::default());
        let other = {
            let bucket = bucket.clone();
            thread::spawn(move || {
                bucket.record_rt(millis(7));
                bucket.record_concurrency(2);
            })
        };
        bucket.record_rt(millis(3));
        bucket.record_concurrency(1);
        other.join().unwrap();
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
