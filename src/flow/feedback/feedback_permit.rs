//! The permit of a request whose outcome its controller learns from.
#![expect(
    clippy::inline_always,
    reason = "as for an entry: one call that is not inlined moves the permit to memory"
)]

use std::fmt;
use std::ops::Deref;

use crate::flow::contract::{Ask, Decision};
use crate::node::{Drops, OnDrop, Outcome, Permit};
use crate::time::{Clock, Timestamp};
use sealed::{Admission, Decide};

/// A controller that learns from the outcomes of the requests that it has admitted: an
/// [`AdaptiveBreaker`](crate::flow::AdaptiveBreaker), a
/// [`CircuitBreaker`](crate::flow::CircuitBreaker) or an
/// [`AdaptiveLimiter`](crate::flow::AdaptiveLimiter). It cannot be implemented for other types.
pub trait Feedback: Decide {}

impl<T: Decide> Feedback for T {}

pub(in crate::flow) mod sealed {
    use crate::flow::contract::{Ask, Decision, Refusal};
    use crate::node::{OnDrop, Outcome};
    use crate::time::{Clock, Timestamp};

    /// The state of an admitted request, kept in its permit.
    #[derive(Clone, Copy, Debug)]
    pub struct Admission {
        pub start: Timestamp,
        /// The number by which the controller recognizes the request or its state.
        pub token: u64,
    }

    /// The decision on a request, and its end.
    pub trait Decide {
        type Clock: Clock;

