//! The geometry of a node, and changes of it.

use std::time::Duration;

use leaparray::MetricEvent::{Block, Pass, Success};
use leaparray::node::{NodeConfigError, SecondsCursor};
use leaparray::time::ViewError;
use leaparray::{Clock, Entry, NodeConfig, ResourceNode, Timestamp, WindowConfig, WindowReading};

use crate::resource_node::{NOON, config, millis, node};

#[test]
fn invalid_geometries_are_refused() {
    let window = |samples, secs| WindowConfig::new(samples, Duration::from_secs(secs)).unwrap();
    let no_view = ViewError::IntervalNotADivisor {
        view: Duration::from_secs(7),
        array: Duration::from_secs(60),
    };
    assert_eq!(
        NodeConfig::new(window(14, 7), window(120, 60)),
        Err(NodeConfigError::NoView(no_view))
    );
    assert_eq!(
        NodeConfig::new(window(2, 3), window(40, 60)),
        Err(NodeConfigError::NoWholeSeconds { bucket_len: millis(1_500) })
    );
}

#[test]
fn shorter_geometry_that_is_left_counts_once_in_a_longer_one() {
    let (node, clock) = node();
    let minute = WindowConfig::new(4, Duration::from_secs(2)).unwrap();
    node.reconfigure(
        NodeConfig::new(WindowConfig::new(2, Duration::from_secs(1)).unwrap(), minute).unwrap(),
    );
    for _ in 0..3 {
        node.enter().success();
        clock.advance(millis(500));
    }
    node.reconfigure(NodeConfig::default());
    assert_eq!(node.now().long().sum(Pass), 3);
    assert_eq!(node.now().snapshot().long.totals.sum(Pass), 3);
    clock.advance(Duration::from_secs(57));
    assert_eq!(node.now().long().sum(Pass), 3);
    clock.advance(Duration::from_secs(3));
    assert_eq!(node.now().long().sum(Pass), 0);
}

#[test]
fn counts_stay_when_the_geometry_changes_and_when_it_changes_back() {
    let (node, clock) = node();
    clock.advance(Duration::from_secs(100));
    let passes = |geometry: NodeConfig| {
        node.reconfigure(geometry);
        assert_eq!(*node.config(), geometry);
        node.enter().success();
        (node.now().short().sum(Pass), node.now().long().sum(Pass), node.lifetime().sum(Pass))
    };
    assert_eq!(passes(NodeConfig::default()), (1, 1, 1));
    assert_eq!(passes(config(10, 600)), (2, 2, 2));
    clock.advance(millis(700));
    // The half second that began 700 ms ago is within the last ten tenths.
    assert_eq!(passes(config(10, 600)), (3, 3, 3));
    assert_eq!(passes(config(1, 60)), (4, 4, 4));
    clock.advance(millis(400));
    // The short window begins at 100.5 s. The tenth of 100.7 s is within it, but not the second
    // that began at 100 s.
    assert_eq!(passes(NodeConfig::default()), (2, 5, 5));
    assert_eq!(node.now().short().max_qps(Success), 2.0);
    assert_eq!(node.concurrency(), 0);
    clock.advance(Duration::from_secs(61));
    assert_eq!((node.now().long().sum(Pass), node.lifetime().sum(Pass)), (0, 5));
    assert_eq!(node.now().long().ledger().recorded(), node.lifetime());
}

#[test]
fn ring_that_is_left_keeps_its_counts_for_a_longer_window() {
    let (node, clock) = node();
    clock.advance(Duration::from_secs(100));
    let ten_seconds = WindowConfig::new(20, Duration::from_secs(10)).unwrap();
    node.reconfigure(NodeConfig::new(*config(2, 120).short(), ten_seconds).unwrap());
    Entry::enter_many_at(&*node, node.clock().now(), 7).success();
    node.reconfigure(NodeConfig::default());
    for secs in [9, 11, 59, 60] {
        clock.set(NOON.saturating_add(Duration::from_secs(100 + secs)));
        assert_eq!(node.now().long().sum(Pass), if secs < 60 { 7 } else { 0 }, "{secs} s later");
    }
    // A ring of one bucket, at the beginning of time.
    clock.set(Timestamp::MIN);
    let node = ResourceNode::with_clock(config(1, 60), clock.clone());
    let short = WindowConfig::new(1, Duration::from_secs(1)).unwrap();
    node.reconfigure(NodeConfig::new(short, short).unwrap());
    node.block();
    clock.advance(Duration::from_secs(1));
    node.block();
    node.reconfigure(config(1, 60));
    clock.advance(Duration::from_secs(9));
    assert_eq!(node.now().long().sum(Block), 1, "the first block has left its ring");
}

