//! The probability with which a request is dropped, from the counts of the window.
//!
//! - The share: the formula of the *Site Reliability Engineering* book over the window.
//! - The ramp: while the backend works again, the share of requests that get through grows from the
//!   one of the formula to 1, by the same factor in equal times.

use crate::metric::MetricEvent;

/// The counts of some buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    pub(super) dropped: u64,
}

impl Counts {
    pub(super) const EVENTS: [MetricEvent; 3] =
        [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Block];

    /// Returns the counts of sums in the order of [`EVENTS`](Self::EVENTS).
    pub(super) const fn of([accepted, rejected, dropped]: [u64; 3]) -> Self {
        Self { accepted, rejected, dropped }
    }

    /// Returns the number of requests that were answered or dropped.
    const fn requests(self) -> u64 {
        self.accepted.saturating_add(self.rejected).saturating_add(self.dropped)
    }
}

/// The geometry of the window, and the time since the start of its newest bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) buckets: u64,
    pub(super) bucket_nanos: u64,
    /// The nanoseconds from the start of the newest bucket to `now`.
    pub(super) age_nanos: u64,
}

impl Geometry {
    /// Returns the time in nanoseconds since the end of the bucket that is `age` buckets before the
    /// newest; 0 for the newest.
    const fn since_end(self, age: u64) -> u64 {
        match age.checked_sub(1) {
            Some(between) => {
                self.age_nanos.saturating_add(between.saturating_mul(self.bucket_nanos))
            }
            None => 0,
        }
    }

    /// Returns the longest recovery: half of the window. Since acceptances older than that remain
    /// in it, a recovery that is over stays so. The oldest bucket of a window of two or three ended
    /// less than half of the window ago.
    const fn max_recovery(self) -> u64 {
        let half = self.buckets.saturating_mul(self.bucket_nanos) / 2;
        let seen = self.buckets.saturating_sub(2).saturating_mul(self.bucket_nanos);
        if half < seen { half } else { seen }
    }
}

/// The settings that enter into the probability.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) k: f64,
    pub(super) min_requests: u64,
    pub(super) recovery_nanos: u64,
}

#[expect(clippy::cast_precision_loss, reason = "a relative error of some 10⁻¹⁶")]
impl Rule {
    /// Returns `max(0, (total − min_requests − k · accepts) / (total + 1))`.
    pub(super) const fn formula(&self, total: u64, accepts: u64) -> f64 {
        // `min_requests` is subtracted as an integer. If the result is negative, no request is
        // dropped.
        let beyond = total.saturating_sub(self.min_requests) as f64;
        let too_many = (beyond - self.k * accepts as f64).max(0.0);
        too_many / (total as f64 + 1.0)
    }

    /// Returns the probability with which a request is dropped: by the counts of the whole window,
    /// and by those of its newest bucket, its newest two, and so on.
    pub(super) fn drop_probability(
        &self,
        geometry: Geometry,
        all: Counts,
        newest: impl Iterator<Item = Counts>,
    ) -> f64 {
        let by_share = self.formula(all.requests(), all.accepted);
        if by_share == 0.0 {
            return 0.0;
        }
        1.0 - (1.0 - by_share).powf(1.0 - self.recovered(geometry, newest))
    }

