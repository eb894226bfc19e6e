//! Histograms of windows.
use leaparray::{HistogramConfig, MonotonicClock, SlidingWindow, Timestamp, WindowConfig};
use std::time::Duration;

#[test]
fn counts() {
    let config = WindowConfig::new(10, Duration::from_secs(1)).unwrap();
    let window =
        SlidingWindow::with_histogram(config, HistogramConfig::default(), MonotonicClock::new());
    let mut recorded = 0;
    for step in 0..1000_u64 {
        let now = Timestamp::from_millis(step * 7);
        for k in 0..=step % 5 {
            window.record_success_at(now, Duration::from_nanos((step + 1).pow(3) * (k + 1)));
            recorded += 1;
        }
        let h = window.histogram_at(now).unwrap();
        assert_eq!(h.count(), window.sum_at(now, leaparray::MetricEvent::Success), "{step}");
        assert_eq!(window.lifetime_histogram().unwrap().count(), recorded);
    }
    for round in 0..5 {
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for step in 0..1000_u64 {
                        let now = Timestamp::from_millis(7000 + round * 2000 + step * 7);
                        window.record_success_at(now, Duration::from_nanos((step + 1).pow(3)));
                    }
                });
            }
        });
        recorded += 3000;
        assert_eq!(window.lifetime_histogram().unwrap().count(), recorded);
        let now = Timestamp::from_millis(7000 + round * 2000 + 7000);
        assert_eq!(
            window.histogram_at(now).unwrap().count(),
            window.sum_at(now, leaparray::MetricEvent::Success)
        );
    }
    assert_eq!(window.lifetime().rt_count(), recorded);
}
