//! The cases that measure leaparray itself, and their baselines.

pub(crate) mod crowd;
pub(crate) mod decide;
pub(crate) mod elsewhere;
pub(crate) mod first;
pub(crate) mod many;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod rollover;

use std::time::Duration;

use leaparray::MetricEvent::Pass;
use leaparray::{MonotonicClock, SlidingWindow, Timestamp, WindowConfig};

use crowd::Crowd;

/// The time of the cases at a given time. The value is arbitrary.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_540_629_300);
/// A response time.
pub(crate) const RT: Duration = Duration::from_micros(250);
pub(crate) const BUCKET_LEN: Duration = Duration::from_millis(500);

/// Creates a window of `sample_count` buckets of half a second. All windows share one clock.
pub(crate) fn window(sample_count: u32, clock: &MonotonicClock) -> SlidingWindow {
    SlidingWindow::with_clock(config(sample_count, BUCKET_LEN), clock.clone())
}

/// Creates a window that a crowd has used up to `NOW`.
fn used_window(sample_count: u32, crowd: Crowd, clock: &MonotonicClock) -> SlidingWindow {
    let window = window(sample_count, clock);
    let used = window.clone();
    crowd::record(crowd, move |then| {
        used.add_at(then, Pass, 1);
        used.record_success_at(then, RT);
    });
    window
}

/// Returns the geometry of `sample_count` buckets of length `bucket_len`.
pub(crate) fn config(sample_count: u32, bucket_len: Duration) -> WindowConfig {
    let interval = bucket_len * sample_count;
    WindowConfig::new(sample_count as usize, interval).expect("whole buckets")
}
