//! A `MetricBucket` that several threads share: each add is counted, and no counter wraps around.
#![cfg(loom)]

use leaparray::MetricEvent;
use leaparray::metric::MetricBucket;
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::thread;

const PASS: MetricEvent = MetricEvent::Pass;

#[test]
fn concurrent_adds_are_all_counted() {
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
fn huge_counts_that_race_do_not_wrap() {
    explore(Some(2), || {
        let bucket = Arc::new(MetricBucket::default());
        let others = [(); 2].map(|()| {
            let bucket = bucket.clone();
            thread::spawn(move || {
                // Each add is cut to 2⁶²: four of them would be 2⁶⁴.
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
