//! The memory that cells and caches take.

use super::slab::{SlabMemory, slab};
use super::thread_cache;
use crate::metric_array::latency::RecorderMemory;

/// The memory that the cells of all windows, the threads' caches of cells, and the recorders of
/// response times take in this process.
///
/// Each thread that records in a window has one cell for it. The memory is never returned to the
/// allocator: cells of dropped windows and caches of ended threads are recycled.
///
/// ```
/// use leaparray::{MetricEvent, SlidingWindow, WindowConfig};
/// use leaparray::node::CellMemory;
/// use std::time::Duration;
///
/// let window = SlidingWindow::new(WindowConfig::new(10, Duration::from_secs(1))?);
/// window.add(MetricEvent::Pass, 1);
/// let memory = CellMemory::current();
/// assert!(memory.in_use >= 1 && memory.in_use + memory.free <= memory.bytes / 128);
/// # Ok::<_, leaparray::time::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellMemory {
    /// The number of cells that belong to a window.
    pub in_use: usize,
    /// The number of cells that were used, and are free for another window.
    pub free: usize,
    /// The number of bytes that all cells take, including cells that were never used: 128 for each,
    /// and 64 more for each cell of a chunk if a request of a [`ResourceNode`](crate::ResourceNode)
    /// that entered in one of them has ended in another cell.
    pub bytes: usize,
    /// The number of bytes that the threads' caches of cells take: one cache for each thread that
    /// has recorded and not ended, and the caches that are free for another thread.
    pub cache_bytes: usize,
    /// The number of recorders of response times that belong to a cell of a window with a
    /// [histogram](crate::SlidingWindow::with_histogram).
    pub recorders_in_use: usize,
    /// The number of recorders that were used, and are free for another cell.
    pub recorders_free: usize,
    /// The number of bytes that all recorders take, including free ones.
    pub recorder_bytes: usize,
}

impl CellMemory {
    /// Returns the memory that the cells and the recorders take now. While other threads record,
    /// the values may be of slightly different moments.
    #[must_use]
    pub fn current() -> Self {
        let SlabMemory { in_use, free, bytes } = slab().memory();
        let recorders = RecorderMemory::current();
        Self {
            in_use,
            free,
            bytes,
            cache_bytes: thread_cache::bytes(),
            recorders_in_use: recorders.in_use,
            recorders_free: recorders.free,
            recorder_bytes: recorders.bytes,
        }
    }
}
