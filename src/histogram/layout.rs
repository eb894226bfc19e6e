//! The bins of a scale, by their positions.

use super::config::HistogramConfig;

/// The bins of a scale. A bin's *position* counts the bins from the bin of 1 ns, or a few before it: it is the index of
/// OpenTelemetry plus an offset that depends on the scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    scale: u8,
}

impl Layout {
    pub(crate) const fn of(config: HistogramConfig) -> Self {
        Self { scale: config.scale() }
    }

    /// Returns the number of positions.
    pub(crate) const fn positions(&self) -> usize {
        (62 << self.scale) + 2
    }

    /// Returns the position of the bin of a response time, in nanoseconds. 0 counts as 1, and more than 2⁶² as 2⁶².
    #[inline(always)]
    pub(crate) fn position(&self, nanos: u64) -> usize {
        let log = (nanos.clamp(1, 1 << 62) as f64).log2();
        (log * f64::from(1_u32 << self.scale)).ceil() as usize
    }
}
