//! A node: each pass ends once, counts survive a change of the geometry, a permit of the next
//! bucket is taken once, each second is delivered once, and each response is counted once.
#![cfg(loom)]

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, ReservedPass, Success};
use leaparray::Outcome;
use leaparray::node::{OnDrop, ResponseClass, SecondsCursor};
use leaparray_loom_tests::{enter, explore, explore_some, node, node_config, start};
use loom::sync::Arc;
use loom::thread;

/// One thread cancels a request and drops another one while the main thread ends one with success,
/// each in a bucket that both threads use. Each pass has exactly one end, of the kind that was
/// reported.
#[test]
fn each_pass_ends_in_exactly_one_way() {
    explore_some(20_000, Some(1), || {
        let node = node(node_config(1, 2));
        let [cancelled, dropped, succeeded] = [(); 3].map(|()| enter(&node, 1));
        let other = thread::spawn(move || {
            cancelled.end_at(start(1), Outcome::Cancelled);
            drop(dropped.on_drop(OnDrop::Cancelled));
        });
        succeeded.end_at(start(1), Outcome::Success);
        other.join().unwrap();
        enter(&node, 2).end_at(start(2), Outcome::Exception);
        let lifetime = node.lifetime();
        let ends = [Pass, Success, Exception, Cancelled].map(|event| lifetime.sum(event));
        assert_eq!(ends, [4, 1, 1, 2]);
        assert_eq!((node.concurrency(), lifetime.rt_count()), (0, 2));
    });
}

#[test]
fn record_beside_a_change_of_the_geometry_is_in_both() {
    explore_some(20_000, Some(1), || {
        let node = node(node_config(1, 2));
        enter(&node, 1).end_at(start(1), Outcome::Success);
        let recorder = {
            let node = node.clone();
            thread::spawn(move || enter(&node, 1).end_at(start(1), Outcome::Success))
        };
        node.reconfigure(node_config(2, 2));
        recorder.join().unwrap();
        assert_eq!(node.at(start(2)).long().sum(Pass), 2);
        assert_eq!(node.lifetime().sum(Success), 2);
        node.reconfigure(node_config(1, 2));
        assert_eq!(node.at(start(1)).long().sum(Success), 2);
        assert_eq!(node.concurrency(), 0);
    });
}

/// Two threads change the geometry at the same time. The node has one of the two geometries
/// afterwards, a further change takes effect, and no count is lost.
#[test]
fn two_threads_change_the_geometry_at_once() {
    explore(None, || {
        let node = node(node_config(1, 2));
        let [one, two] = [node_config(2, 2), node_config(1, 1)];
        let other = {
            let node = node.clone();
            thread::spawn(move || {
                node.reconfigure(one);
                node.block_many_at(start(1), 1);
            })
        };
        node.reconfigure(two);
        other.join().unwrap();
        assert!([one, two].contains(node.config()), "{:?}", node.config());
        node.reconfigure(one);
        assert_eq!(*node.config(), one);
        assert_eq!(node.lifetime().sum(Block), 1);
    });
}

#[test]
fn last_permit_of_the_next_bucket_is_taken_once() {
    explore(Some(3), || {
        let node = node(node_config(2, 2));
        enter(&node, 1).end_at(start(1), Outcome::Success);
        let other = {
            let node = node.clone();
            thread::spawn(move || node.reserve_next_at(start(1), 1, 2).is_some())
        };
        let mine = node.reserve_next_at(start(1), 1, 2).is_some();
        assert!(other.join().unwrap() ^ mine);
        assert_eq!(node.at(start(1)).reserved(), 1);
        assert_eq!([Pass, ReservedPass].map(|event| node.at(start(2)).long().sum(event)), [2, 1]);
    });
}

/// Two threads reserve permits of two buckets, so each bucket is written before it begins. Both
/// permits are counted once their buckets have begun. With four preemptions there are so few
/// executions that `.ci/models quick` explores them all.
#[test]
fn permit_is_there_when_its_bucket_begins() {
    explore(Some(4), || {
        let node = node(node_config(1, 1));
        let other = {
            let node = node.clone();
            thread::spawn(move || node.reserve_next_at(start(1), 1, 1).is_some())
        };
        // The other thread's permit is of bucket 2, and this one of bucket 3.
        let mine = node.reserve_next_at(start(2), 1, 1).is_some();
        let passes = node.at(start(3)).long().sum(Pass);
        assert_eq!((mine, passes), (true, 1));
        let theirs = u64::from(other.join().unwrap());
        assert_eq!(node.at(start(2)).long().sum(Pass), theirs);
        assert_eq!(node.lifetime().sum(ReservedPass), 1 + theirs);
    });
}

#[test]
fn each_second_is_delivered_once() {
    explore(None, || {
        let node = node(node_config(2, 8));
        let cursor = Arc::new(SecondsCursor::new());
        // One block in second 0, and ten in second 1.
        node.block_many_at(start(1), 1);
        node.block_many_at(start(2), 10);
        let poll = |number| {
            let (node, cursor) = (node.clone(), cursor.clone());
            move || {
                node.at(start(number))
                    .poll_seconds(&cursor)
                    .map(|item| item.counts[Block])
                    .sum::<u64>()
            }
        };
        let other = thread::spawn(poll(2));
        let delivered = poll(4)();
        let sums = [delivered, other.join().unwrap()];
        assert!([[11, 0], [10, 1]].contains(&sums), "{sums:?}");
        assert_eq!(poll(4)(), 0);
    });
}

/// Two threads of one lane, of which one makes it, count responses of a class.
#[test]
fn each_response_is_counted_once() {
    explore(Some(3), || {
        let node = node(node_config(1, 2));
        let other = {
            let node = node.clone();
            thread::spawn(move || {
                node.count_response(ResponseClass::Successful);
                node.count_response(ResponseClass::Successful);
            })
        };
        node.count_response(ResponseClass::Successful);
        node.count_response(ResponseClass::Successful);
        other.join().unwrap();
        assert_eq!(node.responses()[ResponseClass::Successful], 4);
    });
}
