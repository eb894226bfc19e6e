//! The boundaries of all bins, as tables of integers that the compiler computes.
//!
//! A boundary is 2^(i/2^s) seconds, and 10⁹ · 2^(i/2^s) nanoseconds. Within one octave of nanoseconds, from 2^e to
//! 2^(e+1), the boundaries are those of any other octave, shifted. So a table of one octave serves all of them: it holds
//! the boundaries scaled to 2⁶³ … 2⁶⁴, and rounded down, which an integer exceeds if and only if it exceeds the boundary.

use super::config::HistogramConfig;

/// The boundaries in an octave at the finest scale.
pub(super) const FINEST: usize = 1 << HistogramConfig::MAX_SCALE;

/// 2^(j/256) for each j, with 126 bits after the point, and an error of a few units of the last bit.
const ROOTS: [u128; FINEST] = roots();

/// 2^(j/256) for each j, rounded to the nearest `f64`.
pub(super) static FRACTIONS: [f64; FINEST] = fractions();

/// 5⁹, the odd factor of 10⁹.
const ODD_FACTOR: u128 = 1_953_125;

/// The boundaries of one octave of nanoseconds at the finest scale, as multiples of the octave's start in units of 2⁻⁶³,
/// rounded down, in ascending order.
pub(super) static OCTAVE: [u64; FINEST] = octave();

/// The number of boundaries in an octave of nanoseconds that are below the one of a whole power of 2 in seconds.
pub(super) const BELOW_POWER: usize = below_power();

/// An interval of mantissas. It contains one boundary at most: boundaries are further apart than it is long.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))] // So that it does not straddle a cache line.
pub(super) struct Interval {
    /// The boundary, rounded down; [`u64::MAX`], which no mantissa exceeds, if the interval contains none.
    pub(super) threshold: u64,
    /// The number of boundaries of the octave that are below the interval.
    pub(super) base: u64,
}

/// The intervals of all scales. Those of scale s have the indices 2^(s+1) to 2^(s+2), exclusive: the top s + 2 bits of the
/// mantissas in it.
pub(super) static INTERVALS: [Interval; 4 * FINEST] = intervals();

const fn roots() -> [u128; FINEST] {
    let mut roots = [1 << 126; FINEST];
    let mut stride = FINEST / 2;
    while stride > 0 {
        let mut j = stride;
        while j < FINEST {
            // 2^(j/256) is the square root of 2^(2j/256), which an earlier turn computed, but for a factor of 2.
            roots[j] = root(roots[2 * j % FINEST] << (2 * j / FINEST));
            j += 2 * stride;
        }
        stride /= 2;
    }
    roots
}

/// Returns the square root of a number from 1 to 4. Both have 126 bits after the point.
const fn root(square: u128) -> u128 {
    let half = square.isqrt();
    // One step of Newton's method doubles the 64 bits of `half`.
    (half << 63) + ((square - half * half) << 62) / half
}

/// Returns 10⁹ · 2^(j/256) · 2³⁴ rounded down. 10⁹ is between 2²⁹ and 2³⁰, so this is between 2⁶³ and 2⁶⁵.
const fn boundary(j: usize) -> u128 {
    // 22 bits are dropped, so that the product fits.
    let product = (ROOTS[j] >> 22) * ODD_FACTOR;
    let fraction = product % (1 << 61);
    // The product is wrong by less than 2²² units.
    let is_certain = fraction > 1 << 22 && fraction < (1 << 61) - (1 << 22);
    assert!(is_certain || j == 0, "more bits are needed");
    product >> 61
}

const fn below_power() -> usize {
    let mut j = 0;
    while boundary(j) >> 64 == 0 {
        j += 1;
    }
    FINEST - j
}

#[expect(clippy::cast_possible_truncation, reason = "a boundary of 2⁶⁴ or more is halved")]
const fn octave() -> [u64; FINEST] {
    let mut octave = [0; FINEST];
    let mut j = 0;
    while j < FINEST {
        let boundary = boundary(j);
        octave[(j + BELOW_POWER) % FINEST] = (boundary >> (boundary >> 64)) as u64;
        j += 1;
    }
    octave
}

#[expect(clippy::cast_precision_loss, reason = "the nearest")]
const fn fractions() -> [f64; FINEST] {
    let mut fractions = [1.0; FINEST];
    let mut j = 0;
    while j < FINEST {
        fractions[j] = ROOTS[j] as f64 / (1_u128 << 126) as f64;
        j += 1;
    }
    fractions
}

const fn intervals() -> [Interval; 4 * FINEST] {
    let mut intervals = [Interval { threshold: u64::MAX, base: 0 }; 4 * FINEST];
    let mut index = 2;
    while index < 4 * FINEST {
        intervals[index] = interval(index);
        index += 1;
    }
    intervals
}

const fn interval(index: usize) -> Interval {
    let scale = index.ilog2() - 1;
    let len = 1_u64 << (62 - scale);
    let first = index as u64 * len;
    let mut interval = Interval { threshold: u64::MAX, base: 0 };
    // The boundaries of a scale are every 2^(8-s)th of the finest scale. Index 0 of OpenTelemetry is at BELOW_POWER.
    let step = FINEST >> scale;
    let mut k = BELOW_POWER % step;
    while k < FINEST && OCTAVE[k] < first {
        interval.base += 1;
        k += step;
    }
    if k < FINEST && OCTAVE[k] - first < len {
        interval.threshold = OCTAVE[k];
    }
    interval
}
