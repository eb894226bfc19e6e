//! Each reading, by the clock and at a given time.

use leaparray::node::NodeSnapshot;
use leaparray::{Clock, NodeReading, Outcome, ResourceNode};

use super::*;

type Node = ResourceNode<ManualClock>;

/// A reading, by the clock of the node and at a given time.
type Read<R> = fn(NodeReading<'_, ManualClock>) -> R;

/// Records requests in two buckets, half a second apart: three passes and one block, then two
/// passes and two blocks. Then reserves two permits of the next bucket. Returns the current time,
/// at which the short window covers half a second.
fn record(node: &Node, clock: &ManualClock) -> Timestamp {
    clock.advance(Duration::from_secs(10));
    let in_flight = Entry::enter_many_at(node, clock.now(), 3);
    node.block_many_at(clock.now(), 1);
    clock.advance(millis(7));
    in_flight.success();
    clock.advance(millis(493));
    let in_flight = Entry::enter_many_at(node, clock.now(), 2);
    node.block_many_at(clock.now(), 2);
    in_flight.end_at(clock.now().saturating_add(millis(3)), Outcome::Exception);
    assert!(node.reserve_next_at(clock.now(), 2, 5).is_some());
    clock.now()
}

/// Checks each read at the time of the clock, and at the same time after the clock has advanced.
fn check<R: PartialEq + std::fmt::Debug>(reads: &[(Read<R>, R)]) {
    let (node, clock) = node();
    let now = record(&node, &clock);
    for (read, expected) in reads {
        assert_eq!(read(node.now()), *expected);
    }
    clock.advance(Duration::from_secs(3_600));
    for (read, expected) in reads {
        assert_eq!(read(node.at(now)), *expected);
    }
}

#[test]
fn rates() {
    check(&[
        (|node| node.short().qps(Pass), 10.0),
        (|node| node.short().qps_over_interval(Pass), 5.0),
        (|node| node.short().max_qps(Block), 4.0),
    ]);
    check(&[(|node| node.short().previous_qps(Pass), Some(6.0))]);
}

#[test]
fn sums() {
    check(&[
        (|node| node.short().sum(Block), 3),
        (|node| node.long().sum(Block), 3),
        (|node| node.short().max_of_single_bucket(Block), 2),
        (|node| node.reserved(), 2),
    ]);
    check(&[(|node| node.short().totals().max_concurrency(), Some(1))]);
}

#[test]
fn short_sum_leaves_out_counts_that_only_the_long_window_has() {
    let (node, clock) = node();
    node.block_many_at(node.clock().now(), 4);
    let request = node.enter();
    clock.advance(millis(2));
    request.success();
    clock.advance(Duration::from_secs(1));
    node.block();
    assert_eq!((node.now().short().sum(Block), node.now().long().sum(Block)), (1, 5));
    assert_eq!(
        (node.now().short().totals().rt_sum(), node.now().long().totals().rt_sum()),
        (Duration::ZERO, millis(2))
    );
}

#[test]
fn response_times() {
    check(&[
        (|node| node.short().totals().avg_rt(), Some(millis(5))),
        (|node| node.short().totals().min_rt(), Some(millis(3))),
        (|node| node.short().totals().max_rt(), Some(millis(7))),
        (|node| node.short().totals().rt_sum().into(), Some(millis(7 + 3))),
        (|node| node.long().totals().rt_sum().into(), Some(millis(7 + 3))),
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
    let snapshot = node.now().snapshot();
    assert_eq!((snapshot.timestamp, snapshot.reserved, snapshot.concurrency), (now, 2, 0));
    assert_eq!((snapshot.avg_rt(), snapshot.long.totals.sum(Block)), (Some(millis(5)), 3));
    assert_eq!(
        (snapshot.previous_pass_qps(), snapshot.previous_block_qps()),
        (Some(6.0), Some(2.0))
    );
    assert_eq!(snapshot.short.qps_over_interval(Pass).to_bits(), 5.0_f64.to_bits());
    assert_eq!(rates(snapshot), [10.0, 6.0, 16.0, 6.0, 4.0, 6.0, 6.0]);
    clock.advance(millis(500));
    assert_eq!(node.now().snapshot().reserved_pass_qps(), 4.0);
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(rates(node.at(now).snapshot()), [10.0, 6.0, 16.0, 6.0, 4.0, 6.0, 6.0]);
}

#[test]
fn node_is_printed_with_its_concurrency() {
    let (node, _) = node();
    let _in_flight = node.enter();
    let printed = format!("{node:?}");
    assert!(printed.starts_with("ResourceNode { config: NodeConfig"), "{printed}");
    assert!(printed.ends_with("concurrency: 1, .. }"), "{printed}");
}
