//! The trait of the algorithms that set the limit, and what they are told.

use std::time::Duration;

use super::range::LimitRange;
use crate::histogram::LatencyHistogram;
use crate::time::Timestamp;

/// An algorithm that sets the limit of an [`AdaptiveLimiter`](super::AdaptiveLimiter).
///
/// The limiter calls it after each call or after each *epoch*, as the last [`LimitPlan`] says. One
/// thread at a time calls it, so it needs no atomics. It must not block: it runs in a thread that
/// begins or ends a call.
///
/// ```
/// use leaparray::flow::AdaptiveLimiter;
/// use leaparray::flow::adaptive::{LimitAlgorithm, LimitEvidence, LimitPlan};
/// use std::time::Duration;
///
/// /// Allows ten more calls after each epoch in which no call failed, and otherwise half as many.
/// struct Halving(u64);
///
/// impl LimitAlgorithm for Halving {
///     fn first_plan(&mut self) -> LimitPlan {
///         LimitPlan::epoch(self.0, Duration::from_millis(100))
///     }
///
///     fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
///         if let LimitEvidence::Epoch(epoch) = evidence {
///             self.0 = if epoch.exceptions == 0 { self.0 + 10 } else { self.0 / 2 };
///         }
///         LimitPlan::epoch(self.0, Duration::from_millis(100))
///     }
/// }
///
/// let limiter = AdaptiveLimiter::new(Halving(50));
/// assert_eq!(limiter.limit(), 50);
/// ```
pub trait LimitAlgorithm {
    /// Returns the limit before the first call. Called once, when the limiter is made.
    fn first_plan(&mut self) -> LimitPlan;

    /// Returns the next limit.
    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan;

    /// Returns the limit of an algorithm that takes the place of another one at the limit `limit`;
    /// called instead of [`first_plan`](Self::first_plan), by
    /// [`reconfigure`](super::AdaptiveLimiter::reconfigure). An algorithm that remembers its limit
    /// goes on from this one, as far as its range allows. By default, it begins with its first
    /// plan.
    fn resume(&mut self, limit: u64) -> LimitPlan {
        let _ = limit;
        self.first_plan()
    }

    /// Returns the highest limit of all plans. A plan with a higher limit has this one. Asked once,
    /// when the limiter gets the algorithm: a call for more permits can never be admitted. By
    /// default [`LimitRange::MAX`].
    fn highest_limit(&self) -> u64 {
        LimitRange::MAX
    }
}

impl<T: LimitAlgorithm + ?Sized> LimitAlgorithm for Box<T> {
    fn first_plan(&mut self) -> LimitPlan {
        (**self).first_plan()
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        (**self).next_plan(evidence)
    }

    fn resume(&mut self, limit: u64) -> LimitPlan {
        (**self).resume(limit)
    }

    fn highest_limit(&self) -> u64 {
        (**self).highest_limit()
    }
}

/// A limit, and the time at which the algorithm is asked for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LimitPlan {
    pub(super) limit: u64,
    pub(super) next: Next,
}

/// The time of the next plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    EachCall,
    Epoch { length: Duration, until: Until, longest: Duration },
}

/// The events that an epoch waits for, beyond its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Until {
    /// The calls that have begun in the epoch.
    pub(super) calls: u64,
    /// The permits of these calls.
    pub(super) permits: u64,
    /// The end of all calls of the epoch before, or after this time of half of them.
    pub(super) ended_within: Option<Duration>,
}

impl LimitPlan {
    /// A plan with that limit up to the end of the next call. If two calls end at the same time,
    /// one of them may be skipped: see [`skipped_calls`](super::AdaptiveLimiter::skipped_calls).
    pub const fn each_call(limit: u64) -> Self {
        Self { limit, next: Next::EachCall }
    }

    /// A plan with that limit for an epoch of that length, at least 1 ms. An epoch ends with the
    /// first call that begins or ends after its length.
    pub const fn epoch(limit: u64, length: Duration) -> Self {
        let until = Until { calls: 0, permits: 0, ended_within: None };
        Self { limit, next: Next::Epoch { length, until, longest: length } }
    }

    /// Extends the epoch until `calls` [measured](EpochCalls) calls have begun in it, but not
    /// beyond the length `longest`. A plan for each call stays as it is.
    ///
    /// ```
    /// use leaparray::flow::adaptive::LimitPlan;
    /// use std::time::Duration;
    ///
    /// let plan = LimitPlan::epoch(20, Duration::from_millis(100))
    ///     .until_calls(50, Duration::from_secs(1));
    /// assert_eq!(plan.limit(), 20);
    /// ```
    pub const fn until_calls(self, calls: u64, longest: Duration) -> Self {
        self.until(Until { calls, permits: 0, ended_within: None }, longest)
    }

