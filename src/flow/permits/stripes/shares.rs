//! How an epoch divides the permits that are left among stripes.

use super::{MAX_LEFT, STRIPES};

/// `w` stripes are worth an epoch if permits for `w² · REQUESTS` requests are left. An epoch costs
/// some steps for each stripe, so with more stripes, each of them has to last for more requests.
const REQUESTS: u64 = if cfg!(loom) { 1 } else { 16 };

/// `w` stripes of permits that are given back are worth an epoch if permits for `w · LENT_REQUESTS`
/// requests are left.
const LENT_REQUESTS: u64 = if cfg!(loom) { 1 } else { 8 };

/// The highest number of stripes of permits that are given back. In models, all epochs of these
/// have two stripes: the models of windows have epochs of different widths.
const LENT_WIDTH: usize = if cfg!(loom) { 2 } else { STRIPES };

/// The division of permits among stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flow) struct Shares {
    /// The number of stripes that get permits: a power of two.
    pub(in crate::flow) width: usize,
    /// The permits of each of them.
    pub(in crate::flow) of_stripe: u64,
}

impl Shares {
    /// Returns whether `remaining` permits can be worth an epoch for requests for `permits` permits
    /// each.
    #[inline]
    pub(in crate::flow) const fn is_worth(remaining: u64, permits: u64) -> bool {
        // Two stripes.
        remaining / (4 * REQUESTS) >= permits
    }

    /// As [`is_worth`](Self::is_worth), for permits that are given back.
    #[inline]
    pub(in crate::flow) const fn is_worth_lent(remaining: u64, permits: u64) -> bool {
        remaining / (2 * LENT_REQUESTS) >= permits
    }

    /// Divides `remaining` permits among at most `max_width` stripes, a power of two, for requests
    /// for `permits` permits each. Returns `None` if the permits are for fewer than four times
    /// [`REQUESTS`] requests.
    pub(in crate::flow) fn of(remaining: u64, permits: u64, max_width: usize) -> Option<Self> {
        let least = permits.checked_mul(REQUESTS).filter(|&least| least <= MAX_LEFT / 2)?;
        Self::of_width((remaining / least).isqrt().min(max_width as u64), remaining, MAX_LEFT)
    }

    /// As [`of`](Self::of), for permits that requests give back to the stripes, so that an epoch
    /// lasts for as long as permits are left. A stripe has room for at least as many permits again
    /// as it gets.
    ///
    /// Returns `None` if the permits are for fewer than twice [`LENT_REQUESTS`] requests.
    pub(in crate::flow) fn of_lent(remaining: u64, permits: u64, max_width: usize) -> Option<Self> {
        let least = permits.checked_mul(LENT_REQUESTS).filter(|&least| least <= MAX_LEFT / 2)?;
        let max_width = max_width.min(LENT_WIDTH) as u64;
        Self::of_width((remaining / least).min(max_width), remaining, MAX_LEFT / 2)
    }

    /// Divides seven eighths of the `remaining` permits among `widest` stripes, or the next lower
    /// power of two, at most `most` for each.
    ///
    /// The last eighth is for the threads that take permits from the word while one thread prepares
    /// the stripes. If it were shared out as well, each of these permits would make the division
    /// invalid, and the preparation would rarely come to its end.
    fn of_width(widest: u64, remaining: u64, most: u64) -> Option<Self> {
        let log = widest.checked_ilog2().filter(|&log| log > 0)?;
        let shared = remaining - remaining / 8;
        Some(Self { width: 1 << log, of_stripe: (shared >> log).min(most) })
    }

    /// Returns the permits of all stripes.
    pub(in crate::flow) const fn sum(self) -> u64 {
        self.of_stripe * self.width as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn of(remaining: u64, permits: u64, max_width: usize) -> Option<(usize, u64)> {
        Shares::of(remaining, permits, max_width).map(|it| (it.width, it.of_stripe))
    }

    #[test]
    fn each_stripe_has_permits_for_many_requests() {
        assert_eq!(
            [63, 64, 65, 127].map(|left| of(left, 1, 2)),
            [None, Some((2, 28)), Some((2, 28)), Some((2, 56))]
        );
        assert_eq!(
            [255, 256, 1_023, 1_024, 4_096].map(|left| of(left, 1, 8)),
            [Some((2, 112)), Some((4, 56)), Some((4, 224)), Some((8, 112)), Some((8, 448))]
        );
        let two = Some((2, 56));
        assert_eq!([1, 2, 3].map(|permits| of(128, permits, 2)), [two, two, None]);
    }

    #[test]
    fn stripes_of_lent_permits_have_them_for_few_requests() {
        let of = |remaining, permits, max_width| {
            Shares::of_lent(remaining, permits, max_width).map(|it| (it.width, it.of_stripe))
        };
        assert_eq!(
            [15, 16, 31, 32, 127, 128].map(|left| of(left, 1, 16)),
            [None, Some((2, 7)), Some((2, 14)), Some((4, 7)), Some((8, 14)), Some((16, 7))]
        );
        assert_eq!(of(u64::MAX, 1, 16), Some((16, MAX_LEFT / 2)), "room for as many again");
        assert_eq!([2, 3].map(|permits| of(32, permits, 16)), [Some((2, 14)), None]);
    }

    #[test]
    fn shares_do_not_exceed_the_permits_that_remain() {
        for remaining in (0..2_000).chain([u64::MAX - 1, u64::MAX]) {
            for (permits, max_width) in [(1, 2), (1, 16), (7, 4), (2_048, 16), (2_049, 2)] {
                for divide in [Shares::of, Shares::of_lent] {
                    let shares = divide(remaining, permits, max_width);
                    assert!(
                        shares.is_none_or(|it| it.sum() <= remaining && it.of_stripe <= MAX_LEFT)
                    );
                }
            }
        }
        assert_eq!(
            [0, 1].map(|more| of(u64::MAX, MAX_LEFT / 32 + more, 2)),
            [Some((2, MAX_LEFT)), None]
        );
    }
}
