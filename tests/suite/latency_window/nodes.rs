//! Histograms of nodes: both windows, several geometries, and the quantiles of snapshots.

use std::time::Duration;

use leaparray::node::{NodeSnapshot, WindowSnapshot};
use leaparray::{
    Clock, HistogramConfig, LatencyHistogram, ManualClock, MetricTotals, NodeConfig, Outcome,
    ResourceNode, Timestamp,
};

use crate::latency_window::{geometry, scale};

type Node = ResourceNode<ManualClock>;

fn config(histogram: Option<HistogramConfig>) -> NodeConfig {
    let config = NodeConfig::new(geometry(2), geometry(4)).unwrap();
    histogram.map_or(config, |histogram| config.with_histogram(histogram))
}

fn node(histogram: Option<HistogramConfig>) -> Node {
    Node::with_clock(config(histogram), ManualClock::new(Timestamp::from_secs(60)))
}

/// Ends a request with that response time, at the node's time.
fn end(node: &Node, rt: Duration) {
    let now = node.clock().now();
    node.enter_at(now.saturating_sub(rt)).end_at(now, Outcome::Success);
}

fn of(scale: HistogramConfig, millis: impl IntoIterator<Item = u64>) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new(scale);
    millis.into_iter().for_each(|millis| histogram.record(Duration::from_millis(millis)));
    histogram
}

fn end_all(node: &Node, millis: impl IntoIterator<Item = u64>) {
    millis.into_iter().for_each(|millis| end(node, Duration::from_millis(millis)));
}

#[test]
fn each_window_has_the_response_times_of_its_buckets() {
    let node = node(Some(scale(4)));
    for second in 0..10 {
        end_all(&node, 100 * second + 1..100 * (second + 1));
        node.clock().advance(Duration::from_secs(1));
    }
    // A second is complete, and the next one is empty.
    assert_eq!(node.now().short().histogram(), Some(of(scale(4), 901..1_000)));
    let long = (7..10).flat_map(|second| 100 * second + 1..100 * (second + 1));
    assert_eq!(node.now().long().histogram(), Some(of(scale(4), long)));
    let all = (0..10).flat_map(|second| 100 * second + 1..100 * (second + 1));
    assert_eq!(node.lifetime_histogram(), Some(of(scale(4), all)));
}

#[test]
fn quantiles_of_a_snapshot_are_those_of_the_histograms() {
    let node = node(Some(scale(6)));
    for second in 0..3 {
        end_all(&node, 500 * second + 1..500 * (second + 1));
        node.clock().advance(Duration::from_secs(1));
    }
    let snapshot = node.now().snapshot();
    let [short, long] =
        [node.now().short().histogram().unwrap(), node.now().long().histogram().unwrap()];
    assert_eq!(snapshot.short.quantiles, short.summary());
    assert_eq!(snapshot.long.quantiles, long.summary());
    let quantiles = snapshot.long.quantiles.unwrap();
    let expected = [0.5, 0.9, 0.99, 0.999].map(|q| long.quantile(q).unwrap());
    assert_eq!([quantiles.p50, quantiles.p90, quantiles.p99, quantiles.p999], expected);
    assert_eq!(
        [node.now().short().quantile(0.9), node.now().long().quantile(0.9)],
        [short.quantile(0.9), Some(expected[1])]
    );
}

#[test]
fn node_without_a_histogram_has_no_quantiles() {
    let node = node(None);
    end_all(&node, 1..10);
    assert_eq!(
        [node.now().short().histogram(), node.now().long().histogram(), node.lifetime_histogram()],
        [const { None }; 3]
    );
    assert_eq!([node.now().short().quantile(0.5), node.now().long().quantile(0.5)], [None; 2]);
    assert_eq!(node.now().snapshot().long.quantiles, None);
}

#[test]
fn histograms_of_several_scales_are_merged_at_the_coarsest() {
    let node = node(Some(scale(6)));
    end_all(&node, 1..100);
    node.reconfigure(config(Some(scale(3))));
    assert_eq!(node.lifetime_histogram(), Some(of(scale(6), 1..100)), "nothing in scale 3");
    end_all(&node, 100..200);
    node.reconfigure(config(Some(scale(5))));
    end_all(&node, 200..300);
    let merged = Some(of(scale(3), 1..300));
    assert_eq!(
        [node.now().short().histogram(), node.lifetime_histogram()],
        [merged.clone(), merged]
    );
}

#[test]
fn response_times_of_a_geometry_without_a_histogram_are_missing() {
    let node = node(Some(scale(4)));
    end_all(&node, 1..100);
    node.reconfigure(config(None));
    end_all(&node, 100..200);
    assert_eq!(node.lifetime_histogram(), Some(of(scale(4), 1..100)));
    node.reconfigure(config(Some(scale(4))));
    end_all(&node, 200..300);
    assert_eq!(node.lifetime_histogram(), Some(of(scale(4), (1..100).chain(200..300))));
    assert_eq!(node.lifetime().rt_count(), 299);
}

