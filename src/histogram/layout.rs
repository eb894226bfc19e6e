//! The bins of a scale, by their positions.

use super::config::HistogramConfig;
use super::thresholds::{BELOW_POWER, FINEST, INTERVALS};

/// The longest response time that is told apart, in nanoseconds: 2⁶², or 146 years.
pub(super) const MAX_NANOS: u64 = 1 << 62;

/// The bins of a scale s. Bin `i` holds the response times in the interval (2^(i/2^s), 2^((i+1)/2^s)] seconds.
///
/// Its index `i` is that of OpenTelemetry's [exponential histograms][otel] at scale s. A bin's *position* is its index
/// minus the index of the bin of 1 ns, so that it is never negative. The bins of short response times can be narrower
/// than a nanosecond; those without a whole nanosecond stay empty.
///
/// [otel]: https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    scale: u32,
}

impl Layout {
    /// The position of bin 0, the first above 1 s, at the finest scale. 2²⁹ ns is less than 1 s, and 2³⁰ ns is more.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "below 2¹³")]
    pub(super) const ORIGIN: i32 = (29 * FINEST + BELOW_POWER + 1) as i32;

    pub(crate) const fn of(config: HistogramConfig) -> Self {
        Self::at(config.scale())
    }

    /// The scale must be at most [`HistogramConfig::MAX_SCALE`].
    pub(super) const fn at(scale: u8) -> Self {
        Self { scale: scale as u32 }
    }

    /// Returns the number of positions: 62 octaves, and the position of 2⁶² ns.
    pub(crate) const fn positions(&self) -> usize {
        (62 << self.scale) + 1
    }

    /// Returns the position of the bin of a response time, in nanoseconds. 0 counts as 1, and more than 2⁶² as 2⁶².
    ///
    /// The leading zeros give the octave, and the next s + 1 bits an interval of the octave, which has one boundary at
    /// most. One comparison tells on which side of it the response time is.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "below 62 · 2⁸ + 1, and masked")]
    pub(crate) fn position(&self, nanos: u64) -> usize {
        let nanos = nanos.clamp(1, MAX_NANOS);
        let octave = nanos.ilog2();
        let mantissa = nanos << (63 - octave);
        // The mask changes nothing: the number has at most ten bits. It spares the check of the bounds.
        let index = mantissa.wrapping_shr(62 - self.scale) as usize & (INTERVALS.len() - 1);
        let interval = &INTERVALS[index];
        let below = interval.base + u64::from(mantissa > interval.threshold);
        ((u64::from(octave) << self.scale) + below) as usize
    }

    /// Returns the index of the bin at a position.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "below 2¹⁴")]
    pub(crate) const fn index(&self, position: usize) -> i32 {
        position as i32 + self.first_index()
    }

    /// Returns the index of the bin of 1 ns, which is at position 0.
    const fn first_index(&self) -> i32 {
        -Self::ORIGIN >> (HistogramConfig::MAX_SCALE as u32 - self.scale)
    }
}
