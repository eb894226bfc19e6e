//! Division by a fixed number, by two multiplications. A division instruction takes several times
//! as long.

use std::fmt;

/// A divisor and its reciprocal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Divisor {
    value: u64,
    /// floor((2⁶⁴ − 1) / value).
    reciprocal: u64,
}

impl Divisor {
    /// Creates a divisor with that value, which must not be zero.
    pub(crate) const fn new(value: u64) -> Self {
        Self { value, reciprocal: u64::MAX / value }
    }

    #[inline]
    pub(crate) const fn value(self) -> u64 {
        self.value
    }

    /// Returns the quotient of `u64::MAX`.
    #[inline]
    pub(crate) const fn quotient_of_max(self) -> u64 {
        self.reciprocal
    }

    /// Returns the quotient and the remainder of `dividend`.
    #[inline]
    pub(crate) const fn divide(self, dividend: u64) -> (u64, u64) {
        // The reciprocal is at most 1 below 2⁶⁴ / value. So the estimate is below dividend / value
        // by less than 1 before it is rounded down: it is the quotient, or one less.
        let estimate = ((dividend as u128 * self.reciprocal as u128) >> 64) as u64;
        let rest = dividend - estimate * self.value;
        if rest >= self.value { (estimate + 1, rest - self.value) } else { (estimate, rest) }
    }

    /// Divides a dividend of 128 bits. If it fits into 64 bits, this is as fast as
    /// [`divide`](Self::divide).
    #[inline]
    pub(crate) fn divide_wide(self, dividend: u128) -> (u128, u64) {
        match u64::try_from(dividend) {
            Ok(dividend) => {
                let (quotient, remainder) = self.divide(dividend);
                (quotient.into(), remainder)
            }
            Err(_) => self.divide_slowly(dividend),
        }
    }

    #[cold]
    #[expect(clippy::cast_possible_truncation, reason = "a remainder is below its divisor")]
    fn divide_slowly(self, dividend: u128) -> (u128, u64) {
        let value = u128::from(self.value);
        (dividend / value, (dividend % value) as u64)
    }
}

impl fmt::Debug for Divisor {
    /// Formats the value alone, from which the reciprocal follows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of any size, also near powers of two, near half of the maximum, and near the
    /// maximum.
    fn number() -> impl Strategy<Value = u64> {
        let near =
            (0..64_u32, -2..3_i64).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add_signed(off));
        prop_oneof![
            any::<u64>(),
            (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift),
            near,
            (0..3_u64).prop_map(|off| u64::MAX - off),
        ]
    }

    proptest! {
        #[test]
        fn product_equals_the_division(dividend in number(), value in number(), multiple in any::<bool>()) {
            let value = value.max(1);
            // At a multiple and beside it, an estimate may be off by one.
            let dividend = if multiple { dividend - dividend % value } else { dividend };
            for dividend in [dividend.saturating_sub(1), dividend, dividend.saturating_add(1)] {
                let expected = (dividend / value, dividend % value);
                prop_assert_eq!(Divisor::new(value).divide(dividend), expected);
            }
        }

        #[test]
        fn product_equals_the_wide_division(dividend in number(), factor in number(), value in number()) {
            let (value, dividend) = (value.max(1), u128::from(dividend) * u128::from(factor));
            let (quotient, remainder) = Divisor::new(value).divide_wide(dividend);
            let expected = (dividend / u128::from(value), dividend % u128::from(value));
            prop_assert_eq!((quotient, u128::from(remainder)), expected);
        }
    }
}
