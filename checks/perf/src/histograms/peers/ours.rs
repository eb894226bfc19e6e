//! Windows of this crate, with and without a histogram.

use std::time::Duration;

use leaparray::{HistogramConfig, MonotonicClock, SlidingWindow, Timestamp};

use super::{Peer, QUANTILES};
use crate::scenarios::{BUCKET_LEN, NOW, config};

/// The scales that are measured, by their names.
pub(in crate::histograms) const SCALES: [(u8, &str); 3] =
    [(NO_HISTOGRAM, "no histogram"), (4, "scale 4"), (5, "scale 5")];
/// The scale of a window without a histogram.
pub(in crate::histograms) const NO_HISTOGRAM: u8 = u8::MAX;

/// The buckets of a minute.
pub(in crate::histograms) const BUCKETS: u32 = 120;

/// A window of a minute.
pub(in crate::histograms) struct Ours<const SCALE: u8>(SlidingWindow);

impl<const SCALE: u8> Peer for Ours<SCALE> {
    /// `SlidingWindow::record_success`, which counts the success and its response time in the sum
    /// and the extremes, with the precise clock, and into the histogram if there is one.
    const NAME: &'static str = match SCALE {
        4 => "leaparray, scale 4",
        5 => "leaparray, scale 5",
        _ => "leaparray, no histogram",
    };

    fn new(clock: &MonotonicClock) -> Self {
        Self(window(BUCKETS, SCALE, clock))
    }

    fn recorder(&self) -> impl FnMut(u32) {
        |rt| self.0.record_success(Duration::new(0, rt))
    }

    fn fill(&self, rts: &[u32]) {
        fill(&self.0, BUCKETS, rts);
    }

    fn quantiles(&self) -> Option<[f64; 4]> {
        if SCALE == NO_HISTOGRAM {
            return None;
        }
        let nanos = |rt: Option<Duration>| rt.map_or(f64::NAN, |rt| rt.as_nanos() as f64);
        Some(self.0.at(NOW).quantiles(QUANTILES).map(nanos))
    }
}

/// Creates a window of buckets of half a second.
pub(in crate::histograms) fn window(
    buckets: u32,
    scale: u8,
    clock: &MonotonicClock,
) -> SlidingWindow {
    let (config, clock) = (config(buckets, BUCKET_LEN), clock.clone());
    match config_of(scale) {
        Some(histogram) => SlidingWindow::with_histogram(config, histogram, clock),
        None => SlidingWindow::with_clock(config, clock),
    }
}

/// Returns the configuration of a scale; `None` for [`NO_HISTOGRAM`].
pub(in crate::histograms) fn config_of(scale: u8) -> Option<HistogramConfig> {
    let config = HistogramConfig::with_scale(scale);
    (scale != NO_HISTOGRAM).then(|| config.expect("a scale in range"))
}

/// Records response times in the `buckets` buckets up to `NOW`, the same number in each.
pub(in crate::histograms) fn fill(window: &SlidingWindow, buckets: u32, rts: &[u32]) {
    let per_bucket = rts.len().div_ceil(buckets as usize);
    for (bucket, rts) in (0..buckets).zip(rts.chunks(per_bucket)) {
        let now = NOW.saturating_sub(BUCKET_LEN * (buckets - 1 - bucket));
        for &rt in rts {
            window.record_success_at(now, Duration::new(0, rt));
        }
    }
}

/// Returns the start of a bucket.
pub(in crate::histograms) fn bucket_start(number: u64) -> Timestamp {
    // The end of time is 3.4 · 10¹⁰ buckets away.
    Timestamp::from_nanos(NOW.as_nanos() + number * BUCKET_LEN.as_nanos() as u64)
}
