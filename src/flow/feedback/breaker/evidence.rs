//! The probability with which a request is dropped, from the counts of the window.
//!
//! - The share: the formula of the *Site Reliability Engineering* book over the whole window.
//!   Attempts that are *overdue* count as requests that were not accepted.
//! - The collapse: the same formula over the newest buckets only, while requests are dropped, if
//!   the backend has accepted hardly anything there. It ends the effect of acceptances from before
//!   an outage, or from a short recovery.
//! - The silence: the newest buckets in which hardly any attempt that has waited was answered. It
//!   finds a backend that hangs as a whole.
//! - The ramp: the first two are lowered while the backend works again.

use crate::metric::MetricEvent;

/// The factor by which the share of requests that get through may exceed the share of accepted
/// requests in the last tenth of the window, while the backend works again. The share grows by a
/// factor of 50 in each tenth of the window, so the number of admitted requests follows the
/// evidence, whatever the rate is.
const GROWTH: f64 = 4.0;

/// The counts of some buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    pub(super) dropped: u64,
    /// Requests that were cancelled, counted in the bucket in which they began.
    pub(super) cancelled: u64,
    /// Requests that got through, counted in the bucket in which they began.
    pub(super) passed: u64,
}

impl Counts {
    pub(super) const EVENTS: [MetricEvent; 5] = [
        MetricEvent::Success,
        MetricEvent::Exception,
        MetricEvent::Block,
        MetricEvent::Cancelled,
        MetricEvent::Pass,
    ];

    /// Returns the counts of sums in the order of [`EVENTS`](Self::EVENTS).
    pub(super) const fn of([accepted, rejected, dropped, cancelled, passed]: [u64; 5]) -> Self {
        Self { accepted, rejected, dropped, cancelled, passed }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            accepted: self.accepted.saturating_add(other.accepted),
            rejected: self.rejected.saturating_add(other.rejected),
            dropped: self.dropped.saturating_add(other.dropped),
            cancelled: self.cancelled.saturating_add(other.cancelled),
            passed: self.passed.saturating_add(other.passed),
        }
    }

    /// Returns the number of requests that the backend has answered.
    const fn answered(self) -> u64 {
        self.accepted.saturating_add(self.rejected)
    }

    /// Returns the number of requests that were answered or dropped.
    const fn requests(self) -> u64 {
        self.answered().saturating_add(self.dropped)
    }

    /// Returns the number of attempts: requests that got through in these buckets and were not
    /// cancelled.
    const fn attempts(self) -> u64 {
        self.passed.saturating_sub(self.cancelled)
    }

    /// Returns how many attempts have not been answered, if all answers are theirs.
    const fn unanswered(self) -> u64 {
        self.attempts().saturating_sub(self.answered())
    }
}

/// The counts of a window at one time.
pub(super) trait Buckets {
    /// Returns the counts of the newest `len` buckets.
    fn newest(&self, len: u64) -> Counts;

    /// Returns the counts of the bucket that is `age` buckets before the newest; `None` before the
    /// beginning of time.
    fn bucket(&self, age: u64) -> Option<Counts>;

    /// Returns the mean response time of the requests that were accepted in the newest `len`
    /// buckets in nanoseconds; `None` if there are none.
    fn mean_rt(&self, len: u64) -> Option<u64>;
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
    /// Returns some tenths of the window, in nanoseconds.
    const fn tenths(self, tenths: u64) -> u64 {
        // The interval fits into a word, a few tenths of it as well.
        self.interval() / 10 * tenths
    }

    const fn interval(self) -> u64 {
        self.buckets.saturating_mul(self.bucket_nanos)
    }

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

