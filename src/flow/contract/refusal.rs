//! A refusal, and when to ask again.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::collections::NameId;
use crate::node::{Reason, ResourceNode};
use crate::time::{Clock, Timestamp};

/// The reason for which a request was refused, and the time from which the caller may ask again.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// The time of [`Retry::At`], and else 0.
    time: Timestamp,
    kind: RetryKind,
    limiter: Option<NameId>,
}

/// A decision is copied several times on its way to the caller, so a refusal has no word to spare.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Refusal>() == 40);

/// A [`Retry`] without its time, beside which the name of the limiter finds room. As wide as the
/// name: a byte takes some decisions an instruction more.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum RetryKind {
    At,
    /// [`Retry::At`], of a limiter whose permits come by time alone, one after the other.
    Due,
    /// [`Retry::At`], unless permits are given back before.
    AtLatest,
    OnAnswer,
    Unknown,
    Never,
}

/// When a refused request can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// At this time at the earliest. At that time, another request may be first. Before that time,
    /// asking again can succeed only if the decision is random, or if the limit was raised.
    At(Timestamp),
    /// When the limiter has an answer from elsewhere, as from a server, that it has asked for: it
    /// then knows whether the permits are there. The time is not known. A limiter that refuses with
    /// this implements [`wake_on_answer`](crate::flow::Account::wake_on_answer).
    OnAnswer,
    /// At a time that is not known.
    Unknown,
    /// Never: the request asks for more than the limiter can ever admit, or it could succeed only
    /// after the end of time.
    Never,
}

impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.reason, it.retry(), it.limiter);
        parts(self) == parts(other)
    }
}

impl Eq for Refusal {}

impl Refusal {
    /// Creates a refusal for that reason. For a [`Limiter`](crate::flow::Limiter) of your own.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{Ask, Decision, Limiter, LimiterExt, Reason, Refusal, Retry};
    ///
    /// /// Refuses every request before it opens.
    /// struct Opening {
    ///     at: Timestamp,
    /// }
    ///
    /// impl Limiter for Opening {
    ///     type Permit = ();
    ///
    ///     fn decide(&self, ask: &Ask<'_>) -> Decision {
    ///         if ask.permits() == 0 || ask.now() >= self.at {
    ///             return Decision::Admitted(());
    ///         }
    ///         Decision::Refused(Refusal::new(
    ///             Reason::Custom("not open yet"),
    ///             Retry::At(self.at),
    ///         ))
    ///     }
    /// }
    ///
    /// let opening = Opening { at: Timestamp::from_secs(60) };
    /// let refusal = opening.try_acquire_at(Timestamp::from_secs(59), 1).refusal();
    /// assert_eq!(
    ///     refusal.and_then(|refusal| refusal.retry_at()),
    ///     Some(Timestamp::from_secs(60))
    /// );
    /// ```
    #[must_use]
    #[inline]
    pub const fn new(reason: Reason, retry: Retry) -> Self {
        let (kind, time) = match retry {
            Retry::At(time) => (RetryKind::At, time),
            Retry::OnAnswer => (RetryKind::OnAnswer, Timestamp::from_nanos(0)),
            Retry::Unknown => (RetryKind::Unknown, Timestamp::from_nanos(0)),
            Retry::Never => (RetryKind::Never, Timestamp::from_nanos(0)),
        };
        Self { reason, time, kind, limiter: None }
    }

    /// Returns the refusal for another reason.
    pub(in crate::flow) const fn because(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    /// Returns the refusal with the name of the limiter, unless it has one.
    #[inline]
    pub(super) fn named_by(self, name: NameId) -> Self {
        Self { limiter: self.limiter.or(Some(name)), ..self }
    }

    /// Returns the refusal of a request for more permits than a limiter can ever admit at once.
    pub(crate) const fn never() -> Self {
        Self::new(Reason::MoreThanLimit, Retry::Never)
    }

    /// Returns the refusal of a request that can succeed at `time`; `None` is a time after the end
    /// of time.
    #[inline]
    pub(crate) const fn until(reason: Reason, time: Option<Timestamp>) -> Self {
        let retry = match time {
            Some(time) => Retry::At(time),
            None => Retry::Never,
        };
        Self::new(reason, retry)
    }

    /// Returns the refusal of a request whose permits come at `time`, of a limiter whose permits
    /// come by time alone, one after the other.
    #[inline]
    pub(in crate::flow) const fn due(reason: Reason, time: Timestamp) -> Self {
        Self { reason, time, kind: RetryKind::Due, limiter: None }
    }

    /// Returns whether the retry time is the time at which the permits come: a request that was
    /// first in line then may ask for that time later on, and the permits after it come no later.
    #[inline]
    pub(in crate::flow) const fn is_due(&self) -> bool {
        matches!(self.kind, RetryKind::Due)
    }

    /// Returns the refusal of a request for which there is room at `time`, or earlier if permits
    /// are given back until then.
    pub(in crate::flow) const fn at_latest(reason: Reason, time: Timestamp) -> Self {
        Self { reason, time, kind: RetryKind::AtLatest, limiter: None }
    }

    /// Returns whether the request can succeed before its retry time, if permits are given back.
    pub(in crate::flow) const fn is_at_latest(&self) -> bool {
        matches!(self.kind, RetryKind::AtLatest)
    }

    /// Returns the refusal of a combination: its other limiters must not be asked for a time that
    /// has passed.
    pub(in crate::flow) const fn of_combination(self) -> Self {
        match self.kind {
            RetryKind::Due => Self { kind: RetryKind::At, ..self },
            _ => self,
        }
    }

    /// Returns when asking again can succeed.
    #[must_use]
    #[inline]
    pub const fn retry(&self) -> Retry {
        match self.kind {
            RetryKind::At | RetryKind::Due | RetryKind::AtLatest => Retry::At(self.time),
            RetryKind::OnAnswer => Retry::OnAnswer,
            RetryKind::Unknown => Retry::Unknown,
            RetryKind::Never => Retry::Never,
        }
    }

    /// Returns the refusal with a later [time](Self::retry_at) to ask again, if it names one. So
    /// clients that were refused together need not return together.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{Reason, Refusal, Retry};
    /// use std::time::Duration;
    ///
    /// let t = Timestamp::from_secs;
    /// let refusal = Refusal::new(Reason::LimitReached, Retry::At(t(60)));
    /// assert_eq!(refusal.postponed(Duration::from_secs(3)).retry_at(), Some(t(63)));
    /// ```
    #[must_use]
    pub fn postponed(self, by: Duration) -> Self {
        match self.kind {
            RetryKind::At | RetryKind::Due | RetryKind::AtLatest => {
                Self { time: self.time.saturating_add(by), kind: RetryKind::At, ..self }
            }
            RetryKind::OnAnswer | RetryKind::Unknown | RetryKind::Never => self,
        }
    }

    /// Returns the name of the limiter that refused, if it
    /// [has one](crate::flow::LimiterExt::named): the innermost one, as for a
    /// [quota](crate::flow::Quota::name).
    #[must_use]
    pub fn limiter(&self) -> Option<&'static str> {
        self.limiter.map(NameId::name)
    }

