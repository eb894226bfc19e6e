//! A histogram that a thread uses again for its reads of quantiles.

use std::cell::Cell;

use crate::histogram::{HistogramConfig, LatencyHistogram};

thread_local! {
    /// A histogram that the thread uses again, so that a read of quantiles allocates nothing.
    static SCRATCH: Cell<Option<LatencyHistogram>> = const { Cell::new(None) };
}

/// Calls `read` with a histogram to read into.
pub(crate) fn with_scratch<R>(read: impl FnOnce(&mut LatencyHistogram) -> R) -> R {
    let found = SCRATCH.try_with(Cell::take).ok().flatten();
    let mut histogram = found.unwrap_or_else(|| LatencyHistogram::new(HistogramConfig::default()));
    let result = read(&mut histogram);
    // Fails if the thread is ending.
    let _ = SCRATCH.try_with(|scratch| scratch.set(Some(histogram)));
    result
}
