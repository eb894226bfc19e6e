//! Metrics in sliding windows.

use std::thread;
use std::time::Duration;

use leaparray::{HistogramConfig, ManualClock, MetricEvent, Timestamp, WindowConfig};
use leaparray_metrics::WindowRecorder;
use metrics::{Key, counter, gauge, histogram, with_local_recorder};
use metrics_util::layers::FanoutBuilder;

fn recorder() -> (WindowRecorder<ManualClock>, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let second = WindowConfig::new(10, Duration::from_secs(1)).unwrap();
    (WindowRecorder::new(second, HistogramConfig::default(), clock.clone()), clock)
}

fn key(name: &'static str) -> Key {
    Key::from_name(name)
}

#[test]
fn counters_have_rates() {
    let (windows, clock) = recorder();
    with_local_recorder(&windows, || {
        counter!("orders").increment(5);
        counter!("orders").increment(7);
        counter!("orders", "shop" => "a").increment(1);
    });
    let orders = windows.counter(&key("orders")).unwrap();
    assert_eq!(orders.now().sum(MetricEvent::Pass), 12);
    let of_shop = Key::from_parts("orders", vec![metrics::Label::new("shop", "a")]);
    assert_eq!(windows.counter(&of_shop).unwrap().now().sum(MetricEvent::Pass), 1);
    assert_eq!(windows.counters().len(), 2);
    clock.advance(Duration::from_secs(2));
    assert_eq!(orders.now().sum(MetricEvent::Pass), 0);
    assert_eq!(orders.lifetime().sum(MetricEvent::Pass), 12);
}

#[test]
fn counter_that_is_set_counts_what_it_grows_by() {
    let (windows, clock) = recorder();
    let set = |value| with_local_recorder(&windows, || counter!("bytes").absolute(value));
    set(100);
    clock.advance(Duration::from_secs(2));
    set(130);
    set(120);
    let bytes = windows.counter(&key("bytes")).unwrap();
    assert_eq!(bytes.now().sum(MetricEvent::Pass), 30);
    assert_eq!(bytes.lifetime().sum(MetricEvent::Pass), 30);
}

#[test]
fn first_value_that_a_counter_is_set_to_is_where_it_begins() {
    let (windows, _) = recorder();
    let set = |name, value| with_local_recorder(&windows, || counter!(name).absolute(value));
    let sum = |name| windows.counter(&key(name)).unwrap().now().sum(MetricEvent::Pass);
    // Since the start of the system, for example.
    set("bytes", 1_000_000_000);
    assert_eq!(sum("bytes"), 0);
    set("bytes", 1_000_000_030);
    assert_eq!(sum("bytes"), 30);
    // 0 is a value, too.
    for value in [0, 0, 5] {
        set("errors", value);
    }
    assert_eq!(sum("errors"), 5);
    set("most", u64::MAX - 1);
    set("most", u64::MAX);
    assert_eq!(sum("most"), 0, "cut");
}

#[test]
fn counter_that_is_incremented_and_set_has_one_value() {
    let (windows, _) = recorder();
    with_local_recorder(&windows, || {
        counter!("bytes").increment(10);
        counter!("bytes").absolute(12);
        counter!("bytes").increment(1);
        counter!("bytes").absolute(13);
    });
    assert_eq!(windows.counter(&key("bytes")).unwrap().now().sum(MetricEvent::Pass), 13);
}

#[test]
fn counter_that_was_set_is_not_dropped() {
    let (windows, clock) = recorder();
    let set = |value| with_local_recorder(&windows, || counter!("bytes").absolute(value));
    set(100);
    clock.advance(Duration::from_secs(2));
    assert_eq!(windows.drop_idle(), 0);
    set(130);
    assert_eq!(windows.counter(&key("bytes")).unwrap().now().sum(MetricEvent::Pass), 30);
}

