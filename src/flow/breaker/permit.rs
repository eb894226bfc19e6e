//! The permit of a request that a breaker has let through.
#![expect(
    clippy::inline_always,
    reason = "as for an entry: one call that is not inlined moves the permit to memory"
)]

use std::fmt;
use std::ops::Deref;

use super::{AdaptiveBreaker, RandomSource, ThreadRandom};
use crate::flow::Decision;
use crate::metric::MetricEvent;
use crate::time::{Clock, MonotonicClock, Timestamp};

/// The permit of a request that an [`AdaptiveBreaker`] has let through. The caller reports the outcome of the request
/// with it.
///
/// The outcome is reported exactly once: by [`accept`](Self::accept), by [`reject`](Self::reject), by
/// [`ignore`](Self::ignore), or when the permit is dropped. A drop rejects. It occurs on an early return, in a panic,
/// or when a future is cancelled. The outcome is counted at the time of the report.
///
/// A permit can be sent to another thread, and reported there. `B` is the type of the reference to the breaker:
/// `&AdaptiveBreaker` or [`Arc`](std::sync::Arc).
///
/// ```
/// use leaparray::MetricEvent::{Exception, Success};
/// use leaparray::flow::{AdaptiveBreaker, BreakerConfig, Decision};
///
/// fn ask(breaker: &AdaptiveBreaker, answer: &str) -> Result<u64, Box<dyn std::error::Error>> {
///     let (permit, _) = breaker.try_acquire().into_result()?;
///     let number = answer.parse()?;
///     permit.accept();
///     Ok(number)
/// }
///
/// let breaker = AdaptiveBreaker::new(BreakerConfig::default());
/// assert!(ask(&breaker, "7").is_ok());
/// assert!(ask(&breaker, "seven").is_err());
/// assert_eq!([Success, Exception].map(|event| breaker.window().sum(event)), [1, 1]);
/// ```
#[must_use = "a permit that is dropped at once rejects"]
pub struct BreakerPermit<B, C = MonotonicClock, R = ThreadRandom>
where
    B: Deref<Target = AdaptiveBreaker<C, R>>,
    C: Clock,
{
    breaker: B,
    is_ended: bool,
}

impl<B, C, R> BreakerPermit<B, C, R>
where
    B: Deref<Target = AdaptiveBreaker<C, R>>,
    C: Clock,
    R: RandomSource,
{
    /// Asks for one request, through any reference to the breaker; see [`AdaptiveBreaker::try_acquire`].
    #[inline(always)]
    pub fn try_acquire(breaker: B) -> Decision<Self> {
        let now = breaker.clock().now();
        Self::try_acquire_at(breaker, now)
    }

    /// Like [`try_acquire`](Self::try_acquire), at `now`.
    #[inline(always)]
    pub fn try_acquire_at(breaker: B, now: Timestamp) -> Decision<Self> {
        match breaker.decide(now) {
            Ok(()) => Decision::Admitted(Self::of(breaker)),
            Err(refusal) => Decision::Refused(refusal),
        }
    }
}

impl<B, C, R> BreakerPermit<B, C, R>
where
    B: Deref<Target = AdaptiveBreaker<C, R>>,
    C: Clock,
{
    /// Creates the permit of a request that was let through.
    #[inline(always)]
    pub(super) const fn of(breaker: B) -> Self {
        Self { breaker, is_ended: false }
    }

    /// Reports now that the backend has accepted the request.
    #[inline(always)]
    pub fn accept(mut self) {
        self.end(C::now, MetricEvent::Success);
    }

    /// Like [`accept`](Self::accept), at `now`.
    #[inline(always)]
    pub fn accept_at(mut self, now: Timestamp) {
        self.end(|_| now, MetricEvent::Success);
    }

    /// Reports now that the backend has rejected the request, or failed.
    #[inline(always)]
    pub fn reject(mut self) {
        self.end(C::now, MetricEvent::Exception);
    }

    /// Like [`reject`](Self::reject), at `now`.
    #[inline(always)]
    pub fn reject_at(mut self, now: Timestamp) {
        self.end(|_| now, MetricEvent::Exception);
    }

    /// Reports that the request tells nothing about the backend, because the client has gone away or the request was
    /// never sent. It is not counted.
    #[inline(always)]
    pub fn ignore(mut self) {
        self.is_ended = true;
    }

    #[inline(always)]
    fn end(&mut self, now: impl FnOnce(&C) -> Timestamp, event: MetricEvent) {
        // Set before the clock is read: if the clock panics here, it would panic again in `drop`, which aborts the
        // process.
        self.is_ended = true;
        let now = now(self.breaker.clock());
        self.breaker.count(now, event);
    }

    #[cold]
    fn abandon(&mut self) {
        self.end(C::now, MetricEvent::Exception);
    }
}

impl<B, C, R> Drop for BreakerPermit<B, C, R>
where
    B: Deref<Target = AdaptiveBreaker<C, R>>,
    C: Clock,
{
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_ended {
            self.abandon();
        }
    }
}

impl<B, C, R> fmt::Debug for BreakerPermit<B, C, R>
where
    B: Deref<Target = AdaptiveBreaker<C, R>>,
    C: Clock,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerPermit").finish_non_exhaustive()
    }
}