    /// Returns how far the backend has recovered, from 0 to 1: the time for which it has worked, as
    /// a part of the recovery.
    ///
    /// The backend *works* in the newest buckets, as long as no suffix of them would be dropped for
    /// its own share of accepted requests, one rejection aside. It has worked since the end of the
    /// oldest bucket of them in which it has accepted a request.
    fn recovered(&self, geometry: Geometry, newest: impl Iterator<Item = Counts>) -> f64 {
        let recovery = self.recovery_nanos.min(geometry.max_recovery()) as f64;
        let (mut accepted, mut since) = (0, 0.0);
        for (age, working) in (0..).zip(newest) {
            if working.rejected as f64 - (self.k - 1.0) * working.accepted as f64 > 1.0 {
                break;
            }
            if working.accepted > accepted {
                accepted = working.accepted;
                since = geometry.since_end(age) as f64;
                if since >= recovery {
                    return 1.0;
                }
            }
        }
        since / recovery.max(1.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const QUARTER: u64 = 250_000_000;
    const RULE: Rule = Rule { k: 1.5, min_requests: 5, recovery_nanos: 5_000_000_000 };

    const ZERO: Counts = Counts { accepted: 0, rejected: 0, dropped: 0 };
    const WELL: Counts = Counts { accepted: 10, ..ZERO };
    const FAILING: Counts = Counts { rejected: 10, ..ZERO };
    const DROPPED: Counts = Counts { dropped: 10, ..ZERO };

    const fn geometry(buckets: u64) -> Geometry {
        Geometry { buckets, bucket_nanos: QUARTER, age_nanos: QUARTER / 2 }
    }

    /// Returns the probability for some buckets of each kind, from the newest to the oldest.
    fn probability(kinds: &[(usize, Counts)]) -> f64 {
        let buckets: Vec<_> = kinds.iter().flat_map(|&(len, counts)| vec![counts; len]).collect();
        let newest = buckets.iter().scan(ZERO, |sum, bucket| {
            sum.accepted += bucket.accepted;
            sum.rejected += bucket.rejected;
            sum.dropped += bucket.dropped;
            Some(*sum)
        });
        let all = newest.clone().last().expect("a window has a bucket");
        RULE.drop_probability(geometry(buckets.len() as u64), all, newest)
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    #[test]
    fn times_of_a_geometry() {
        let halves = |n: u64| n * QUARTER / 2;
        assert_eq!([0, 1, 2, 39].map(|age| geometry(40).since_end(age)), [0, 1, 3, 77].map(halves));
        let longest = [1, 2, 3, 4, 40].map(|buckets| geometry(buckets).max_recovery());
        assert_eq!(longest, [0, 0, 2, 4, 40].map(halves));
        let last = Geometry { buckets: 9, bucket_nanos: u64::MAX, age_nanos: u64::MAX };
        assert_eq!((last.since_end(2), last.max_recovery()), (u64::MAX, u64::MAX / 2));
    }

    #[test]
    fn share_of_the_window() {
        assert_near(probability(&[(40, WELL)]), 0.0);
        // 10 of 40 buckets fail, which is below a third.
        assert_near(probability(&[(10, FAILING), (30, WELL)]), 0.0);
        assert_near(probability(&[(20, FAILING), (20, WELL)]), 95.0 / 401.0);
        assert_near(probability(&[(40, FAILING)]), 395.0 / 401.0);
    }

    #[test]
    fn admitted_share_grows_by_the_same_factor_in_equal_times() {
        for len in [1_u16, 6, 10, 15, 20, 21] {
            let share = 1.0 - RULE.formula(400, 10 * u64::from(len));
            let since = (f64::from(len) - 1.5).max(0.0) / 20.0;
            let expected = 1.0 - share.powf(1.0 - since);
            let len = len.into();
            assert_near(probability(&[(len, WELL), (40 - len, DROPPED)]), expected);
        }
        assert_near(probability(&[(22, WELL), (18, DROPPED)]), 0.0);
        // Whatever was rejected before, and if nothing was accepted since.
        assert_near(probability(&[(21, DROPPED), (1, WELL), (18, FAILING)]), 0.0);
        assert_near(probability(&[(2, WELL), (1, FAILING)]), 0.0);
    }

    #[test]
    fn ramp_begins_with_an_acceptance_and_ends_where_the_backend_fails() {
        assert_near(probability(&[(40, DROPPED)]), 395.0 / 401.0);
        let before = probability(&[(15, WELL), (25, DROPPED)]);
        let with =
            |rejected| probability(&[(1, Counts { rejected, ..ZERO }), (15, WELL), (24, DROPPED)]);
        // One rejection is tolerated; by now, the time since the first acceptance is longer by a
        // bucket.
        assert!(with(1) < before, "{} {before}", with(1));
        assert_near(with(2), RULE.formula(392, 150));
    }
}