#[test]
fn threads_that_set_a_counter_count_the_greatest_value() {
    let (windows, _) = recorder();
    thread::scope(|scope| {
        for first in 0..4 {
            let windows = &windows;
            scope.spawn(move || {
                for value in (first..10_000).step_by(4) {
                    with_local_recorder(windows, || counter!("bytes").absolute(1_000_000 + value));
                }
            });
        }
    });
    // From the value of one of the threads on, which is one of the first four of all.
    let sum = windows.counter(&key("bytes")).unwrap().lifetime().sum(MetricEvent::Pass);
    assert!((9_996..=9_999).contains(&sum), "{sum}");
}

#[test]
fn histograms_have_quantiles() {
    let (windows, _) = recorder();
    with_local_recorder(&windows, || {
        for value in 1..=100 {
            histogram!("latency").record(f64::from(value) / 1e3);
        }
        histogram!("size").record_many(1.5e6, 3);
    });
    let latency = windows.histogram(&key("latency")).unwrap();
    let error = HistogramConfig::default().relative_error();
    let p50 = latency.now().quantile(0.5).unwrap().as_secs_f64();
    assert!((p50 / 0.05 - 1.0).abs() <= error, "{p50}");
    assert_eq!(latency.now().quantile(1.0), Some(Duration::from_millis(100)));
    let size = windows.histogram(&key("size")).unwrap();
    assert_eq!(size.now().totals().max_rt(), Some(Duration::from_secs(1_500_000)));
    assert_eq!(windows.histograms().len(), 2);
}

#[test]
fn values_that_no_histogram_can_have_are_counted() {
    let (windows, _) = recorder();
    with_local_recorder(&windows, || {
        for value in [-1.0, f64::NAN, f64::NEG_INFINITY, 0.0, f64::INFINITY, 1e10] {
            histogram!("latency").record(value);
        }
    });
    assert_eq!(windows.invalid(), 3);
    let latency = windows.histogram(&key("latency")).unwrap();
    assert_eq!(latency.now().histogram().unwrap().count(), 3);
    assert_eq!(latency.now().totals().max_rt(), Some(Duration::from_nanos(1 << 62)));
}

#[test]
fn gauges_have_values() {
    let (windows, _) = recorder();
    with_local_recorder(&windows, || {
        gauge!("queue").set(5.0);
        gauge!("queue").increment(2.5);
        gauge!("queue").decrement(1.0);
    });
    assert_eq!(windows.gauge(&key("queue")), Some(6.5));
    assert_eq!(windows.gauges(), [(key("queue"), 6.5)]);
    assert_eq!(windows.gauge(&key("none")), None);
}

#[test]
fn idle_metrics_are_dropped_unless_a_handle_is_kept() {
    let (windows, clock) = recorder();
    let kept = with_local_recorder(&windows, || {
        counter!("once").increment(1);
        histogram!("once").record(1.0);
        let kept = counter!("kept");
        kept.increment(1);
        kept
    });
    assert_eq!(windows.drop_idle(), 0);
    clock.advance(Duration::from_secs(2));
    with_local_recorder(&windows, || counter!("active").increment(1));
    assert_eq!(windows.drop_idle(), 2);
    kept.increment(1);
    assert_eq!(windows.counter(&key("kept")).unwrap().now().sum(MetricEvent::Pass), 1);
    assert!(windows.counter(&key("once")).is_none() && windows.histogram(&key("once")).is_none());
    assert!(windows.counter(&key("active")).is_some());
}

#[test]
fn exporter_beside_it_has_the_same_counts() {
    let (windows, _) = recorder();
    let exporter = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = exporter.handle();
    let fanout = FanoutBuilder::default().add_recorder(exporter).add_recorder(windows.clone());
    with_local_recorder(&fanout.build(), || {
        for _ in 0..1_000 {
            counter!("orders").increment(3);
        }
    });
    assert!(handle.render().contains("orders 3000"), "{}", handle.render());
    assert_eq!(windows.counter(&key("orders")).unwrap().now().sum(MetricEvent::Pass), 3_000);
}
