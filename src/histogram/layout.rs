//! The bins of a scale, by their positions.

use super::thresholds::{BEFORE_FIRST, CORRECTIONS, FINEST, MAX_SCALE, OCTAVE};

/// The longest response time that is told apart, in nanoseconds: 2⁶², or 146 years.
pub(super) const MAX_NANOS: u64 = 1 << 62;

/// The bins of a scale s. Bin `i` holds the response times in the interval (2^(i/2^s),
/// 2^((i+1)/2^s)] seconds.
///
/// Its index `i` is the index in OpenTelemetry's [exponential histograms][otel] of scale s. A
/// bin's *position* is its index plus 30 · 2^s, so that it is never negative: 1 ns is in the octave
/// above 2⁻³⁰ s. The bins of short response times can be narrower than a nanosecond; those without
/// a whole nanosecond stay empty.
///
/// [otel]: https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The octaves of a scale are shifted to the right by this, from where an `f64` has its
    /// exponent.
    shift: u32,
}

/// The number of octaves of seconds below 1 s.
pub(super) const OCTAVES_BELOW: u32 = 30;

/// The bits of the fraction of an `f64`.
const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;

impl Layout {
    /// The scale must be at most [`MAX_SCALE`].
    pub(super) const fn at(scale: u8) -> Self {
        Self { shift: FRACTION_BITS - scale as u32 }
    }

    const fn scale(self) -> u32 {
        FRACTION_BITS - self.shift
    }

    /// Returns the number of positions up to that of 2⁶² ns.
    pub(crate) const fn positions(self) -> usize {
        self.position_of_octave(62) + 1
    }

    /// Returns the position of 2^`octave` ns: the first boundary of each octave is above it.
    pub(super) const fn position_of_octave(self, octave: usize) -> usize {
        self.coarsened(octave * FINEST + BEFORE_FIRST)
    }

    /// Returns the position of the bin of a response time, in nanoseconds. 0 counts as 1, and more
    /// than 2⁶² as 2⁶².
    pub(crate) fn position(self, nanos: u64) -> usize {
        self.position_of_short(nanos).unwrap_or_else(|| {
            let nanos = nanos.min(MAX_NANOS);
            let octave = nanos.ilog2();
            let mantissa = nanos << (63 - octave);
            let below = OCTAVE.partition_point(|&boundary| boundary < mantissa);
            self.coarsened(octave as usize * FINEST + BEFORE_FIRST + below)
        })
    }

    /// Returns what [`position`](Self::position) returns, if the response time is shorter than 2⁵³
    /// ns, or 104 days.
    ///
    /// The bits of an `f64` are a logarithm that is exact at the powers of 2, and straight lines
    /// between them. A table turns the lines into the curve: for each of 512 intervals of an
    /// octave, it has the difference to the position at the finest scale. An interval has one
    /// boundary at most, and the difference is such that the sum carries into the position if the
    /// response time is above the boundary.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a part of each record")]
    #[expect(clippy::cast_possible_truncation, reason = "below 62 · 2⁸ + 2⁸, and masked")]
    #[expect(clippy::cast_precision_loss, reason = "an `f64` has 53 bits")]
    pub(crate) fn position_of_short(self, nanos: u64) -> Option<usize> {
        if nanos >> f64::MANTISSA_DIGITS != 0 {
            return None;
        }
        let bits = (nanos.cast_signed() as f64).max(1.0).to_bits();
        let interval = (bits >> (FRACTION_BITS - CORRECTIONS.len().ilog2())) as usize;
        // The remainder is the place in the octave.
        let correction = CORRECTIONS[interval % CORRECTIONS.len()];
        // A position at a coarser scale is the position at the finest scale without its last bits.
        Some((bits.wrapping_add(correction) >> self.shift) as usize)
    }

    /// Returns the position at this scale of a position at the finest scale.
    const fn coarsened(self, finest: usize) -> usize {
        finest >> (self.shift - Self::at(MAX_SCALE).shift)
    }

    /// Returns the index of the bin at a position.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "below 2¹⁴")]
    pub(crate) const fn index(self, position: usize) -> i32 {
        position as i32 - ((OCTAVES_BELOW << self.scale()) as i32)
    }
}
