//! Each reading, by the clock and at a given time.

use leaparray::{Clock, NodeSnapshot, ResourceNode};

use super::*;

type Node = ResourceNode<ManualClock>;

/// A reading, by the clock of the node and at a given time.
type Reading<R> = (fn(&Node) -> R, fn(&Node, Timestamp) -> R);

/// Records requests in two buckets, half a second apart: three passes and one block, then two
/// passes and two blocks. Then reserves two permits of the next bucket. Returns the current time,
/// at which the short window covers half a second.
fn record(node: &Node, clock: &ManualClock) -> Timestamp {
    clock.advance(Duration::from_secs(10));
    let in_flight = node.enter_many_at(clock.now(), 3);
    node.block_at(clock.now());
    clock.advance(millis(7));
    in_flight.success();
    clock.advance(millis(493));
    let in_flight = node.enter_many_at(clock.now(), 2);
    node.block_many_at(clock.now(), 2);
    in_flight.exception_at(clock.now().saturating_add(millis(3)));
    assert!(node.reserve_next_at(clock.now(), 2, 5).is_some());
    clock.now()
}

/// Checks each reading by the clock, and at the same time after the clock has advanced.
fn check<R: PartialEq + std::fmt::Debug>(readings: &[(Reading<R>, R)]) {
    let (node, clock) = node();
    let now = record(&node, &clock);
    for ((by_clock, _), expected) in readings {
        assert_eq!(by_clock(&node), *expected);
    }
    clock.advance(Duration::from_secs(3_600));
    for ((_, at), expected) in readings {
        assert_eq!(at(&node, now), *expected);
    }
}

#[test]
fn rates() {
    check(&[
        ((|node| node.qps(Pass), |node, now| node.qps_at(now, Pass)), 10.0),
        ((Node::total_qps, Node::total_qps_at), 16.0),
        (
            (|node| node.qps_over_interval(Pass), |node, now| node.qps_over_interval_at(now, Pass)),
            5.0,
        ),
        ((|node| node.max_qps(Block), |node, now| node.max_qps_at(now, Block)), 4.0),
    ]);
    check(&[(
        (|node| node.previous_qps(Pass), |node, now| node.previous_qps_at(now, Pass)),
        Some(6.0),
    )]);
}

#[test]
fn sums() {
    check(&[
        ((|node| node.short_sum(Block), |node, now| node.short_sum_at(now, Block)), 3),
        ((|node| node.long_sum(Block), |node, now| node.long_sum_at(now, Block)), 3),
        ((Node::reserved, Node::reserved_at), 2),
    ]);
    check(&[((Node::max_concurrency, Node::max_concurrency_at), Some(1))]);
}

#[test]
fn short_sum_leaves_out_counts_that_only_the_long_window_has() {
    let (node, clock) = node();
    node.block_many(4);
    let request = node.enter();
    clock.advance(millis(2));
    request.success();
    clock.advance(Duration::from_secs(1));
    node.block();
    assert_eq!((node.short_sum(Block), node.long_sum(Block)), (1, 5));
    assert_eq!((node.short_rt_sum(), node.long_rt_sum()), (Duration::ZERO, millis(2)));
}

#[test]
fn response_times() {
    check(&[
        ((Node::avg_rt, Node::avg_rt_at), Some(millis(5))),
        ((Node::min_rt, Node::min_rt_at), Some(millis(3))),
        ((Node::max_rt, Node::max_rt_at), Some(millis(7))),
    ]);
    check(&[
        ((Node::short_rt_sum, Node::short_rt_sum_at), millis(7 + 3)),
        ((Node::long_rt_sum, Node::long_rt_sum_at), millis(7 + 3)),
    ]);
}

#[test]
fn snapshots() {
    let rates = |snapshot: NodeSnapshot| {
        [
            snapshot.pass_qps(),
            snapshot.block_qps(),
            snapshot.total_qps(),
            snapshot.success_qps(),
            snapshot.exception_qps(),
            snapshot.qps(Block),
            snapshot.max_success_qps,
        ]
    };
    let (node, clock) = node();
    let now = record(&node, &clock);
    let snapshot = node.snapshot();
    assert_eq!((snapshot.timestamp, snapshot.reserved, snapshot.concurrency), (now, 2, 0));
    assert_eq!((snapshot.avg_rt(), snapshot.long.totals.sum(Block)), (Some(millis(5)), 3));
    assert_eq!(
        (snapshot.previous_pass_qps(), snapshot.previous_block_qps()),
        (Some(6.0), Some(2.0))
    );
    assert_eq!(snapshot.short.qps_over_interval(Pass).to_bits(), 5.0_f64.to_bits());
    assert_eq!(rates(snapshot), [10.0, 6.0, 16.0, 6.0, 4.0, 6.0, 6.0]);
    clock.advance(millis(500));
    assert_eq!(node.snapshot().reserved_pass_qps(), 4.0);
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(rates(node.snapshot_at(now)), [10.0, 6.0, 16.0, 6.0, 4.0, 6.0, 6.0]);
}

#[test]
fn node_is_printed_with_its_concurrency() {
    let (node, _) = node();
    let _in_flight = node.enter();
    let printed = format!("{node:?}");
    assert!(printed.starts_with("ResourceNode { config: NodeConfig"), "{printed}");
    assert!(printed.ends_with("concurrency: 1, .. }"), "{printed}");
}
