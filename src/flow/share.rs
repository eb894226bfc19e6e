//! A share of a number, in whole millionths.

use super::shadow;
use crate::sync::{AtomicU64, Ordering};

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

    /// Returns the share of a mode, which has the same steps.
    pub(in crate::flow) const fn of_mode(share: shadow::Share) -> Self {
        Self(share.parts_per_million() as u64)
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

    /// Returns the greatest part of a number that is at most the share of the rest of it.
    #[inline]
    pub(in crate::flow) fn of_rest(self, number: u64) -> u64 {
        // part ≤ share · (number − part), solved for the part.
        let part = u128::from(number) * u128::from(self.0) / u128::from(Self::WHOLE + self.0);
        u64::try_from(part).expect("at most the number")
    }
}

/// A share that changes. Relaxed: a decision uses the share that it finds.
#[derive(Debug)]
pub(in crate::flow) struct AtomicShare(AtomicU64);

impl AtomicShare {
    pub(in crate::flow) fn new(share: Share) -> Self {
        Self(AtomicU64::new(share.0))
    }

    #[inline]
    pub(in crate::flow) fn load(&self) -> Share {
        Share(self.0.load(Ordering::Relaxed))
    }

    pub(in crate::flow) fn store(&self, share: Share) {
        self.0.store(share.0, Ordering::Relaxed);
    }
}

/// A share of requests and a minimum, which change together: `{ share: 30, minimum: 34 }`.
/// Relaxed: a decision uses the settings that it finds.
#[derive(Debug)]
pub(in crate::flow) struct AtomicBudget(AtomicU64);

impl AtomicBudget {
    const MINIMUM_BITS: u32 = 34;
    pub(in crate::flow) const MOST: u64 = (1 << Self::MINIMUM_BITS) - 1;

    /// Creates it with a minimum of at most [`MOST`](Self::MOST).
    pub(in crate::flow) fn new(share: Share, minimum: u64) -> Self {
        Self(AtomicU64::new(Self::word(share, minimum)))
    }

    const fn word(share: Share, minimum: u64) -> u64 {
        share.0 << Self::MINIMUM_BITS | minimum
    }

    #[inline]
    pub(in crate::flow) fn load(&self) -> (Share, u64) {
        let word = self.0.load(Ordering::Relaxed);
        (Share(word >> Self::MINIMUM_BITS), word & Self::MOST)
    }

    pub(in crate::flow) fn store(&self, share: Share, minimum: u64) {
        self.0.store(Self::word(share, minimum), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{AtomicBudget, Share};

    #[test]
    fn settings_of_a_budget_do_not_overlap() {
        let most = Share::new(1_000.0, 1_000.0).unwrap();
        let budget = AtomicBudget::new(most, 0);
        assert_eq!(budget.load(), (most, 0));
        budget.store(most, AtomicBudget::MOST);
        assert_eq!(budget.load(), (most, AtomicBudget::MOST));
    }

    #[test]
    fn share_of_a_number_is_exact() {
        let of = |share: f64, number| Share::new(share, 1_000.0).map(|it| it.of(number));
        // 0.29 · 100 is below 29 in floating point.
        assert_eq!(of(0.29, 100), Some(29));
        assert_eq!([of(0.2, 4), of(0.2, 5), of(0.2, 9)], [Some(0), Some(1), Some(1)]);
        assert_eq!(of(1.0, u64::MAX), Some(u64::MAX));
        assert_eq!(of(1_000.0, u64::MAX), Some(u64::MAX), "saturates");
        assert_eq!([of(0.0, 7), of(1e-9, u64::MAX)], [Some(0), Some(0)]);
        let of_rest = |share: f64, number| Share::new(share, 1_000.0).map(|it| it.of_rest(number));
        assert_eq!([of_rest(0.2, 11), of_rest(0.2, 12)], [Some(1), Some(2)], "2 are a fifth of 10");
        assert_eq!([of_rest(0.0, 9), of_rest(0.2, 0)], [Some(0); 2]);
        assert_eq!(of_rest(1.0, u64::MAX), Some(u64::MAX / 2));
        assert_eq!([of_rest(1_000.0, 1_000), of_rest(1_000.0, 1_001)], [Some(999), Some(1_000)]);
        assert_eq!([of(-0.1, 1), of(1_000.1, 1), of(f64::NAN, 1)], [None; 3]);
    }
}
