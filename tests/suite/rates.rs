//! Rates are divided by the time that a window covers, so they are unbiased.

use std::time::Duration;

use leaparray::{
    Clock, ManualClock, MetricEvent, NodeConfig, Outcome, ResourceNode, SlidingWindow, Timestamp,
    WindowConfig,
};
use proptest::prelude::*;

const PASS: MetricEvent = MetricEvent::Pass;
const MADE: u64 = 60_123_456_789;

fn t(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn window_made_at(
    made: Timestamp,
    samples: usize,
    interval: Duration,
) -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(samples, interval).unwrap();
    SlidingWindow::with_clock(config, ManualClock::new(made))
}

/// Checks that the sum differs by at most one from the events of a steady rate in the time that was
/// covered.
#[expect(clippy::cast_precision_loss, reason = "small sums")]
fn assert_unbiased(what: &str, sum: u64, rate: f64, covered: Duration, gap: u64) {
    let expected = covered.as_nanos() as f64 / gap as f64;
    assert!((sum as f64 - expected).abs() <= 1.0 + 1e-9, "{what}: {sum} of {expected}");
    let read = rate * covered.as_secs_f64();
    assert!((read - sum as f64).abs() <= 1e-6 * (1.0 + read), "{what}: {read} of {sum}");
}

/// Checks all rates of a window, of a view and of a node at one time.
fn check(
    window: &SlidingWindow<ManualClock>,
    node: &ResourceNode<ManualClock>,
    now: Timestamp,
    gap: u64,
) {
    let view = window.view(WindowConfig::new(1, window.config().interval() / 5).unwrap()).unwrap();
    for (name, window) in [("window", window), ("view", &view)] {
        let covered = window.at(now).coverage().covered;
        assert_unbiased(name, window.at(now).sum(PASS), window.at(now).qps(PASS), covered, gap);
    }
    let snapshot = node.at(now).snapshot();
    for (name, window) in [("short", &snapshot.short), ("long", &snapshot.long)] {
        let sum = window.totals.sum(PASS);
        assert_unbiased(name, sum, window.qps(PASS), window.covered, gap);
    }
    assert_eq!(node.at(now).short().qps(PASS).to_bits(), snapshot.pass_qps().to_bits());
}

proptest! {
    /// Events come at a steady rate from the moment on at which the windows are made, and are read
    /// at any time between two of them.
    #[test]
    fn steady_rate_is_read_within_one_event(
        gap in 20_000_u64..40_000_000,
        offset in 0..1_000_000_000_u64,
        reads in proptest::collection::vec(51_000_000..3_000_000_000_u64, 1..8),
    ) {
        let made = Timestamp::from_nanos(MADE + offset);
        let window = window_made_at(made, 10, millis(1_000));
        let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(made));
        let mut reads = reads;
        reads.sort_unstable();
        let mut event = made.as_nanos();
        for now in reads.into_iter().map(|read| made.as_nanos() + read) {
            while event <= now {
                let at = Timestamp::from_nanos(event);
                window.add_at(at, PASS, 1);
                node.enter_at(at).end_at(at, Outcome::Success);
                event += gap;
            }
            check(&window, &node, Timestamp::from_nanos(now), gap);
        }
    }
}

#[test]
fn poller_just_after_each_edge_reads_the_rate() {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(t(60_000)));
    for event in 60_000..70_000 {
        node.enter_at(t(event)).end_at(t(event), Outcome::Success);
        if event > 61_000 && event % 500 == 1 {
            // 501 ms are covered, with an event at each end.
            let read = node.at(t(event)).short().qps(PASS);
            assert!((read - 502.0 / 0.501).abs() < 1e-6, "{read}");
            assert!((node.at(t(event)).short().qps_over_interval(PASS) - 502.0).abs() < 1e-9);
        }
    }
}

#[test]
#[expect(clippy::float_cmp, reason = "these rates are exact in an f64")]
fn young_window_divides_by_its_age() {
    let window = window_made_at(t(10_030), 10, millis(1_000));
    window.add_at(t(10_030), PASS, 10);
    assert_eq!(window.at(t(10_080)).qps(PASS), 200.0, "50 ms old");
    assert_eq!(window.at(t(10_530)).qps(PASS), 20.0, "half a second old");
    let covered = |now| window.at(t(now)).coverage().covered;
    assert_eq!([10_999, 11_000, 11_010].map(covered), [969, 900, 910].map(millis));
    let view = window.view(WindowConfig::new(2, millis(200)).unwrap()).unwrap();
    assert_eq!(view.at(t(10_130)).coverage().covered, millis(100), "younger than the view");
    assert_eq!(view.at(t(10_270)).coverage().covered, millis(170), "older than the view");
}

