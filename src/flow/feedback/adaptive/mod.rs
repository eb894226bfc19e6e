//! Limits of the calls in flight that adapt themselves.
#![expect(
    clippy::inline_always,
    reason = "a decision that is not inlined returns a refusal in memory, and its reader waits for the parts to be stored"
)]

mod aimd;
mod algorithm;
mod epochs;
mod error;
mod headroom;
mod plan;
mod range;
mod sample;
mod token;

use std::fmt;

pub use aimd::Aimd;
pub use algorithm::{EndedCall, EpochCalls, LimitAlgorithm, LimitEvidence, LimitPlan};
pub use error::AdaptiveConfigError;
pub use headroom::Headroom;
pub use range::LimitRange;

use crate::flow::contract::lend;
use crate::flow::contract::{Account, Ask, Decision, Quota, Refusal};
use crate::flow::feedback::FeedbackPermit;
use crate::flow::feedback::feedback_permit::sealed::{Admission, Decide};
use crate::flow::limiters::CountedPermits;
use crate::flow::permits::Horizon;
use crate::node::Reason;
use crate::node::{OnDrop, Outcome};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp};
use epochs::Epochs;
use plan::Planner;
use sample::Sampling;
use token::Token;

/// A limiter of the calls in flight whose limit follows the capacity of the backend.
///
/// A [`LimitAlgorithm`] sets the limit:
///
/// - [`Headroom`], unless another one is chosen. Take it if calls wait in a queue of the backend
///   when there are too many: it follows the response times, and needs no setting.
/// - [`Aimd`], if the backend refuses or times out what is too much instead, and response times
///   tell nothing: it follows the failures.
/// - Your own one, for another signal, such as the load of the processors.
///
/// The caller reports the end of each admitted call with its [`FeedbackPermit`]. The algorithm
/// learns from response times or from exceptions. Cancel a call that did not reach the backend, for
/// example one that failed to connect, and reject one that has timed out. A cancelled call gives
/// its permit back, and [`Aimd`] does not learn from it. [`Headroom`] learns from one that was
/// cancelled late: the call would have taken longer than that.
///
/// The check and the taking of permits are one atomic step. After an admission, the permits in use
/// do not exceed a limit that applied during it, unless one call takes all of them: a call for more
/// permits than the limit is admitted while no permit is in use, since the limit may rise, and
/// learns from the calls that are admitted. While more than some thousands of calls come in the
/// time of a plan, an algorithm learns from a share of them: see
/// [`EpochCalls`](EpochCalls). The end of another call reads no clock. The permits are
/// counted exactly, in one atomic, for whose cache line threads compete. A
/// [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter) divides its permits among threads, and
/// this limiter does not. A request for several permits is one call to the algorithm. One for more
/// permits than the [highest limit](LimitAlgorithm::highest_limit) is refused for the reason
/// [`Reason::MoreThanLimit`]. Calls that are in flight when the limit falls go on. A waiter of a
/// [`WaitQueue`](crate::flow::WaitQueue) is woken when a permit of the queue is given back, and not
/// when the limit rises: call [`WaitQueue::recheck`](crate::flow::WaitQueue::recheck) now and then.
///
/// Plans are made at the times of the calls. A time that is more than a second ahead of the clock
/// of the limiter counts as one second ahead.
///
/// ```
/// use leaparray::flow::{AdaptiveLimiter, LimiterExt};
///
/// let limiter = AdaptiveLimiter::default();
/// let call = limiter.try_acquire().at_once()?;
/// assert_eq!((limiter.in_use(), limiter.limit()), (1, 20));
/// call.accept();
/// assert_eq!(limiter.in_use(), 0);
/// # Ok::<_, leaparray::flow::Refusal>(())
/// ```
///
/// A call for more permits than the limit:
///
/// ```
/// use leaparray::flow::{AdaptiveLimiter, LimiterExt, Reason};
/// use leaparray::flow::adaptive::{Headroom, LimitRange};
///
/// let limiter = AdaptiveLimiter::new(Headroom::new(LimitRange::new(1, 2, 10)?));
/// let alone = limiter.try_acquire_many(5).at_once();
/// assert!(alone.is_ok() && limiter.in_use() == 5 && limiter.limit() == 2);
/// let refusal = limiter.try_acquire_many(11).refusal().expect("more than 10");
/// assert_eq!(refusal.reason, Reason::MoreThanLimit);
/// # Ok::<_, leaparray::flow::adaptive::AdaptiveConfigError>(())
/// ```
//
// # Orderings
//
// The planner stores the limit of an epoch, and then the number of the epoch with Release. An
// admission loads the number with Acquire, and then the limit. So a call that is counted in an
// epoch was admitted under the limit of this epoch or of a later one. A response time under a
// lowered limit is what an algorithm relies on.
pub struct AdaptiveLimiter<A = Headroom, C = MonotonicClock> {
    permits: CountedPermits,
    /// The time in nanoseconds from which the next plan is made, or [`Self::EACH_CALL`].
    due: AtomicU64,
    /// The number of the current epoch.
    epoch: AtomicU64,
    /// The highest number of permits in use in the current epoch; at least the limit if a call was
    /// refused.
    peak: AtomicU64,
    epochs: Epochs,
    /// The calls that are measured.
    sample: Sampling,
    /// Only ever tried: a thread that has stalled in a plan delays the plans, and no call.
    planner: Mutex<Planner<A>>,
    /// The latest time in nanoseconds at which a call found an epoch over, and the planner held by
    /// another thread.
    held_at: AtomicU64,
    skipped: AtomicU64,
    /// Bounds the times of plans: a call with a time far ahead would otherwise put off all later
    /// plans.
    horizon: Horizon,
    on_drop: OnDrop,
    clock: C,
}