#[test]
fn limit_holds_across_geometries_and_for_stale_timestamps() {
    let (node, clock) = node();
    clock.advance(millis(450));
    assert!(node.reserve_next_at(node.clock().now(), 5, 5).is_some());
    node.reconfigure(config(10, 600));
    assert!(node.reserve_next_at(node.clock().now(), 1, 5).is_none());
    assert_eq!(node.now().reserved(), 5);
    clock.advance(millis(60));
    assert!(node.reserve_next_at(node.clock().now(), 1, 6).is_some());
    let late = clock.now().saturating_sub(millis(100));
    assert!(node.reserve_next_at(late, 6, 11).is_none(), "five and one are taken");
    assert!(node.reserve_next_at(late, 5, 11).is_some());
}

#[test]
fn long_window_of_less_than_two_seconds() {
    let (node, clock) = node();
    let tenth = WindowConfig::new(10, millis(100)).unwrap();
    node.reconfigure(NodeConfig::new(tenth, tenth).unwrap());
    let cursor = SecondsCursor::new();
    for _ in 0..5 {
        clock.advance(millis(1));
        assert_eq!((node.now().poll_seconds(&cursor).count(), cursor.missed()), (0, 0));
    }
    let second = WindowConfig::new(1, Duration::from_secs(1)).unwrap();
    let halves = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    node.reconfigure(NodeConfig::new(second, halves).unwrap());
    assert_eq!(
        (node.now().snapshot().previous, node.now().short().previous_qps(Pass)),
        (None, None)
    );
}

#[test]
fn long_window_of_two_short_ones_keeps_the_previous_one() {
    let (node, clock) = node();
    let short = WindowConfig::new(1, Duration::from_secs(1)).unwrap();
    let long = WindowConfig::new(2, Duration::from_secs(2)).unwrap();
    node.reconfigure(NodeConfig::new(short, long).unwrap());
    Entry::enter_many_at(&*node, node.clock().now(), 3).success();
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        (node.now().short().previous_qps(Pass), node.now().snapshot().previous_pass_qps()),
        (Some(3.0), Some(3.0))
    );
}

#[test]
fn younger_geometry_knows_how_old_the_node_is() {
    let (node, clock) = node();
    clock.advance(millis(500));
    node.reconfigure(config(10, 600));
    Entry::enter_many_at(&*node, node.clock().now(), 12).success();
    assert!((node.now().short().qps(Pass) - 12.0 / 0.5).abs() < 1e-9, "half a second");
}

#[test]
fn seconds_survive_a_change_of_the_geometry() {
    let (node, clock) = node();
    let cursor = SecondsCursor::new();
    node.block();
    node.reconfigure(config(10, 600));
    node.block_many_at(node.clock().now(), 2);
    clock.advance(millis(1_000));
    let blocks: Vec<_> = node.now().poll_seconds(&cursor).map(|item| item.counts[Block]).collect();
    assert_eq!(blocks, [3]);
}

/// A reading is a reference and a time. It is made before the change of the geometry, and read
/// after a record under the new one.
#[test]
fn reading_that_is_kept_has_the_records_of_a_later_geometry() {
    let (node, clock) = node();
    let reading = node.at(clock.now());
    node.block_many_at(node.clock().now(), 1);
    node.reconfigure(config(10, 600));
    node.block_many_at(node.clock().now(), 10);
    assert_eq!((reading.short().sum(Block), reading.long().sum(Block)), (11, 11));
    let short = reading.short();
    assert!(node.reserve_next_at(node.clock().now(), 100, 200).is_some());
    node.reconfigure(config(4, 240));
    node.block_many_at(node.clock().now(), 1_000);
    assert_eq!((short.sum(Block), short.ledger().in_window.sum(Block)), (1_011, 1_011));
}

/// A bucket of an earlier geometry that lies partly before the window is in no read of the window.
#[test]
fn ledger_has_the_same_counts_in_the_window_as_the_other_reads() {
    let (node, clock) = node();
    // Buckets of a second, half a minute long, and then of half a second, a minute long.
    let second = WindowConfig::new(1, Duration::from_secs(1)).unwrap();
    let half_a_minute = WindowConfig::new(30, Duration::from_secs(30)).unwrap();
    node.reconfigure(NodeConfig::new(second, half_a_minute).unwrap());
    node.block_many_at(node.clock().now(), 1);
    clock.advance(millis(700));
    node.reconfigure(NodeConfig::default());
    node.block_many_at(node.clock().now(), 10);
    let blocks = |reading: WindowReading<'_>| {
        let ledger = reading.ledger().map(|it| it.sum(Block));
        assert_eq!(ledger.in_window, reading.sum(Block));
        assert_eq!(ledger.in_window, reading.totals().sum(Block));
        assert_eq!(ledger.recorded(), 11);
        ledger.in_window
    };
    let in_window = |at| {
        let reading = node.at(NOON.saturating_add(at));
        (blocks(reading.short()), blocks(reading.long()))
    };
    assert_eq!(in_window(millis(700)), (11, 11));
    // The short window begins half a second after noon.
    assert_eq!(in_window(millis(1_000)), (10, 11));
    assert_eq!(in_window(millis(40_000)), (0, 11));
    assert_eq!(in_window(millis(60_000)), (0, 10));
    assert_eq!(in_window(millis(60_500)), (0, 0));
}