#[test]
#[expect(clippy::float_cmp, reason = "these rates are exact in an f64")]
fn divisor_is_at_least_a_tenth_of_a_bucket() {
    let window = window_made_at(t(10_030), 10, millis(1_000));
    window.add_at(t(10_030), PASS, 1);
    assert_eq!(window.at(t(10_030)).qps(PASS), 100.0, "a tenth of 100 ms");
    assert_eq!(window.at(t(10_040)).qps(PASS), 100.0);
    assert_eq!(window.at(t(10_050)).qps(PASS), 50.0);
    // One bucket, just after an edge.
    let single = window_made_at(t(10_000), 1, millis(1_000));
    single.add_at(t(12_000), PASS, 1);
    assert_eq!([12_000, 12_100].map(|now| single.at(t(now)).qps(PASS)), [10.0, 10.0]);
    assert_eq!(single.at(t(12_500)).qps(PASS), 2.0);
    // The shortest bucket has a tenth of less than a nanosecond.
    let shortest = window_made_at(Timestamp::MIN, 1, Duration::from_nanos(2));
    assert_eq!(shortest.at(Timestamp::MIN).coverage().covered, Duration::from_nanos(1));
}

#[test]
#[expect(clippy::float_cmp, reason = "these rates are exact in an f64")]
fn rate_before_the_window_was_made_divides_by_what_it_covers() {
    let window = window_made_at(t(10_000), 10, millis(1_000));
    // As when history is played back.
    window.add_at(t(4_910), PASS, 3);
    assert_eq!(window.at(t(4_950)).qps(PASS), 3.0 / 0.95);
    window.add_at(t(500), PASS, 3);
    assert_eq!(window.at(t(500)).qps(PASS), 6.0, "from the beginning of time");
}

#[test]
fn previous_rate_divides_by_the_part_of_its_bucket_in_which_the_window_existed() {
    let window = window_made_at(t(10_060), 4, millis(400));
    window.add_at(t(10_060), PASS, 4);
    assert_eq!(window.at(t(10_150)).previous_qps(PASS), Some(100.0));
    window.add_at(t(10_150), PASS, 4);
    assert_eq!(window.at(t(10_200)).previous_qps(PASS), Some(40.0));
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(t(10_300)));
    node.enter_at(t(10_300)).end_at(t(10_300), Outcome::Success);
    assert_eq!(node.at(t(10_600)).short().previous_qps(PASS), Some(5.0));
    assert_eq!(node.at(t(10_600)).snapshot().previous_pass_qps(), Some(5.0));
    // Buckets of a second over buckets of half a second: at 10.75 s, the previous one is from 9 s
    // to 10 s.
    let minute = window_made_at(t(9_600), 120, Duration::from_secs(60));
    let view = minute.view(WindowConfig::new(1, Duration::from_secs(1)).unwrap()).unwrap();
    view.add_at(t(9_600), PASS, 4);
    assert_eq!(view.at(t(10_750)).previous_qps(PASS), Some(10.0), "four in 0.4 s");
    // Made a nanosecond before the bucket ends.
    let late = window_made_at(Timestamp::from_nanos(10_099_999_999), 4, millis(400));
    late.add_at(late.clock().now(), PASS, 1);
    assert_eq!(late.at(t(10_100)).previous_qps(PASS), Some(100.0));
}

#[test]
#[expect(clippy::float_cmp, reason = "these rates are exact in an f64")]
fn rate_over_the_interval_is_the_sum_divided_by_the_interval() {
    let window = window_made_at(t(10_000), 10, millis(2_000));
    window.add_at(t(10_000), PASS, 10);
    for now in [10_000, 10_300, 11_999] {
        assert_eq!(window.at(t(now)).qps_over_interval(PASS), 5.0);
    }
    let view = window.view(WindowConfig::new(1, millis(400)).unwrap()).unwrap();
    assert_eq!(view.at(t(10_100)).qps_over_interval(PASS), 25.0);
    assert_eq!(window.now().qps_over_interval(PASS), 5.0, "by the clock");
}

#[test]
fn coverage_is_cut_at_the_beginning_of_time() {
    let window = window_made_at(Timestamp::MIN, 10, millis(1_000));
    let young = window.at(t(250)).coverage();
    assert_eq!((young.start, young.buckets, young.covered), (Timestamp::MIN, 3, millis(250)));
    let whole = window.at(t(5_250)).coverage();
    assert_eq!((whole.start, whole.buckets, whole.covered), (t(4_300), 10, millis(950)));
}