impl Default for AdaptiveLimiter {
    /// A limiter with the default [`Headroom`].
    fn default() -> Self {
        Self::new(Headroom::default())
    }
}

impl<A: LimitAlgorithm> AdaptiveLimiter<A> {
    /// Creates a limiter with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(algorithm: A) -> Self {
        Self::with_clock(algorithm, MonotonicClock::new())
    }
}

impl<A: LimitAlgorithm, C: Clock> AdaptiveLimiter<A, C> {
    /// The value of `due` if the plan is for each call.
    const EACH_CALL: u64 = u64::MAX;
    /// More nanoseconds than the next plan is ahead of the clock: it is due in [`plan::POLL`] or
    /// earlier, and an epoch may begin a lead of the horizon ahead of the clock.
    const AHEAD: u64 = 4_000_000_000;

    /// Creates a limiter that reads `clock`.
    #[must_use]
    pub fn with_clock(algorithm: A, clock: C) -> Self {
        let mut planner = Planner::new(algorithm, clock.now());
        let first = planner.first();
        let most = planner.most();
        Self {
            permits: CountedPermits::new(first.limit, most),
            due: AtomicU64::new(first.due),
            epoch: AtomicU64::new(first.epoch),
            peak: AtomicU64::new(0),
            epochs: Epochs::new(),
            sample: Sampling::of_all(),
            planner: Mutex::new(planner),
            held_at: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            horizon: Horizon::new(),
            on_drop: OnDrop::Exception,
            clock,
        }
    }

    /// Sets the outcome of a call whose permit is dropped without a report. By default, it is an
    /// exception. Under either policy, the permit is given back.
    #[must_use]
    pub fn on_drop(self, policy: OnDrop) -> Self {
        Self { on_drop: policy, ..self }
    }

