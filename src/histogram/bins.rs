//! The bounds of the bins of a scale.

use super::layout::{Layout, MAX_NANOS, OCTAVES_BELOW};
use super::thresholds::{BEFORE_FIRST, FINEST, FRACTIONS, MAX_SCALE, OCTAVE};

/// The coarsest scale. Its bins 0 and −1 cover all numbers of an `f64`.
pub(super) const COARSEST: i8 = -10;

/// The bins of a scale from −10 to 8, by the index of OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bins {
    scale: i8,
}

impl Bins {
    /// The scale must be from [`COARSEST`] to [`MAX_SCALE`].
    pub(super) const fn at(scale: i8) -> Self {
        Self { scale }
    }

    pub(super) const fn scale(self) -> i8 {
        self.scale
    }

    /// Returns the index of the bin of a response time, in nanoseconds. 0 counts as 1, and more
    /// than 2⁶² as 2⁶².
    pub(super) fn index(self, nanos: u64) -> i32 {
        let layout = Layout::at(self.scale.max(0).unsigned_abs());
        layout.index(layout.position(nanos)) >> self.scale.min(0).unsigned_abs()
    }

    /// Returns the index of the bin of 2^`octave` ns: the first one for 0, the last one for 62. The
    /// octave is at most 62.
    pub(super) const fn index_of_octave(self, octave: usize) -> i32 {
        let (scale, coarser) = match self.scale {
            ..0 => (0, self.scale.unsigned_abs()),
            0.. => (self.scale.unsigned_abs(), 0),
        };
        let layout = Layout::at(scale);
        layout.index(layout.position_of_octave(octave)) >> coarser
    }

    /// Returns the shortest response time in the bin, in whole nanoseconds. If it is above
    /// [`last`](Self::last), no whole nanosecond is in the bin.
    pub(super) fn first(self, index: i32) -> u64 {
        self.floor(index.into()) + 1
    }

    /// Returns the longest response time in the bin, in whole nanoseconds.
    pub(super) fn last(self, index: i32) -> u64 {
        self.floor(i64::from(index) + 1)
    }

    /// Returns 10⁹ · 2^(index/2^scale), rounded down, from 0 to 2⁶².
    fn floor(self, index: i64) -> u64 {
        let finest = index << (MAX_SCALE.cast_signed() - self.scale);
        let above = finest + (i64::from(OCTAVES_BELOW) << MAX_SCALE);
        let Some(boundary) =
            usize::try_from(above - 1).ok().and_then(|it| it.checked_sub(BEFORE_FIRST))
        else {
            return 0;
        };
        let octave = boundary / FINEST;
        if octave < 62 { OCTAVE[boundary % FINEST] >> (63 - octave) } else { MAX_NANOS }
    }

    /// Returns (γ − 1) / (γ + 1), where γ = 2^(2^−scale) is the upper bound of a bin divided by its
    /// lower bound.
    pub(super) fn relative_error(self) -> f64 {
        // 1/γ, because γ is infinite at the coarsest scale.
        let ratio = self.lower(-1);
        (1.0 - ratio) / (1.0 + ratio)
    }

    /// Returns the lower bound of the bin, 2^(index/2^scale) seconds, rounded to the nearest `f64`.
    /// The upper bound is the lower bound of the next bin.
    pub(super) fn lower(self, index: i32) -> f64 {
        let Ok(scale) = u32::try_from(self.scale) else {
            return power_of_two(i64::from(index) << self.scale.unsigned_abs());
        };
        let fraction = (index & ((1 << scale) - 1)) << (u32::from(MAX_SCALE) - scale);
        FRACTIONS[fraction.unsigned_abs() as usize] * power_of_two((index >> scale).into())
    }
}

/// Returns 2^exponent: zero or infinity if that is out of range.
fn power_of_two(exponent: i64) -> f64 {
    const BIAS: i64 = 1023;
    const SMALLEST: i64 = -1074;
    match exponent {
        1024.. => f64::INFINITY,
        -1022.. => f64::from_bits((exponent + BIAS).unsigned_abs() << 52),
        // Subnormal.
        SMALLEST.. => f64::from_bits(1 << (exponent - SMALLEST)),
        _ => 0.0,
    }
}
