//! The outcome of a request to a controller.

use std::ops::Deref;
use std::time::Duration;

use crate::flow::contract::{Refusal, Retry};
use crate::node::Reason;
use crate::node::{Entry, Permit, ResourceNode};
use crate::time::{Clock, Timestamp};

/// The outcome of a request to a controller: a permit, a permit after a wait, or a refusal.
///
/// `P` is the type of the permit. It is `()` for limiters that need no notice of the end of a
/// request.
///
/// A request that has to wait is not [admitted](Self::is_admitted) yet, and its permit is inside a
/// [`Delayed`]. So a caller that does not expect to wait cannot take one for the other. Code that
/// handles both calls [`sleep`](Self::sleep) on a thread, or [`Delayed::sleep_with`] on the
/// [result](Self::into_result) in a task. Code that cannot wait calls [`at_once`](Self::at_once).
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{Decision, LeakyBucket, LimiterExt, Rate};
/// use std::time::Duration;
///
/// let bucket = LeakyBucket::new(Rate::per_second(10)?, Duration::from_millis(50));
/// let t = Timestamp::from_millis;
/// assert_eq!(bucket.try_acquire_at(t(300), 1), Decision::Admitted(()));
/// let paced = bucket.try_acquire_at(t(350), 1);
/// assert!(!paced.is_admitted() && !paced.is_refused());
/// assert_eq!(paced, Decision::after((), Duration::from_millis(50)));
/// let refusal =
///     bucket.try_acquire_at(t(360), 1).refusal().expect("it would have to wait 140 ms");
/// assert_eq!(refusal.retry_at(), Some(t(450)));
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "ignoring the decision bypasses the controller"]
pub enum Decision<P = ()> {
    /// The request may go ahead.
    Admitted(P),
    /// The request may go ahead after a wait. Its permits are already taken, and are not given
    /// back.
    Wait(Delayed<P>),
    /// The request may not go ahead. No permit was taken.
    Refused(Refusal),
}

/// A permit that may be used after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the permit is taken, and the request may go ahead after the wait"]
pub struct Delayed<P> {
    permit: P,
    wait: Duration,
}

impl<P> Delayed<P> {
    /// Returns the time to wait before the request goes ahead.
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// Returns the permit and the wait. The caller has to wait.
    #[must_use]
    pub fn into_parts(self) -> (P, Duration) {
        (self.permit, self.wait)
    }
}

impl<P> Decision<P> {
    /// Creates the decision of a request that may go ahead after `wait`, or at once if `wait` is
    /// zero.
    ///
    /// ```
    /// use leaparray::flow::Decision;
    /// use std::time::Duration;
    ///
    /// let wait = Duration::from_millis(5);
    /// let delayed = Decision::after("permit", wait).into_result()?;
    /// assert_eq!((delayed.wait(), delayed.into_parts()), (wait, ("permit", wait)));
    /// assert!(Decision::after("permit", Duration::ZERO).is_admitted());
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[inline]
    pub fn after(permit: P, wait: Duration) -> Self {
        if wait.is_zero() { Self::Admitted(permit) } else { Self::Wait(Delayed { permit, wait }) }
    }

