//! The boundaries of all bins, as tables of integers that the compiler computes.
//!
//! A boundary is 2^(i/2^s) seconds, and 10⁹ · 2^(i/2^s) nanoseconds. Within one octave of
//! nanoseconds, from 2^e to 2^(e+1), the boundaries are those of any other octave, shifted. So a
//! table of one octave serves all of them: it holds the boundaries scaled to 2⁶³ … 2⁶⁴, and rounded
//! down, which an integer exceeds if and only if it exceeds the boundary.

/// The finest scale.
pub(super) const MAX_SCALE: u8 = 8;

/// The boundaries in an octave at the finest scale.
pub(super) const FINEST: usize = 1 << MAX_SCALE;

/// 2^(j/256) for each j, with 126 bits after the point, and an error of a few units of the last
/// bit.
const ROOTS: [u128; FINEST] = roots();

/// 2^(j/256) for each j, rounded to the nearest `f64`.
pub(super) static FRACTIONS: [f64; FINEST] = fractions();

/// 5⁹, the odd factor of 10⁹.
const ODD_FACTOR: u128 = 1_953_125;

/// The boundaries of one octave of nanoseconds at the finest scale, as multiples of the octave's
/// start in units of 2⁻⁶³, rounded down, in ascending order.
pub(super) static OCTAVE: [u64; FINEST] = octave();

/// The number of boundaries in an octave of nanoseconds that are below the one of a whole power of
/// 2 in seconds.
pub(super) const BELOW_POWER: usize = below_power();

/// The number of boundaries at the finest scale that are above 2⁻³⁰ s and below 1 ns.
pub(super) const BEFORE_FIRST: usize = FINEST - 1 - BELOW_POWER;

/// The intervals of an octave. They are so short that each contains one boundary at most.
const INTERVALS: usize = 2 * FINEST;

/// What to add to the bits of an `f64`, a number of nanoseconds below 2⁵³, so that the bits from
/// the [`FINEST_BIT`]th on are its position at the finest scale. The index is the interval, the
/// first bits of the fraction.
pub(super) static CORRECTIONS: [u64; INTERVALS] = corrections();

/// The bit of an `f64` that says in which 256th of its octave the number is.
const FINEST_BIT: u32 = f64::MANTISSA_DIGITS - 1 - FINEST.ilog2();

const fn roots() -> [u128; FINEST] {
    let mut roots = [1 << 126; FINEST];
    let mut stride = FINEST / 2;
    while stride > 0 {
        let mut j = stride;
        while j < FINEST {
            // 2^(j/256) is the square root of 2^(2j/256), which an earlier turn computed, but for a
            // factor of 2.
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

/// Returns 10⁹ · 2^(j/256) · 2³⁴ rounded down. 10⁹ is between 2²⁹ and 2³⁰, so this is between 2⁶³
/// and 2⁶⁵.
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

const fn corrections() -> [u64; INTERVALS] {
    let mut corrections = [0; INTERVALS];
    let mut below = 0;
    let mut interval = 0;
    while interval < INTERVALS {
        let position = (BEFORE_FIRST + below) as u64;
        // The fraction of the first number of the next interval.
        let end = (interval as u64 + 1) << (FINEST_BIT - 1);
        // The last fraction at this position: that of the boundary, rounded down, or the last one
        // of the interval.
        let mut last = end - 1;
        if below < FINEST && fraction(OCTAVE[below]) < end {
            last = fraction(OCTAVE[below]);
            below += 1;
        }
        assert!(below == FINEST || fraction(OCTAVE[below]) >= end, "two boundaries in an interval");
        // The sum is the position and a remainder below 1, which is the greatest at `last`.
        let sum = ((position + 1) << FINEST_BIT) - 1;
        corrections[interval] = sum.wrapping_sub(1.0_f64.to_bits() + last);
        interval += 1;
    }
    corrections
}

/// Returns the fraction of an `f64` with that mantissa, rounded down.
const fn fraction(mantissa: u64) -> u64 {
    mantissa << 1 >> (u64::BITS - f64::MANTISSA_DIGITS + 1)
}