    /// Counts the refused request of `permits` permits in a node: as
    /// [blocks](crate::MetricEvent::Block), by its reason, and by the [name](Self::limiter) of the
    /// limiter, if that has one.
    ///
    /// [`LimiterExt::try_enter`](crate::flow::LimiterExt::try_enter) and
    /// [`Decision::enter_many_at`](crate::flow::Decision::enter_many_at) do so.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, Rate, Reason, TokenBucket};
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode, Timestamp};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// let orders = TokenBucket::new(Rate::per_minute(1)?, 1).named("orders");
    /// let now = Timestamp::from_secs(60);
    /// let refusal = orders.try_acquire_at(now, 2).refusal().expect("it holds one token");
    /// refusal.count_at(&node, now, 2);
    /// assert_eq!(node.refused_by().get("orders"), 2);
    /// assert_eq!(node.refusals()[Reason::MoreThanLimit], 2);
    /// assert_eq!(node.lifetime().sum(MetricEvent::Block), 2);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    pub fn count_at<C: Clock + Clone>(&self, node: &ResourceNode<C>, now: Timestamp, permits: u64) {
        node.refuse_by(now, permits, self.reason, self.limiter);
    }

    /// Returns the earliest time at which asking again can succeed; `None` if it is not known, or
    /// if there is none.
    #[must_use]
    pub const fn retry_at(&self) -> Option<Timestamp> {
        match self.retry() {
            Retry::At(time) => Some(time),
            Retry::OnAnswer | Retry::Unknown | Retry::Never => None,
        }
    }

    /// Returns the time from `now` until asking again can succeed, rounded up to whole seconds: the
    /// value of the HTTP header `Retry-After`. `None` if it is not known, or if there is none:
    /// [`retry`](Self::retry) tells which.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{Reason, Refusal, Retry};
    /// use std::time::Duration;
    ///
    /// let refusal =
    ///     Refusal::new(Reason::LimitReached, Retry::At(Timestamp::from_millis(61_200)));
    /// let retry_after =
    ///     refusal.retry_after(Timestamp::from_secs(60)).expect("the time is known");
    /// assert_eq!(retry_after, Duration::from_secs(2));
    /// assert_eq!(format!("Retry-After: {}", retry_after.as_secs()), "Retry-After: 2");
    /// ```
    #[must_use]
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        Some(ceil_seconds(self.retry_at()?.saturating_since(now)))
    }
}

/// Returns a time in seconds, rounded up.
pub(in crate::flow) const fn ceil_seconds(time: Duration) -> Duration {
    // Does not overflow: the time between two timestamps is at most 585 years.
    Duration::from_secs(time.as_secs() + (time.subsec_nanos() > 0) as u64)
}

#[expect(clippy::missing_fields_in_debug, reason = "`retry` and `limiter` have them")]
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("reason", &self.reason)
            .field("retry", &self.retry())
            .field("limiter", &self.limiter())
            .finish()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limiter() {
            Some(name) => write!(f, "refused by {name}: {}", self.reason)?,
            None => write!(f, "refused: {}", self.reason)?,
        }
        match self.retry() {
            Retry::At(time) => write!(f, ", until {time} at least"),
            Retry::Never => f.write_str(", and will always be"),
            Retry::OnAnswer => f.write_str(", until an answer arrives at least"),
            Retry::Unknown => Ok(()),
        }
    }
}

impl Error for Refusal {}