    /// Returns whether the request may go ahead at once.
    #[inline]
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted(_))
    }

    /// Returns whether the request may not go ahead, neither at once nor after a wait. A request
    /// that is not refused may still have to wait.
    #[inline]
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Returns the time to wait before the request goes ahead. It is zero if the request is
    /// admitted at once, or refused.
    pub const fn wait(&self) -> Duration {
        match self {
            Self::Wait(delayed) => delayed.wait,
            Self::Admitted(_) | Self::Refused(_) => Duration::ZERO,
        }
    }

    /// Returns the refusal; `None` if the request may go ahead, at once or after a wait.
    #[inline]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Admitted(_) | Self::Wait(_) => None,
        }
    }

    /// Returns the same decision, with the permit that `make` returns for its permit. If the
    /// request has to wait, the new permit is inside the [`Delayed`] as well, and the wait is still
    /// due: `make` should not begin the request.
    #[inline]
    pub fn map<Q>(self, make: impl FnOnce(P) -> Q) -> Decision<Q> {
        match self {
            Self::Admitted(permit) => Decision::Admitted(make(permit)),
            Self::Wait(Delayed { permit, wait }) => {
                Decision::Wait(Delayed { permit: make(permit), wait })
            }
            Self::Refused(refusal) => Decision::Refused(refusal),
        }
    }

    /// Records the decision in a node: enters the request at `now` with `permits` permits, or
    /// counts it as blocked, with its reason. The entry ends the permit of the controller.
    ///
    /// A request that has to wait has entered. Its wait is part of its response time.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, LimiterExt, Rate, Reason};
    /// use leaparray::{
    ///     Clock, ManualClock, MetricEvent, NodeConfig, Outcome, ResourceNode, Timestamp,
    /// };
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let pace = LeakyBucket::new(Rate::per_second(10)?, Duration::from_millis(100));
    /// for _ in 0..3 {
    ///     let now = clock.now();
    ///     let decision = pace.try_acquire_at(now, 1).enter_many_at(&node, now, 1);
    ///     let wait = decision.wait();
    ///     decision.map(|entry| entry.end_at(now.saturating_add(wait), Outcome::Success));
    /// }
    /// assert_eq!(node.now().long().sum(MetricEvent::Pass), 2);
    /// assert_eq!(node.now().long().sum(MetricEvent::Block), 1);
    /// assert_eq!(node.refusals()[Reason::WaitTooLong], 1);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, it moves the entry")]
    pub fn enter_many_at<N, C>(
        self,
        node: N,
        now: Timestamp,
        permits: u64,
    ) -> Decision<Entry<N, C, P>>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
        P: Permit,
    {
        match self {
            Self::Admitted(permit) => {
                Decision::Admitted(Entry::with_permit(node, now, permits, permit))
            }
            other => other.enter_late_at(node, now, permits),
        }
    }

    /// Records a decision that does not admit the request at once.
    #[cold]
    fn enter_late_at<N, C>(self, node: N, now: Timestamp, permits: u64) -> Decision<Entry<N, C, P>>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
        P: Permit,
    {
        if let Self::Refused(refusal) = &self {
            refusal.count_at(&node, now, permits);
        }
        self.map(|permit| Entry::with_permit(node, now, permits, permit))
    }

    /// Returns the permit, for a caller that cannot wait.
    ///
    /// To enter a node without a wait, use
    /// [`LimiterExt::try_enter`](crate::flow::LimiterExt::try_enter): an entry that has to wait has
    /// entered its node already.
    ///
    /// # Errors
    ///
    /// Returns the refusal. A request that would have to wait is refused for the reason
    /// [`Reason::WaitTooLong`]; its permits are spent.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, LimiterExt, Rate, Reason};
    /// use std::time::Duration;
    ///
    /// let pace = LeakyBucket::new(Rate::per_second(1)?, Duration::from_secs(5));
    /// assert!(pace.try_acquire().at_once().is_ok());
    /// let refusal = pace.try_acquire().at_once().unwrap_err();
    /// assert_eq!(refusal.reason, Reason::WaitTooLong);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    #[inline]
    pub fn at_once(self) -> Result<P, Refusal>
    where
        P: Permit,
    {
        match self {
            Self::Admitted(permit) => Ok(permit),
            Self::Wait(_) => Err(Refusal::new(Reason::WaitTooLong, Retry::Unknown)),
            Self::Refused(refusal) => Err(refusal),
        }
    }

    /// Returns the permit, with the time to wait before the request goes ahead.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    #[inline]
    pub fn into_result(self) -> Result<Delayed<P>, Refusal> {
        match self {
            Self::Admitted(permit) => Ok(Delayed { permit, wait: Duration::ZERO }),
            Self::Wait(delayed) => Ok(delayed),
            Self::Refused(refusal) => Err(refusal),
        }
    }
}