    /// Returns the number of newest buckets that ended less than `nanos` ago. At least the newest,
    /// at most all.
    const fn younger_than(self, nanos: u64) -> u64 {
        let rest = nanos.saturating_sub(self.age_nanos).div_ceil(self.bucket_nanos);
        let len = rest.saturating_add(1);
        if len < self.buckets { len } else { self.buckets }
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

    /// Returns the probability with which a request is dropped.
    pub(super) fn drop_probability(&self, geometry: Geometry, buckets: &impl Buckets) -> f64 {
        let all = buckets.newest(geometry.buckets);
        if geometry.buckets == 1 {
            // The newest bucket is the window, so there is neither an older attempt nor a newer
            // request.
            return self.formula(all.requests(), all.accepted);
        }
        self.by_answers(geometry, buckets, all).max(self.by_silence(geometry, buckets, all))
    }

    fn by_answers(&self, geometry: Geometry, buckets: &impl Buckets, all: Counts) -> f64 {
        let overdue = self.overdue(geometry, buckets, all);
        let by_share = self.formula(all.requests().saturating_add(overdue), all.accepted);
        let hangs = self.formula(all.accepted.saturating_add(overdue), all.accepted) > 0.0;
        if by_share == 0.0 || hangs {
            return by_share;
        }
        self.ramped(geometry, buckets, by_share.max(self.by_collapse(geometry, buckets)))
    }

    /// Returns the number of overdue attempts in the window, or 0 if they cannot matter.
    fn overdue(&self, geometry: Geometry, buckets: &impl Buckets, all: Counts) -> u64 {
        // The most there can be, from sums that the caller has. While the backend is well, this is
        // all.
        let most = all.unanswered();
        if most == 0 || self.formula(all.requests().saturating_add(most), all.accepted) == 0.0 {
            return 0;
        }
        let tenth = geometry.younger_than(geometry.tenths(1));
        let newest = buckets.newest(tenth);
        if most <= newest.attempts() {
            return 0;
        }
        let young = buckets.newest(geometry.younger_than(self.patience(geometry, buckets, newest)));
        most.saturating_sub(young.attempts())
    }

    /// Returns how long an attempt may take until it is overdue: twice the mean response time of
    /// the accepted requests, of the window or of its newest tenth, whichever is longer; from a
    /// tenth to half of the window. It is at least three tenths if the backend has accepted so few
    /// requests in the newest tenth that it may have become slower since.
    fn patience(&self, geometry: Geometry, buckets: &impl Buckets, newest: Counts) -> u64 {
        let is_prompt =
            newest.accepted > 0 && !self.is_unanswered(newest.accepted, newest.attempts());
        let shortest = geometry.tenths(if is_prompt { 1 } else { 3 });
        let tenth = geometry.younger_than(geometry.tenths(1));
        let mean = buckets.mean_rt(tenth).max(buckets.mean_rt(geometry.buckets)).unwrap_or(0);
        mean.saturating_mul(2).clamp(shortest, geometry.tenths(5))
    }

    /// Returns whether fewer than one in 2 k of the attempts were answered.
    fn is_unanswered(&self, answered: u64, attempts: u64) -> bool {
        2.0 * self.k * (answered as f64) < attempts as f64
    }

    /// Returns the probability by the newest buckets, if the backend has accepted fewer than one in
    /// 2 k of the requests that it has answered there. They are a tenth of the window, and more if
    /// it has answered too few in a tenth.
    fn by_collapse(&self, geometry: Geometry, buckets: &impl Buckets) -> f64 {
        let mut newest = Counts::default();
        for age in 0..geometry.buckets {
            let Some(bucket) = buckets.bucket(age) else { break };
            newest = newest.plus(bucket);
            if newest.answered() > self.min_requests
                && geometry.since_end(age) >= geometry.tenths(1)
            {
                break;
            }
        }
        let stricter = Self { k: 2.0 * self.k, ..*self };
        if stricter.formula(newest.answered(), newest.accepted) == 0.0 {
            return 0.0;
        }
        self.formula(newest.requests(), newest.accepted)
    }

    /// Returns the highest probability by a silence: newest buckets in which the backend has
    /// answered fewer than one in 2 k of the attempts that have waited for three tenths of the
    /// window. Acceptances before them tell nothing about the backend now.
    ///
    /// If a backend takes up to three tenths of the window, it has answered each of these attempts
    /// in these buckets, so there is no silence, whatever the load is.
    fn by_silence(&self, geometry: Geometry, buckets: &impl Buckets, all: Counts) -> f64 {
        let len = geometry.younger_than(geometry.tenths(3));
        if all.unanswered() == 0 || len >= geometry.buckets {
            return 0.0;
        }
        let young = buckets.newest(len);
        let waited = |newest: Counts| newest.attempts().saturating_sub(young.attempts());
        // While the backend is well, this is all.
        if !self.is_unanswered(young.answered(), waited(all)) {
            return 0.0;
        }
        let (mut newest, mut highest) = (young, 0.0_f64);
        for age in len..geometry.buckets {
            let Some(bucket) = buckets.bucket(age) else { break };
            newest = newest.plus(bucket);
            if self.is_unanswered(newest.answered(), waited(newest)) {
                let total = newest.requests().saturating_add(newest.unanswered());
                highest = highest.max(self.formula(total, newest.accepted));
            }
        }
        highest
    }

    /// Returns the probability while the backend works again. It *works* in the newest buckets, as
    /// long as no suffix of them would be dropped for its own share of accepted requests, one
    /// rejection aside.
    ///
    /// The probability falls linearly with the time since the backend first accepted a request of
    /// them, within `recovery` or the window. It lets no more than `GROWTH` times the share through
    /// that the backend has accepted in the last tenth of the window, of which it has to have
    /// accepted two.
    fn ramped(&self, geometry: Geometry, buckets: &impl Buckets, probability: f64) -> f64 {
        let (mut working, mut recent) = (Counts::default(), Counts::default());
        let mut since = 0;
        let recovery_nanos = self.recovery_nanos.min(geometry.interval());
        for age in 0..geometry.buckets {
            let Some(bucket) = buckets.bucket(age) else { break };
            working = working.plus(bucket);
            let (answered, accepted) = (working.answered() as f64, working.accepted as f64);
            if answered - self.k * accepted > 1.0 {
                break;
            }
            let since_end = geometry.since_end(age);
            if since_end < geometry.tenths(1) {
                recent = working;
            }
            if bucket.accepted > 0 {
                since = since_end;
            }
            if since_end >= recovery_nanos {
                break;
            }
        }
        let left = 1.0 - since as f64 / recovery_nanos as f64;
        // A backend that rejects nine of ten also accepts one by chance; two such acceptances are
        // rare.
        if recent.accepted < 2 {
            return probability;
        }
        let share = recent.accepted as f64 / (recent.requests() as f64 + 1.0);
        (probability * left).max(1.0 - GROWTH * share).clamp(0.0, probability)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
