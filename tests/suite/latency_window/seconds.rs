//! Histograms of the seconds that a cursor delivers.

use std::time::Duration;

use leaparray::node::SecondsCursor;
use leaparray::{
    Clock, LatencyHistogram, ManualClock, MetricEvent, NodeConfig, Outcome, ResourceNode,
    Timestamp, WindowConfig,
};

use crate::latency_window::scale;

/// A node whose seconds have two buckets.
fn node(config: impl Fn(NodeConfig) -> NodeConfig) -> ResourceNode<ManualClock> {
    let long = WindowConfig::new(10, Duration::from_secs(5)).unwrap();
    let short = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    let clock = ManualClock::new(Timestamp::from_secs(60));
    ResourceNode::with_clock(config(NodeConfig::new(short, long).unwrap()), clock)
}

#[test]
fn each_second_has_the_histogram_of_its_response_times() {
    let node = node(|config| config.with_histogram(scale(5)));
    let cursor = SecondsCursor::new();
    for second in 0..20_u64 {
        let mut expected = LatencyHistogram::new(scale(5));
        for half in 0..2 {
            for millis in 1..=10 * (second + 1) {
                let (rt, now) = (Duration::from_millis(millis + 100 * half), node.clock().now());
                node.enter_at(now.saturating_sub(rt)).end_at(now, Outcome::Success);
                expected.record(rt);
            }
            node.clock().advance(Duration::from_millis(500));
        }
        let seconds: Vec<_> = node.now().poll_seconds(&cursor).collect();
        // The passes are in seconds before.
        let seconds: Vec<_> =
            seconds.iter().filter(|it| it.counts[MetricEvent::Success] > 0).collect();
        assert_eq!(seconds.len(), 1);
        assert_eq!(seconds[0].histogram.as_ref(), Some(&expected));
        assert_eq!(seconds[0].counts[MetricEvent::Rt], expected.count());
    }
}

#[test]
fn second_of_a_node_without_a_histogram_has_none() {
    let node = node(|config| config);
    node.enter().success();
    node.clock().advance(Duration::from_secs(1));
    let seconds: Vec<_> = node.now().poll_seconds(&SecondsCursor::new()).collect();
    assert_eq!((seconds.len(), &seconds[0].histogram), (1, &None));
}
