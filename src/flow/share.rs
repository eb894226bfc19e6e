//! A share of a number, in whole millionths.

/// A share of at most 1,000, in millionths. Its product with a number is exact, and rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::flow) struct Share(u64);

impl Share {
    const WHOLE: u64 = 1_000_000;

    /// Returns the share, rounded to a millionth; `None` unless it is between 0 and `most`, which
    /// is at most 1,000.
    pub(in crate::flow) fn new(share: f64, most: f64) -> Option<Self> {
        if !(0.0..=most).contains(&share) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 1,000 million"
        )]
        let millionths = (share * 1e6).round() as u64;
        Some(Self(millionths))
    }

    /// Returns the share of a number, rounded down, and at most `u64::MAX`.
    #[inline]
    pub(in crate::flow) fn of(self, number: u64) -> u64 {
        if self.0 == Self::WHOLE {
            return number;
        }
        let product = u128::from(number) * u128::from(self.0) / u128::from(Self::WHOLE);
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Share;

    #[test]
    fn share_of_a_number_is_exact() {
        let of = |share: f64, number| Share::new(share, 1_000.0).map(|it| it.of(number));
        // 0.29 · 100 is below 29 in floating point.
        assert_eq!(of(0.29, 100), Some(29));
        assert_eq!([of(0.2, 4), of(0.2, 5), of(0.2, 9)], [Some(0), Some(1), Some(1)]);
        assert_eq!(of(1.0, u64::MAX), Some(u64::MAX));
        assert_eq!(of(1_000.0, u64::MAX), Some(u64::MAX), "saturates");
        assert_eq!([of(0.0, 7), of(1e-9, u64::MAX)], [Some(0), Some(0)]);
        assert_eq!([of(-0.1, 1), of(1_000.1, 1), of(f64::NAN, 1)], [None; 3]);
    }
}