    /// Like [`until_calls`](Self::until_calls), and also until calls have taken `permits` permits.
    /// At the limit, as many permits as the limit are taken in each mean response time.
    pub const fn until_permits(self, calls: u64, permits: u64, longest: Duration) -> Self {
        self.until(Until { calls, permits, ended_within: None }, longest)
    }

    /// Extends the epoch until all measured calls of the epoch before it have ended, or after the
    /// time `patience` until half of them have, but not beyond the length `longest`. The algorithm
    /// is told of them at the end of this epoch, so it learns at least the lower half of their
    /// response times, however long they are. A plan for each call stays as it is.
    pub const fn until_ended(self, patience: Duration, longest: Duration) -> Self {
        self.until(Until { calls: 0, permits: 0, ended_within: Some(patience) }, longest)
    }

    const fn until(mut self, until: Until, longest: Duration) -> Self {
        if let Next::Epoch { length, .. } = self.next {
            self.next = Next::Epoch { length, until, longest };
        }
        self
    }

    /// Returns the limit.
    #[must_use]
    pub const fn limit(self) -> u64 {
        self.limit
    }
}

/// The evidence for the next limit: a call that ended, or an epoch.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LimitEvidence<'a> {
    /// A call has ended, after a [plan for each call](LimitPlan::each_call).
    Call(EndedCall),
    /// An epoch has ended, after a [plan for an epoch](LimitPlan::epoch).
    Epoch(EpochCalls<'a>),
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedCall {
    /// The time at which the call ended.
    pub now: Timestamp,
    /// The time that the call has taken.
    pub response_time: Duration,
    /// Whether the call ended with an exception.
    pub is_exception: bool,
    /// The permits in use after the call got its own. It is above the limit if the call was
    /// admitted alone, for more permits than the limit.
    pub in_flight: u64,
}

/// The calls that began in an epoch.
///
/// An algorithm is told of an epoch at the end of the next one, when most of its calls have ended.
/// A call that begins in an epoch was admitted under the limit of this epoch or of a later one. So
/// the response times are the result of this limit, also just after the limit has changed.
///
/// While more than 4,096 calls come in an epoch, a share of them is *measured*: about 2,048 calls,
/// or as many as the plan wants permits if that is more. The share is set at the start of the
/// epoch, by the higher rate of calls of the two before and the length of the plan, and is at least
/// one in 64. If the epoch lasts longer than that length, the rest of its calls are measured. The
/// other calls count only in the permits, and in the peak.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EpochCalls<'a> {
    /// The time at which the evidence is told.
    pub now: Timestamp,
    /// The time at which the epoch began.
    pub start: Timestamp,
    /// The time at which the epoch ended. If no call came then, the next epoch began later, with
    /// the next call. Calls that come while another thread makes a plan count in the epoch that is
    /// over, which then ends with the last of them.
    pub end: Timestamp,
    /// The limit during the epoch.
    pub limit: u64,
    /// The highest number of permits in use during the epoch.
    pub peak_in_flight: u64,
    /// The permits that were taken in the epoch, by all calls.
    pub permits: u64,
    /// The permits that were given back in the epoch, of whichever calls. While the limit is
    /// reached, that is the throughput, also if the limit has changed at the start of the epoch.
    pub returned: u64,
    /// The number of measured calls that began in the epoch and were not cancelled.
    pub begun: u64,
    /// The mean permits of the measured calls, including cancelled calls; at least 1.
    pub mean_permits: f64,
    /// The number of those calls that have ended with an exception.
    pub exceptions: u64,
    /// The response times of those calls that have succeeded. A call that fails may do so at once,
    /// or after a time-out: its time tells nothing of the backend.
    pub response_times: &'a LatencyHistogram,
    /// The times after which measured calls that began in the epoch were cancelled. Each is a lower
    /// bound: without the cancellation, the call would have taken longer, if it reached the
    /// backend.
    pub cancelled: &'a LatencyHistogram,
}

impl EpochCalls<'_> {
    /// Returns the number of measured calls that began in the epoch and have not ended. Each of
    /// them has taken at least the time since the end of the epoch.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.begun.saturating_sub(self.response_times.count() + self.exceptions)
    }
}
