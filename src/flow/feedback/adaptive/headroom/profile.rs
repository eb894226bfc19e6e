//! The response times of the calls of an epoch, as the algorithm compares them.

use super::super::algorithm::EpochCalls;
use super::super::range::float;

/// Quantiles of response times, in seconds. A call that has not ended, that failed, or that was
/// cancelled after more than the median of the others, counts as one that takes for ever: nothing
/// tells how long the backend would have taken. A quantile is infinite if it is among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile([f64; Self::QUANTILES.len()]);

impl Profile {
    /// With fewer calls, an epoch tells nothing.
    pub(super) const CALLS: u64 = 20;
    /// The lower ones are known first, are the least noisy, and tell the most: a wait makes a short
    /// call longer by a larger factor. The higher ones see a queue that short calls do not wait in.
    const QUANTILES: [f64; 7] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7];

    /// Returns the profile of an epoch; `None` if there are too few calls.
    pub(super) fn of(epoch: &EpochCalls<'_>) -> Option<Self> {
        let times = epoch.response_times;
        let calls = Self::calls_of(epoch);
        if calls < Self::CALLS {
            return None;
        }
        let known = float(times.count()) / float(calls);
        Some(Self(Self::QUANTILES.map(|q| {
            let time = (q <= known).then(|| times.quantile_as_secs_f64(q / known)).flatten();
            time.unwrap_or(f64::INFINITY)
        })))
    }

    /// Returns the number of calls of an epoch that tell how long calls take: all but those that
    /// were cancelled early.
    pub(super) fn calls_of(epoch: &EpochCalls<'_>) -> u64 {
        let median = epoch.response_times.quantile_as_secs_f64(0.5).unwrap_or_default();
        let cancelled = epoch.cancelled.buckets().filter(|it| it.lower >= median);
        epoch.begun + cancelled.map(|it| it.count).sum::<u64>()
    }

    /// Returns the means of the quantiles, of which `share` is the share of `other`; `None` if one
    /// of them is infinite in one profile only.
    pub(super) fn mixed(&self, other: &Self, share: f64) -> Option<Self> {
        let mut mixed = *self;
        for (one, other) in mixed.0.iter_mut().zip(other.0) {
            if one.is_finite() != other.is_finite() {
                return None;
            }
            *one = (1.0 - share) * *one + share * other;
        }
        Some(mixed)
    }

    /// Returns how much longer the calls took than those of `base`, in seconds: the median of the
    /// differences of the quantiles, and the second largest of them. If all calls wait for the same
    /// time longer, both are that time, also if fast and slow calls mix. If only some calls wait,
    /// the second tells it. The largest may be the difference of a quantile between the fast calls
    /// and the slow ones. Returns `None` if too few calls have succeeded to tell.
    pub(super) fn longer_than(&self, base: &Self) -> Option<[f64; 2]> {
        let pairs = self.0.iter().zip(base.0);
        let both = pairs.filter(|(one, other)| one.is_finite() || other.is_finite());
        let mut differences = Vec::with_capacity(self.0.len());
        for (one, other) in both {
            let difference: f64 = one - other;
            let is_less = |it: &f64| it.total_cmp(&difference).is_lt();
            differences.insert(differences.partition_point(is_less), difference);
        }
        let second = differences.len().saturating_sub(2);
        Some([*differences.get(differences.len() / 2)?, differences[second]])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::flow::adaptive::{LimitAlgorithm, LimitEvidence, LimitPlan};
    use crate::flow::{AdaptiveLimiter, FeedbackPermit, LimiterExt};
    use crate::time::{ManualClock, Timestamp};

    const EPOCH: Duration = Duration::from_secs(1);

    /// Notes the profile of each epoch.
    #[derive(Default)]
    struct Notes(Arc<Mutex<Vec<Option<Profile>>>>);

    impl LimitAlgorithm for Notes {
        fn first_plan(&mut self) -> LimitPlan {
            LimitPlan::epoch(100, EPOCH)
        }

        fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
            if let LimitEvidence::Epoch(epoch) = evidence {
                self.0.lock().unwrap().push(Profile::of(epoch));
            }
            self.first_plan()
        }
    }

    #[derive(Clone, Copy)]
    enum Call {
        /// Succeeds after some milliseconds.
        Succeeds(u64),
        FailsAtOnce,
        /// Is cancelled after some milliseconds.
        Cancelled(u64),
        InFlight,
    }

    /// Returns the profile of an epoch with that number of calls of each kind, in milliseconds.
    fn profile(kinds: &[(Call, usize)]) -> Option<[f64; 7]> {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let notes = Notes::default();
        let profiles = Arc::clone(&notes.0);
        let limiter = AdaptiveLimiter::with_clock(notes, clock.clone());
        let call = || limiter.try_acquire().at_once().expect("below the limit");
        let kinds = kinds.iter().flat_map(|&(kind, count)| vec![kind; count]);
        let mut calls: Vec<_> = kinds.map(|kind| (kind, Some(call()))).collect();
        for millis in 0..=20 {
            for (kind, permit) in &mut calls {
                let end: Option<fn(FeedbackPermit<_>)> = match *kind {
                    Call::Succeeds(after) if millis == after => Some(FeedbackPermit::accept),
                    Call::FailsAtOnce if millis == 0 => Some(FeedbackPermit::reject),
                    Call::Cancelled(after) if millis == after => Some(FeedbackPermit::cancel),
                    _ => None,
                };
                if let Some(end) = end {
                    permit.take().into_iter().for_each(end);
                }
            }
            clock.advance(Duration::from_millis(1));
        }
        // The first of these calls ends the epoch, and the second one the epoch after it.
        for _ in 0..2 {
            clock.advance(EPOCH);
            call().accept();
        }
        let profile = profiles.lock().unwrap()[0];
        // The error of the histogram is 2.17 %: less than half a millisecond.
        profile.map(|it| it.0.map(|secs| (secs * 1e3).round()))
    }

    #[test]
    fn call_without_a_response_time_takes_for_ever() {
        use Call::{Cancelled, FailsAtOnce, InFlight, Succeeds};
        const EVER: f64 = f64::INFINITY;
        assert_eq!(profile(&[(Succeeds(10), 19)]), None);
        assert_eq!(profile(&[(Succeeds(10), 20)]), Some([10.0; 7]));
        // A quarter of the calls each, and then half of them.
        let half = Some([10.0, 10.0, 20.0, 20.0, 20.0, EVER, EVER]);
        for other in [InFlight, FailsAtOnce, Cancelled(20)] {
            assert_eq!(profile(&[(Succeeds(10), 10), (Succeeds(20), 10), (other, 20)]), half);
        }
        // Cancelled before a response could come: it tells nothing.
        assert_eq!(profile(&[(Succeeds(10), 20), (Cancelled(5), 20)]), Some([10.0; 7]));
        assert_eq!(profile(&[(Succeeds(10), 15), (Cancelled(5), 15)]), None);
    }
}
