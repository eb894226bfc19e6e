//! The memory that a histogram can take.

use super::history::History;
use super::latency::{BLOCK_BINS, BinBlock, LatencyRecorder, SealedBins};
use crate::collections::SlabItem;
use crate::histogram::HistogramConfig;
use crate::sync::{CHUNK_LEN, RacyOnce};
use crate::time::WindowConfig;

impl HistogramConfig {
    /// Returns the number of bytes that the histogram of one window can take at most, whatever the
    /// response times are, if at most `threads` threads that have recorded in the window are alive
    /// at a time. They are in addition to the bytes of the window. The result saturates.
    ///
    /// It is the sum of two parts. Each thread has counters for bins, in blocks of 64 that are made
    /// when they are first needed. Each bucket has a list of the bins that have counts, with as
    /// many bits for each count as the counts need. The maximum is reached if each thread counts in
    /// each bin, and each bin has 2³² response times in each bucket. The usual number is far below
    /// it: the [reference](crate::reference::histograms#what-a-histogram-costs) has measurements. A
    /// thread that reads histograms also has two buffers of its own for the bins, of up to 18 bytes
    /// a bin. A thread that reads the same windows again and again keeps the sums of the sealed
    /// buckets of up to four windows of 4 to 1,024 buckets: for each window, 8 bytes a bin, 136
    /// bytes a bucket, and a copy of the lists of bins, of up to 256 KiB.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let second = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let bytes = HistogramConfig::default().max_bytes(&second, 1);
    /// assert!(bytes < 256 * 1_024);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub fn max_bytes(self, window: &WindowConfig, threads: usize) -> usize {
        let blocks = self.layout().positions().div_ceil(BLOCK_BINS);
        // One more: a thread that sweeps retires the cell of another one.
        let recorders = threads.saturating_add(1);
        // Recorders are allocated in chunks, the last of which may have as many as all others.
        // Their blocks are not.
        let allocated =
            recorders.saturating_mul(2).saturating_add(LatencyRecorder::FIRST_CHUNK as usize);
        let empty = size_of::<LatencyRecorder>() + blocks * size_of::<RacyOnce<BinBlock>>();
        let filled = blocks * size_of::<BinBlock>();
        // A row for each bucket, one for the retired cells, and two spare rows of each descriptor.
        // There are two descriptors, and one for each further thread. Rows are made in chunks.
        let further = recorders.saturating_add(2).saturating_mul(2).saturating_add(1);
        let rows = further.saturating_add(window.sample_count()).saturating_add(CHUNK_LEN as usize);
        let row = SealedBins::max_bytes(blocks) + size_of::<RacyOnce<SealedBins>>();
        let parts =
            [(allocated, empty), (recorders, filled), (rows, row), (further, History::ROW_BYTES)];
        parts
            .into_iter()
            .fold(0, |sum: usize, (number, bytes)| sum.saturating_add(number.saturating_mul(bytes)))
    }
}