    /// Returns the limit: the lowest number of permits in use at which a call for one permit is
    /// refused.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.permits.limit()
    }

    /// Returns the number of permits in use.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.permits.in_use()
    }

    /// Returns the number of ended calls that were not reported to an algorithm with a [plan for
    /// each call](LimitPlan::each_call), because another thread held the planner.
    #[must_use]
    pub fn skipped_calls(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn take(&self, now: Timestamp, permits: u64) -> Result<Admission, Refusal> {
        let due = self.due.load(Ordering::Relaxed);
        if Self::is_due(due, now) {
            self.plan_after_epoch(now);
        }
        // Acquire: pairs with the Release in `publish`. Loaded before the limit.
        let epoch = self.epoch.load(Ordering::Acquire);
        // Before the permit is taken: later loads would wait for that read-modify-write.
        let (sample, peak) = (self.sample.get(), self.peak.load(Ordering::Relaxed));
        let count = match self.permits.take(permits) {
            Ok(count) => count,
            Err(refusal) => {
                // A call that the limit can never admit does not show that the limit is reached.
                if refusal.reason != Reason::MoreThanLimit {
                    self.raise_peak(peak, self.permits.limit());
                }
                return Err(refusal);
            }
        };
        let token = if due == Self::EACH_CALL {
            Token::of_call(count.in_use(), permits)
        } else {
            self.raise_peak(peak, count.in_use());
            if sample.has(count) {
                self.epochs.begin(epoch, permits);
                Token::of_epoch(epoch, permits)
            } else {
                Token::unmeasured(permits)
            }
        };
        Ok(Admission { start: now, token: token.0 })
    }

    /// Whether a plan is due at `now`: at or after `due`, or so long before it that the clock must
    /// have stepped back since the plan was made.
    #[inline]
    const fn is_due(due: u64, now: Timestamp) -> bool {
        // The time until `due`, minus 1: it wraps around at `due`, and is large after it.
        due != Self::EACH_CALL && due.wrapping_sub(now.as_nanos()).wrapping_sub(1) >= Self::AHEAD
    }

    #[inline]
    fn end_measured(&self, now: Timestamp, admission: Admission, outcome: Outcome) {
        let token = Token(admission.token);
        let response_time = now.saturating_since(admission.start);
        if let Some(in_flight) = token.in_flight() {
            self.permits.give_back(token.permits());
            if outcome != Outcome::Cancelled {
                let is_exception = outcome == Outcome::Exception;
                self.plan_after_call(EndedCall { now, response_time, is_exception, in_flight });
            }
            return;
        }
        self.epochs.end(token.epoch(), outcome, response_time);
        self.permits.give_back(token.permits());
        if Self::is_due(self.due.load(Ordering::Relaxed), now) {
            self.plan_after_epoch(now);
        }
    }

    /// Notes that the limit was reached.
    pub(in crate::flow) fn reach(&self) {
        self.raise_peak(self.peak.load(Ordering::Relaxed), self.permits.limit());
    }

    /// Raises the peak, which was found to be `peak`, to `in_use`. Most calls only read it. If an
    /// epoch has ended since the peak was read, the call counts in its peak.
    #[inline]
    fn raise_peak(&self, peak: u64, in_use: u64) {
        if in_use > peak {
            self.peak.fetch_max(in_use, Ordering::Relaxed);
        }
    }
}

impl<A: LimitAlgorithm, C: Clock> Decide for AdaptiveLimiter<A, C> {
    type Clock = C;

    #[inline]
    fn clock(&self) -> &C {
        &self.clock
    }

    fn on_drop(&self) -> OnDrop {
        self.on_drop
    }

    #[inline(always)]
    fn admit(&self, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        self.take(ask.now(), ask.permits())
    }

    fn foretold(&self, ask: &Ask<'_>) -> Option<Decision> {
        let decision = self.permits.peek(ask.permits());
        // Behind a queue or a combination, the first question of a request is a peek. It shows that
        // the limit was reached, as a refusal does.
        let refusal = decision.refusal().filter(|_| ask.is_first());
        if refusal.is_some_and(|it| it.reason != Reason::MoreThanLimit) {
            self.reach();
        }
        Some(decision)
    }

    #[inline(always)]
    fn end(&self, now: impl FnOnce() -> Timestamp, admission: Admission, outcome: Outcome) {
        let token = Token(admission.token);
        if token.is_unmeasured() {
            self.permits.give_back(token.permits());
        } else {
            self.end_measured(now(), admission, outcome);
        }
    }
}

impl<A: LimitAlgorithm, C: Clock> Account for AdaptiveLimiter<A, C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the limit and the permits that are left. The time at which the permits in use are
    /// free again is not known.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        Some(self.permits.quota_at(now))
    }

    /// Returns `false`: a new limiter has not learned what this one has.
    fn is_as_new(&self, _now: Timestamp) -> bool {
        false
    }
}

lend!(FeedbackPermit, [A: LimitAlgorithm, C: Clock] AdaptiveLimiter<A, C>);

impl<A, C> fmt::Debug for AdaptiveLimiter<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveLimiter").field("permits", &self.permits).finish_non_exhaustive()
    }
}
