//! Exact extremes: minimum and maximum are the extremes of the recorded values under any
//! interleaving, no mean is above the maximum, and no reading has a response time without its
//! success, or a success without its pass. In all models of this file, loom sees every word of a
//! cell.
#![cfg(loom)]

use std::time::Duration;

use leaparray::array::Bucket;
use leaparray::metric::MetricBucket;
use leaparray::{Entry, ManualClock, MetricEvent, MetricTotals, Outcome, show_all_words};
use leaparray_loom_tests::{LEN, Node, enter, explore, node, node_config, start, window};
use loom::sync::Arc;
use loom::thread;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An empty bucket, and a thread that reads it.
fn bucket_and_reader() -> (Arc<MetricBucket>, thread::JoinHandle<MetricTotals>) {
    let bucket = Arc::new(MetricBucket::default());
    let read = bucket.clone();
    (bucket, thread::spawn(move || read.total()))
}

#[test]
fn extremes_of_concurrent_response_times_are_exact() {
    show_all_words();
    explore(Some(2), || {
        let bucket = Arc::new(MetricBucket::default());
        bucket.record_rt(millis(5));
        // Both are below the minimum, and both above the highest concurrency.
        let others = [(4, 1), (3, 2)].map(|(rt, concurrency)| {
            let bucket = bucket.clone();
            thread::spawn(move || {
                bucket.record_rt(millis(rt));
                bucket.record_concurrency(concurrency);
            })
        });
        for other in others {
            other.join().unwrap();
        }
        assert_eq!((bucket.min_rt(), bucket.max_rt()), (Some(millis(3)), Some(millis(5))));
        assert_eq!(bucket.max_concurrency(), Some(2));
        assert_eq!(bucket.total().avg_rt(), Some(millis(4)));
    });
}

#[test]
fn mean_is_never_above_the_maximum() {
    show_all_words();
    explore(None, || {
        let (bucket, reader) = bucket_and_reader();
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

/// One thread records response times in its own cell while another reads the bucket. No mean is
/// above the maximum.
#[test]
fn mean_of_a_cell_is_never_above_its_maximum() {
    show_all_words();
    explore(Some(2), || {
        let window = window(1);
        window.record_success_at(start(1), millis(4));
        let reader = {
            let window = window.clone();
            thread::spawn(move || window.at(start(1)).buckets().next())
        };
        window.record_success_at(start(1), millis(8));
        let totals = reader.join().unwrap().expect("there is one bucket").totals;
        assert!(totals.avg_rt() <= totals.max_rt(), "{totals:?}");
    });
}

#[test]
fn response_time_of_a_shared_bucket_is_never_read_without_its_success() {
    show_all_words();
    explore(None, || {
        let (bucket, reader) = bucket_and_reader();
        bucket.add(MetricEvent::Success, 1);
        bucket.record_rt(millis(4));
        let totals = reader.join().unwrap();
        assert!(totals.rt_count() <= totals.sum(MetricEvent::Success), "{totals:?}");
    });
}

/// One thread records in its bound cell while another reads the bucket, as a snapshot does. If the
/// reading has the response time, it has the success.
#[test]
fn response_time_is_never_read_without_its_success() {
    show_all_words();
    explore(Some(2), || {
        let window = window(1);
        window.record_success_at(start(1), LEN);
        let reader = {
            let window = window.clone();
            thread::spawn(move || window.at(start(1)).buckets().next())
        };
        window.record_success_at(start(1), LEN);
        let totals = reader.join().unwrap().expect("there is one bucket").totals;
        assert!(totals.rt_count() <= totals.sum(MetricEvent::Success), "{totals:?}");
    });
}

/// A request enters and ends on one thread in one bucket while another thread takes a snapshot. If
/// the snapshot has the end, it has the pass.
fn end_is_never_read_without_its_pass(event: MetricEvent, end: fn(Entry<Arc<Node>, ManualClock>)) {
    show_all_words();
    explore(Some(2), move || {
        let node = node(node_config(1, 1));
        end(enter(&node, 1));
        let reader = {
            let node = node.clone();
            thread::spawn(move || node.at(start(1)).snapshot().long)
        };
        end(enter(&node, 1));
        let totals = reader.join().unwrap().totals;
        assert!(totals.sum(event) <= totals.sum(MetricEvent::Pass), "{totals:?}");
    });
}

#[test]
fn success_is_never_read_without_its_pass() {
    end_is_never_read_without_its_pass(MetricEvent::Success, |entry| {
        entry.end_at(start(1), Outcome::Success);
    });
}

#[test]
fn cancellation_is_never_read_without_its_pass() {
    end_is_never_read_without_its_pass(MetricEvent::Cancelled, |entry| {
        entry.end_at(start(1), Outcome::Cancelled);
    });
}