        fn clock(&self) -> &Self::Clock;
        fn on_drop(&self) -> OnDrop;
        fn admit(&self, ask: &Ask<'_>) -> Result<Admission, Refusal>;

        /// Returns the decision that a request would get; `None` if the controller cannot tell.
        fn foretold(&self, _ask: &Ask<'_>) -> Option<Decision> {
            None
        }

        /// Ends a request at the time `now`, which the controller reads if it needs the time.
        fn end(&self, now: impl FnOnce() -> Timestamp, admission: Admission, outcome: Outcome);
    }
}

/// The permit of a request that an [`AdaptiveBreaker`](crate::flow::AdaptiveBreaker), a
/// [`CircuitBreaker`](crate::flow::CircuitBreaker) or an
/// [`AdaptiveLimiter`](crate::flow::AdaptiveLimiter) has admitted. The caller reports the outcome
/// of the request with it.
///
/// The outcome is reported exactly once: by [`accept`](Self::accept), by [`reject`](Self::reject),
/// by [`cancel`](Self::cancel), or when the permit is dropped: on an early return, in a panic, or
/// with its future. A drop rejects or cancels, as the policy of the permit says, or else the policy
/// of the controller: see
/// [`AdaptiveBreakerConfig::on_drop`](crate::flow::breaker::AdaptiveBreakerConfig::on_drop),
/// [`CircuitConfig::on_drop`](crate::flow::CircuitConfig::on_drop) and
/// [`AdaptiveLimiter::on_drop`](crate::flow::AdaptiveLimiter::on_drop). By default, it rejects. The
/// outcome is counted at the time of the report. An adaptive breaker counts a cancellation at the
/// time of the admission, and an adaptive limiter counts a call in the epoch in which it began.
///
/// A permit can be sent to another thread, and reported there. `L` is the type of the reference to
/// the controller, such as `&AdaptiveBreaker` or [`Arc<CircuitBreaker>`](std::sync::Arc).
///
/// If the permit ends with an [entry](crate::flow::LimiterExt::enter) that is dropped, the outcome
/// is a cancellation if the policy of the permit or of its controller says so, or if the entry is
/// cancelled. Otherwise it is the outcome of the entry: an exception.
///
/// ```
/// use leaparray::MetricEvent::{Exception, Success};
/// use leaparray::flow::{AdaptiveBreaker, LimiterExt};
/// use leaparray::flow::breaker::AdaptiveBreakerConfig;
///
/// fn ask(
///     breaker: &AdaptiveBreaker,
///     answer: &str,
/// ) -> Result<u64, Box<dyn std::error::Error>> {
///     let permit = breaker.try_acquire().at_once()?;
///     let number = answer.parse()?;
///     permit.accept();
///     Ok(number)
/// }
///
/// let breaker = AdaptiveBreaker::new(AdaptiveBreakerConfig::default());
/// assert!(ask(&breaker, "7").is_ok());
/// assert!(ask(&breaker, "seven").is_err());
/// assert_eq!([Success, Exception].map(|event| breaker.window().now().sum(event)), [1, 1]);
/// ```
#[must_use = "a permit that is dropped at once has no outcome"]
pub struct FeedbackPermit<L>
where
    L: Deref,
    L::Target: Feedback,
{
    controller: L,
    admission: Admission,
    drops: Drops,
}

impl<L> FeedbackPermit<L>
where
    L: Deref,
    L::Target: Feedback,
{
    /// Asks a controller through any reference to it, such as an [`Rc`](std::rc::Rc) or a guard.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{AdaptiveBreaker, Ask, FeedbackPermit};
    /// use leaparray::flow::breaker::AdaptiveBreakerConfig;
    /// use std::rc::Rc;
    ///
    /// let breaker = Rc::new(AdaptiveBreaker::new(AdaptiveBreakerConfig::default()));
    /// let ask = Ask::at(Timestamp::from_secs(60));
    /// FeedbackPermit::ask(Rc::clone(&breaker), &ask).at_once()?.accept();
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[inline(always)]
    pub fn ask(controller: L, ask: &Ask<'_>) -> Decision<Self> {
        match controller.admit(ask) {
            Ok(admission) => Decision::Admitted(Self::of(controller, admission)),
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    /// Creates the permit of a request that was let through.
    #[inline(always)]
    pub(in crate::flow) fn of(controller: L, admission: Admission) -> Self {
        Self { controller, admission, drops: Drops::inherited() }
    }

    /// Reports now that the backend has accepted the request.
    #[inline(always)]
    pub fn accept(mut self) {
        self.end(Clock::now, Outcome::Success);
    }

    /// Reports the outcome at `now`: a success is an [acceptance](Self::accept), and an exception a
    /// [rejection](Self::reject).
    #[inline(always)]
    pub fn end_at(mut self, now: Timestamp, outcome: Outcome) {
        self.end(|_| now, outcome);
    }

    /// Reports now that the backend has rejected the request, or failed.
    #[inline(always)]
    pub fn reject(mut self) {
        self.end(Clock::now, Outcome::Exception);
    }

    /// Reports now that the request tells nothing about the backend, because the client has gone
    /// away or the request was never sent. [Reject](Self::reject) a request that has timed out: its
    /// cancellation would hide a backend that hangs.
    ///
    /// An adaptive breaker counts it as [cancelled](crate::MetricEvent::Cancelled) at the time at
    /// which it was admitted, so that it and its [pass](crate::MetricEvent::Pass) count nothing
    /// together. If the request was a probe, and no other request got through since, the next
    /// request that would be dropped is a probe. A circuit breaker counts it nowhere. If the
    /// request was a probe, another one can take its place. An adaptive limiter gives the permit
    /// back, and its algorithm does not learn from the call, except for
    /// [`Headroom`](crate::flow::adaptive::Headroom), if the call was cancelled late.
    ///
    /// ```
    /// use leaparray::MetricEvent::{Cancelled, Exception};
    /// use leaparray::flow::{AdaptiveBreaker, LimiterExt};
    /// use leaparray::flow::breaker::AdaptiveBreakerConfig;
    ///
    /// let breaker = AdaptiveBreaker::new(AdaptiveBreakerConfig::default());
    /// let permit = breaker.try_acquire().at_once()?;
    /// permit.cancel();
    /// assert_eq!([Cancelled, Exception].map(|event| breaker.window().now().sum(event)), [1, 0]);
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[inline(always)]
    pub fn cancel(mut self) {
        self.end(Clock::now, Outcome::Cancelled);
    }

    /// Sets the outcome of the request if this permit is dropped without a report, instead of the
    /// policy of its controller.
    pub fn on_drop(mut self, policy: OnDrop) -> Self {
        self.drops = self.drops.as_policy(policy);
        self
    }

    #[inline(always)]
    fn end(
        &mut self,
        now: impl FnOnce(&<L::Target as Decide>::Clock) -> Timestamp,
        outcome: Outcome,
    ) {
        // Set before the clock is read: if the clock panics here, it would panic again in `drop`,
        // which aborts the process.
        self.drops.end();
        self.controller.end(|| now(self.controller.clock()), self.admission, outcome);
    }

    #[cold]
    fn abandon(&mut self) {
        let outcome = self.drops.now(self.controller.on_drop());
        self.end(Clock::now, outcome);
    }
}

impl<L> Permit for FeedbackPermit<L>
where
    L: Deref,
    L::Target: Feedback,
{
    /// Reports a success as an acceptance, and an exception as a rejection.
    #[inline]
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        if !self.drops.has_ended() {
            self.end(|_| now, outcome);
        }
    }

    /// Reports a cancellation if the entry was cancelled, or if the policy of the permit or of the
    /// controller says so.
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        let own = self.drops.now(self.controller.on_drop());
        let is_cancelled = [own, outcome].contains(&Outcome::Cancelled);
        self.end_at(now, if is_cancelled { Outcome::Cancelled } else { outcome });
    }
}

impl<L> Drop for FeedbackPermit<L>
where
    L: Deref,
    L::Target: Feedback,
{
    #[inline(always)]
    fn drop(&mut self) {
        if !self.drops.has_ended() {
            self.abandon();
        }
    }
}

impl<L> fmt::Debug for FeedbackPermit<L>
where
    L: Deref,
    L::Target: Feedback,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedbackPermit").finish_non_exhaustive()
    }
}