#[test]
fn snapshot_has_quantiles_only_if_all_response_times_of_the_window_are_in_a_histogram() {
    let end_many = |node: &Node, millis, count| end_all(node, std::iter::repeat_n(millis, count));
    let quantiles = |node: &Node| {
        let NodeSnapshot { short, long, previous, .. } = node.now().snapshot();
        let of = |window: WindowSnapshot| {
            (window.totals.rt_count(), window.quantiles.map(|of| of.p50.as_millis()))
        };
        [of(short), of(long), of(previous.unwrap())]
    };

    let node = node(None);
    end_many(&node, 400, 1_000);
    node.reconfigure(config(Some(scale(4))));
    end_many(&node, 1, 1);
    assert_eq!(node.now().short().quantile(0.5), None);
    assert_eq!(quantiles(&node), [(1_001, None), (1_001, None), (0, None)], "switched on");
    node.clock().advance(Duration::from_secs(1));
    assert_eq!(quantiles(&node), [(1_001, None); 3], "also in the previous bucket");
    // The response times without a histogram have left the short window, but not the long one.
    node.clock().advance(Duration::from_secs(1));
    end_many(&node, 1, 1);
    assert_eq!(node.now().short().quantile(0.5), Some(Duration::from_millis(1)));
    assert_eq!(quantiles(&node), [(1, Some(1)), (1_002, None), (0, None)]);

    node.reconfigure(config(None));
    assert_eq!(
        quantiles(&node),
        [(1, Some(1)), (1_002, None), (0, None)],
        "nothing is missing yet"
    );
    end_many(&node, 400, 10_000);
    assert_eq!(quantiles(&node), [(10_001, None), (11_002, None), (0, None)], "switched off");
}

#[test]
fn totals_and_histogram_of_one_pass_are_those_of_two() {
    let node = node(None);
    let assert_same = |has_histogram| {
        let (mut sum, mut merged) = (MetricTotals::default(), None::<LatencyHistogram>);
        node.for_each_lifetime_histogram(|totals, histogram| {
            sum += totals;
            match (&mut merged, histogram) {
                (Some(merged), Some(histogram)) => merged.merge(histogram),
                (merged @ None, Some(histogram)) => *merged = Some(histogram.clone()),
                (_, None) => {}
            }
        });
        assert_eq!((sum, merged.is_some()), (node.lifetime(), has_histogram));
        assert_eq!(merged, node.lifetime_histogram());
    };
    assert_same(false);
    end_all(&node, 1..100);
    assert_same(false);
    node.reconfigure(config(Some(scale(4))));
    assert_same(true);
    for _ in 0..10 {
        end_all(&node, 100..200);
        let _ = node.reserve_next_at(node.clock().now(), 3, 100).unwrap();
        node.block();
        node.clock().advance(Duration::from_secs(1));
    }
    // Late: older than the window.
    let late = Timestamp::from_secs(60);
    node.enter_at(late).end_at(late, Outcome::Exception);
    assert_same(true);
    node.reconfigure(config(Some(scale(3))));
    end_all(&node, 200..300);
    assert_same(true);
}

#[test]
fn each_geometry_keeps_the_scale_of_its_response_times() {
    let node = node(Some(scale(6)));
    end_all(&node, 1..100);
    node.reconfigure(config(None));
    end_all(&node, 100..200);
    node.reconfigure(config(Some(scale(3))));
    end_all(&node, 200..300);
    let _ = node.reserve_next_at(node.clock().now(), 3, 100).unwrap();
    // An earlier geometry is used again.
    node.reconfigure(config(Some(scale(6))));
    end_all(&node, 300..400);

    let (mut sum, mut histograms) = (MetricTotals::default(), Vec::new());
    node.for_each_lifetime_histogram(|totals, histogram| {
        sum += totals;
        histograms.push((totals.rt_count(), histogram.cloned()));
    });
    let fine = of(scale(6), (1..100).chain(300..400));
    let coarse = of(scale(3), 200..300);
    assert_eq!(histograms, [(199, Some(fine)), (100, None), (100, Some(coarse))]);
    assert_eq!(sum, node.lifetime());
}

#[test]
fn totals_have_as_many_response_times_as_the_histogram_while_a_thread_records() {
    let node = node(Some(scale(4)));
    std::thread::scope(|scope| {
        let recording = scope.spawn(|| end_all(&node, (1..200_000).map(|it| it % 100)));
        while !recording.is_finished() {
            node.for_each_lifetime_histogram(|totals, histogram| {
                assert_eq!(totals.rt_count(), histogram.unwrap().count());
            });
        }
    });
    assert_eq!(node.lifetime().rt_count(), 199_999);
}

#[test]
fn cancelled_request_has_no_response_time() {
    let node = node(Some(scale(4)));
    node.enter().cancel();
    assert_eq!(node.now().short().histogram().map(|histogram| histogram.count()), Some(0));
}
