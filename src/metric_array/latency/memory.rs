//! The memory that a histogram can take.

use super::block::{BLOCK_BINS, BinBlock};
use super::recorder::LatencyRecorder;
use super::sealed::SealedBins;
use crate::histogram::{HistogramConfig, Layout};
use crate::sync::{CHUNK_LEN, RacyOnce};
use crate::time::WindowConfig;

impl HistogramConfig {
    /// Returns the number of bytes that the histogram of one window can take at most, whatever the response times are, if
    /// at most `threads` threads at a time record in the window. They are in addition to the bytes of the window.
    ///
    /// It is the sum of two parts. Each thread has a counter for each bin, in blocks of 64 bins that are made when they are
    /// first needed. Each bucket has a list of the bins that have counts, with as many bits for each count as the counts
    /// need. The maximum is reached if each thread counts in each bin, and each bin has 2³² response times in each bucket.
    /// The usual number is far below it: the [guide](crate::guide#percentiles) has measurements.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let bytes = HistogramConfig::default().max_bytes(&second, 1);
    /// assert!(bytes < 256 * 1_024);
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    #[must_use]
    pub fn max_bytes(self, window: &WindowConfig, threads: usize) -> usize {
        let blocks = Layout::of(self).positions().div_ceil(BLOCK_BINS);
        let block = size_of::<BinBlock>() + size_of::<RacyOnce<BinBlock>>();
        // Recorders are allocated in chunks, the last of which may have as many as all others.
        let recorder = 2 * size_of::<LatencyRecorder>() + blocks * block;
        // A row for each bucket, one for the retired cells, and one for each of the two or more descriptors.
        let rows = window.sample_count() + 3 + threads;
        let rows = rows.next_multiple_of(CHUNK_LEN as usize);
        let row = SealedBins::max_bytes(blocks) + size_of::<RacyOnce<SealedBins>>();
        threads * recorder + rows * row
    }
}
