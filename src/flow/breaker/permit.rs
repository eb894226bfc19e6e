//! A request that got through.
#![expect(
    clippy::inline_always,
    reason = "as for an entry: one call that is not inlined, and the permit goes through memory"
)]

use std::fmt;
use std::ops::Deref;

use super::{AdaptiveBreaker, RandomSource, ThreadRandom};
use crate::flow::Decision;
use crate::metric::MetricEvent;
use crate::time::{Clock, MonotonicClock, Timestamp};

/// To say what has become of a request that an [`AdaptiveBreaker`] let through.
///
/// It is kept once, whatever happens: by [`accept`](Self::accept), by [`reject`](Self::reject), by
/// [`ignore`](Self::ignore), or when it is dropped, which rejects: on an early return, in a panic, in a
/// future that is cancelled where it awaits. What it says is counted when it says so.
///
/// It can be sent to another thread, and end there. `B` is how it holds its breaker: a reference, or for
/// one that is not to borrow it, an [`Arc`](std::sync::Arc).
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
    is_kept: bool,
}

impl<B, C, R> BreakerPermit<B, C, R>
where
    B: Deref<Target = AdaptiveBreaker<C, R>>,
    C: Clock,
    R: RandomSource,
{
    /// Asks for a request, by whatever leads to its breaker.
    #[inline(always)]
    pub fn try_acquire(breaker: B) -> Decision<Self> {
        let now = breaker.clock().now();
        Self::try_acquire_at(breaker, now)
    }

    /// The same at `now`.
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
    /// Of a request that was let through.
    #[inline(always)]
    pub(super) const fn of(breaker: B) -> Self {
        Self { breaker, is_kept: false }
    }

    /// The backend accepted the request, now.
    #[inline(always)]
    pub fn accept(mut self) {
        self.keep(C::now, MetricEvent::Success);
    }

    /// The backend accepted the request, at `now`.
    #[inline(always)]
    pub fn accept_at(mut self, now: Timestamp) {
        self.keep(|_| now, MetricEvent::Success);
    }

    /// The backend rejected the request, or failed, now.
    #[inline(always)]
    pub fn reject(mut self) {
        self.keep(C::now, MetricEvent::Exception);
    }

    /// The backend rejected the request, or failed, at `now`.
    #[inline(always)]
    pub fn reject_at(mut self, now: Timestamp) {
        self.keep(|_| now, MetricEvent::Exception);
    }

    /// The request says nothing of the backend: the client went away, or it was never sent. It counts for
    /// nothing, at no time.
    #[inline(always)]
    pub fn ignore(mut self) {
        self.is_kept = true;
    }

    #[inline(always)]
    fn keep(&mut self, now: impl FnOnce(&C) -> Timestamp, event: MetricEvent) {
        // First: a clock that panics would do so again in `drop`, and that aborts.
        self.is_kept = true;
        let now = now(self.breaker.clock());
        self.breaker.count(now, event);
    }

    #[cold]
    fn abandon(&mut self) {
        self.keep(C::now, MetricEvent::Exception);
    }
}

impl<B, C, R> Drop for BreakerPermit<B, C, R>
where
    B: Deref<Target = AdaptiveBreaker<C, R>>,
    C: Clock,
{
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_kept {
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
