//! What is measured of leaparray itself, beside what it is made of.

pub(crate) mod crowd;
pub(crate) mod decide;
pub(crate) mod first;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod rotate;
pub(crate) mod tail;

use std::time::Duration;

use leaparray::{MonotonicClock, SlidingWindow, Timestamp, WindowConfig};

/// The time, where it is given: any will do.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_540_629_300);
/// A response time.
pub(crate) const RT: Duration = Duration::from_micros(250);
pub(crate) const BUCKET_LEN: Duration = Duration::from_millis(500);

/// A window of so many buckets of half a second. All share one clock.
pub(crate) fn window(sample_count: u32, clock: &MonotonicClock) -> SlidingWindow {
    SlidingWindow::with_clock(config(sample_count, BUCKET_LEN), clock.clone())
}

/// So many buckets of such a length.
pub(crate) fn config(sample_count: u32, bucket_len: Duration) -> WindowConfig {
    let interval = bucket_len * sample_count;
    WindowConfig::new(sample_count as usize, interval).expect("whole buckets")
}

/// The numbers of threads: 1, 2, 4, 8, and 16 where there are as many cores.
pub(crate) fn thread_counts(cores: usize) -> Vec<usize> {
    [1, 2, 4, 8, 16].into_iter().filter(|&threads| threads <= cores.max(8)).collect()
}

/// More threads than cores, each of which has a cell of its own.
pub(crate) fn crowds(cores: usize) -> [usize; 2] {
    [8, 16].map(|times| times * cores.max(2))
}
