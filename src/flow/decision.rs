//! What a request is told.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::node::{Entry, ResourceNode};
use crate::time::{Clock, Timestamp};

/// What a request is told, and what it holds while it goes ahead, if that is anything.
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
#[must_use = "who does not look at it goes ahead unasked"]
pub enum Decision<P = ()> {
    /// Go ahead.
    Admitted(P),
    /// Go ahead after so long. What it takes is taken already, and is not given back.
    Wait(P, Duration),
    /// Do not go ahead. Nothing was taken.
    Refused(Refusal),
}

impl<P> Decision<P> {
    /// Whether it may go ahead, now or after a wait.
    #[inline]
    pub const fn is_admitted(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// How long to wait before going ahead: zero if it need not, or may not at all.
    pub const fn wait(&self) -> Duration {
        match self {
            Self::Wait(_, wait) => *wait,
            Self::Admitted(_) | Self::Refused(_) => Duration::ZERO,
        }
    }

    /// Why it may not go ahead; `None` if it may.
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Admitted(_) | Self::Wait(..) => None,
        }
    }

    /// The same with something else to hold.
    #[inline]
    pub fn map<Q>(self, make: impl FnOnce(P) -> Q) -> Decision<Q> {
        match self {
            Self::Admitted(permit) => Decision::Admitted(make(permit)),
            Self::Wait(permit, wait) => Decision::Wait(make(permit), wait),
            Self::Refused(refusal) => Decision::Refused(refusal),
        }
    }

    /// Has the resource know: lets the request in at `now`, as one of so many permits, or counts it as blocked.
    ///
    /// Who is to wait has entered, and what it waits is part of its response time.
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
    /// assert_eq!(node.minute_sum(MetricEvent::Pass), 2);
    /// assert_eq!(node.minute_sum(MetricEvent::Block), 1);
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

    /// What it holds, and how long it is to wait before it goes ahead.
    ///
    /// # Errors
    ///
    /// The refusal.
    #[inline]
    pub fn into_result(self) -> Result<(P, Duration), Refusal> {
        match self {
            Self::Admitted(permit) => Ok((permit, Duration::ZERO)),
            Self::Wait(permit, wait) => Ok((permit, wait)),
            Self::Refused(refusal) => Err(refusal),
        }
    }
}

/// Why a request may not go ahead, and when it may ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The earliest time at which it can make sense to ask again; `None` if no time is known before which
    /// it makes none, or if it never will. Somebody else may be faster then; and what is decided by chance,
    /// or by a limit that has been raised meanwhile, may come out otherwise before.
    pub retry_at: Option<Timestamp>,
}

impl Refusal {
    /// For that reason, and not worth asking again before such a time: what a [`Limiter`](super::Limiter) of
    /// your own refuses with.
    ///
    /// ```
    /// use leaparray::flow::{Decision, Limiter, Reason, Refusal};
    /// use leaparray::{Clock, MonotonicClock, Timestamp};
    ///
    /// /// Admits nobody before it opens.
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

    /// Of who asks for more than there can ever be at once.
    pub(crate) const fn never() -> Self {
        Self::new(Reason::MoreThanLimit, None)
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// So many have been admitted already.
    LimitReached,
    /// It would have to wait longer than anybody may.
    WaitTooLong,
    /// It asks for more permits than there can ever be at once, as the limit is now.
    MoreThanLimit,
    /// What it is for fails too often.
    Failing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LimitReached => "the limit is reached",
            Self::WaitTooLong => "the wait would be too long",
            Self::MoreThanLimit => "it is more than the limit",
            Self::Failing => "too much of it fails",
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
