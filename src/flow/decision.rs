//! The outcome of a request to a controller.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::node::{Entry, ResourceNode};
use crate::time::{Clock, Timestamp};

/// The outcome of a request to a controller: a permit, a permit after a wait, or a refusal.
///
/// `P` is the type of the permit. It is `()` for limiters that need no notice of the end of a request.
///
/// ```
/// use leaparray::flow::{Decision, LeakyBucket, Limiter, Rate};
/// use leaparray::Timestamp;
/// use std::time::Duration;
///
/// let bucket = LeakyBucket::new(Rate::new(10, Duration::from_secs(1))?, Duration::from_millis(50));
/// let t = Timestamp::from_millis;
/// assert_eq!(bucket.try_acquire_at(t(300), 1), Decision::Admitted(()));
/// assert_eq!(bucket.try_acquire_at(t(350), 1), Decision::Wait((), Duration::from_millis(50)));
/// let refusal = bucket.try_acquire_at(t(360), 1).refusal().expect("it would have to wait 140 ms");
/// assert_eq!(refusal.retry_at, Some(t(450)));
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "ignoring the decision bypasses the controller"]
pub enum Decision<P = ()> {
    /// The request may go ahead.
    Admitted(P),
    /// The request may go ahead after this time. Its permits are already taken, and are not given back.
    Wait(P, Duration),
    /// The request may not go ahead. No permit was taken.
    Refused(Refusal),
}

impl<P> Decision<P> {
    /// Returns whether the request may go ahead, at once or after a wait.
    #[inline]
    pub const fn is_admitted(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// Returns the time to wait before the request goes ahead. It is zero if the request is admitted at once, or
    /// refused.
    pub const fn wait(&self) -> Duration {
        match self {
            Self::Wait(_, wait) => *wait,
            Self::Admitted(_) | Self::Refused(_) => Duration::ZERO,
        }
    }

    /// Returns the refusal; `None` if the request may go ahead.
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Admitted(_) | Self::Wait(..) => None,
        }
    }

    /// Returns the same decision, with the permit that `make` returns for its permit.
    #[inline]
    pub fn map<Q>(self, make: impl FnOnce(P) -> Q) -> Decision<Q> {
        match self {
            Self::Admitted(permit) => Decision::Admitted(make(permit)),
            Self::Wait(permit, wait) => Decision::Wait(make(permit), wait),
            Self::Refused(refusal) => Decision::Refused(refusal),
        }
    }

    /// Records the decision in a node: enters the request at `now` with `permits` permits, or counts it as blocked.
    ///
    /// A request that has to wait has entered. Its wait is part of its response time.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, Limiter, Rate};
    /// use leaparray::{Clock, ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let pace = LeakyBucket::new(Rate::new(10, Duration::from_secs(1))?, Duration::from_millis(100));
    /// for _ in 0..3 {
    ///     let now = clock.now();
    ///     let decision = pace.try_acquire_at(now, 1).enter_many_at(&node, now, 1);
    ///     if let Ok(((entry, ()), wait)) = decision.into_result() {
    ///         entry.success_at(now.saturating_add(wait));
    ///     }
    /// }
    /// assert_eq!(node.long_sum(MetricEvent::Pass), 2);
    /// assert_eq!(node.long_sum(MetricEvent::Block), 1);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    #[inline]
    pub fn enter_many_at<N, C>(
        self,
        node: N,
        now: Timestamp,
        permits: u64,
    ) -> Decision<(Entry<N, C>, P)>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        match self {
            Self::Admitted(permit) => {
                Decision::Admitted((Entry::enter_many_at(node, now, permits), permit))
            }
            Self::Wait(permit, wait) => {
                Decision::Wait((Entry::enter_many_at(node, now, permits), permit), wait)
            }
            Self::Refused(refusal) => {
                node.block_many_at(now, permits);
                Decision::Refused(refusal)
            }
        }
    }

    /// Returns the permit, and the time to wait before the request goes ahead.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    #[inline]
    pub fn into_result(self) -> Result<(P, Duration), Refusal> {
        match self {
            Self::Admitted(permit) => Ok((permit, Duration::ZERO)),
            Self::Wait(permit, wait) => Ok((permit, wait)),
            Self::Refused(refusal) => Err(refusal),
        }
    }
}

/// The reason for which a request was refused, and the time from which the caller may ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// The earliest time at which asking again can succeed; `None` if no such time is known, or if the request can
    /// never succeed. At that time, another request may be first. Before that time, asking again can succeed only if
    /// the decision is random, or if the limit was raised.
    pub retry_at: Option<Timestamp>,
}

impl Refusal {
    /// Creates a refusal for that reason, with the earliest time at which asking again can succeed. For a
    /// [`Limiter`](super::Limiter) of your own.
    ///
    /// ```
    /// use leaparray::flow::{Decision, Limiter, Reason, Refusal};
    /// use leaparray::{Clock, MonotonicClock, Timestamp};
    ///
    /// /// Refuses every request before it opens.
    /// struct Opening {
    ///     at: Timestamp,
    ///     clock: MonotonicClock,
    /// }
    ///
    /// impl Limiter for Opening {
    ///     fn now(&self) -> Timestamp {
    ///         self.clock.now()
    ///     }
    ///
    ///     fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
    ///         if permits == 0 || now >= self.at {
    ///             return Decision::Admitted(());
    ///         }
    ///         Decision::Refused(Refusal::new(Reason::LimitReached, Some(self.at)))
    ///     }
    /// }
    ///
    /// let opening = Opening { at: Timestamp::from_secs(60), clock: MonotonicClock::new() };
    /// let refusal = opening.try_acquire_at(Timestamp::from_secs(59), 1).refusal();
    /// assert_eq!(refusal.and_then(|refusal| refusal.retry_at), Some(Timestamp::from_secs(60)));
    /// ```
    #[must_use]
    pub const fn new(reason: Reason, retry_at: Option<Timestamp>) -> Self {
        Self { reason, retry_at }
    }

    /// Returns the refusal of a request for more permits than a limiter can ever admit at once.
    pub(crate) const fn never() -> Self {
        Self::new(Reason::MoreThanLimit, None)
    }
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The limit is reached.
    LimitReached,
    /// The request would have to wait longer than the maximum.
    WaitTooLong,
    /// The request asks for more permits than the current limit ever allows at once.
    MoreThanLimit,
    /// The backend fails too often.
    Failing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LimitReached => "the limit is reached",
            Self::WaitTooLong => "the wait would be too long",
            Self::MoreThanLimit => "the request asks for more than the limit",
            Self::Failing => "the backend fails too often",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {}", self.reason)?;
        match self.retry_at {
            Some(retry_at) => write!(f, ", until {retry_at} at least"),
            None => Ok(()),
        }
    }
}

impl Error for Refusal {}
