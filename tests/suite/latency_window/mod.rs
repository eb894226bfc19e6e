//! Histograms of windows and nodes, compared with the histogram of the recorded response times.

mod nodes;
mod oracle;
mod schedules;
mod seconds;
mod threads;
mod windows;

use std::time::Duration;

use leaparray::{HistogramConfig, ManualClock, SlidingWindow, Timestamp, WindowConfig};

type Window = SlidingWindow<ManualClock>;

/// The length of a bucket.
const BUCKET: Duration = Duration::from_secs(1);

fn geometry(samples: u32) -> WindowConfig {
    WindowConfig::new(samples as usize, BUCKET * samples).unwrap()
}

fn scale(scale: u8) -> HistogramConfig {
    HistogramConfig::with_scale(scale).unwrap()
}

fn window(samples: u32, scale: HistogramConfig) -> Window {
    Window::with_histogram(geometry(samples), scale, ManualClock::new(Timestamp::MIN))
}
