//! A limiter that counts requests, among limiters that count something else.

use std::task::Waker;
use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, Limiter, LimiterExt, Quota};
use crate::flow::watch::WatchedState;
use crate::time::Timestamp;

/// A limiter that is asked for one permit for each request, whatever number the request asks for.
/// So a limit of requests can be in an [`AllOf`](crate::flow::AllOf) beside a limit of costs, whose
/// permits are the estimate.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::settle::PerRequest;
/// use leaparray::flow::{FixedWindowLimiter, LimiterExt};
/// use std::time::Duration;
///
/// let requests =
///     PerRequest::new(FixedWindowLimiter::new(Duration::from_secs(60), 2)?);
/// let now = Timestamp::from_secs(60);
/// let admitted = [5_000, 0, 1].map(|cost| requests.try_acquire_at(now, cost).is_admitted());
/// assert_eq!(admitted, [true, true, false]);
/// # Ok::<_, leaparray::flow::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PerRequest<L>(L);

impl<L> PerRequest<L> {
    /// Creates a limiter of requests. Permits of a limiter that would borrow it refer to an
    /// [`Arc`](std::sync::Arc) of it.
    #[must_use]
    pub fn new<T: LimiterExt<Owned = L>>(limiter: T) -> Self {
        Self(limiter.into_owned())
    }

    /// Returns the limiter.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.0
    }
}

impl<L: Limiter> Limiter for PerRequest<L> {
    type Permit = L::Permit;

    fn decide(&self, ask: &Ask<'_>) -> Decision<L::Permit> {
        self.0.decide(&ask.many(1))
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.0.peek(&ask.many(1))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl<L: Limiter> Account for PerRequest<L> {
    fn now(&self) -> Timestamp {
        self.0.account().now()
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.0.account().quota(now)
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.0.account().each_quota(now, visit);
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        self.0.account().watched_at(now)
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.0.account().is_as_new(now)
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        self.0.account().refund(&ask.many(1), wait)
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.0.account().wake_on_answer(waker)
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.0.account().note_wait(permits)
    }
}
