//! A question to a limiter.

use std::fmt;

use super::Passed;
use crate::flow::contract::{Decision, Refusal, Retry};
use crate::node::Permit;
use crate::node::Reason;
use crate::time::Timestamp;

/// A question of a request to a limiter: at which time it asks, for how many permits, which node it
/// is about to enter, and whether it can wait.
///
/// The answer is a [`Decision`]: see [`LimiterExt::ask`](super::LimiterExt::ask). A [`Timestamp`]
/// converts into a question at that time for one permit.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{Ask, LeakyBucket, LimiterExt, Rate, Reason};
/// use std::time::Duration;
///
/// let pace = LeakyBucket::new(Rate::per_second(10)?, Duration::from_secs(1));
/// let ask = Ask::at(Timestamp::from_secs(60)).many(3);
/// assert_eq!((ask.permits(), ask.can_wait(), ask.node().is_none()), (3, true, true));
/// assert!(pace.ask(&ask).is_admitted());
/// assert_eq!(pace.ask(&ask).wait(), Duration::from_millis(300));
/// let refusal = pace.ask(&ask.at_once()).refusal().expect("it would have to wait");
/// assert_eq!(refusal.reason, Reason::WaitTooLong);
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    now: Timestamp,
    permits: u64,
    node: Option<&'a dyn Passed>,
    can_wait: bool,
    is_first: bool,
}

impl<'a> Ask<'a> {
    /// Creates the question of a request that asks at `now` for one permit, enters no node, and can
    /// wait.
    #[must_use]
    #[inline]
    pub const fn at(now: Timestamp) -> Self {
        Self { now, permits: 1, node: None, can_wait: true, is_first: true }
    }

    /// Asks for `permits` permits: all of them or none.
    #[must_use]
    #[inline]
    pub const fn many(self, permits: u64) -> Self {
        Self { permits, ..self }
    }

    /// Asks for a request that is about to enter `node`.
    #[must_use]
    #[inline]
    pub const fn over(self, node: &dyn Passed) -> Ask<'_> {
        let Self { now, permits, can_wait, is_first, .. } = self;
        Ask { now, permits, node: Some(node), can_wait, is_first }
    }

    /// Asks for a request that cannot wait. A limiter that paces takes no permits for one that
    /// would have to.
    #[must_use]
    #[inline]
    pub const fn at_once(self) -> Self {
        Self { can_wait: false, ..self }
    }

    /// Asks once more for a request that has asked or peeked before, or looks for one that is none.
    ///
    /// A [`WaitQueue`](crate::flow::WaitQueue) asks several times for a request, and both it and an
    /// [`AllOf`](crate::flow::AllOf) peek before they ask for a decision. So a limiter that counts
    /// the requests by which it was reached counts the questions that are the
    /// [first](Self::is_first).
    #[must_use]
    #[inline]
    pub const fn again(self) -> Self {
        Self { is_first: false, ..self }
    }

    /// Returns the time of the question.
    #[must_use]
    #[inline]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the number of permits.
    #[must_use]
    #[inline]
    pub const fn permits(&self) -> u64 {
        self.permits
    }

    /// Returns the node that the request is about to enter, if there is one.
    #[must_use]
    #[inline]
    pub const fn node(&self) -> Option<&'a dyn Passed> {
        self.node
    }

    /// Returns whether the request can wait.
    #[must_use]
    #[inline]
    pub const fn can_wait(&self) -> bool {
        self.can_wait
    }

    /// Returns whether this is the first question of its request, a decision or a peek, to the
    /// limiter; see [`again`](Self::again).
    ///
    /// In an [`AllOf`](crate::flow::AllOf) and in a [`WaitQueue`](crate::flow::WaitQueue), the
    /// first question is a [peek](crate::flow::Limiter::peek), also if the limiter cannot tell, and
    /// the decision is a later one. So a limiter that counts requests by their first questions
    /// implements [`peek`](crate::flow::Limiter::peek), and counts in it as well. One that
    /// implements only [`decide`](crate::flow::Limiter::decide) gets no first question there.
    #[must_use]
    #[inline]
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Returns this question as the first one of its request.
    #[inline]
    pub(in crate::flow) const fn first(self) -> Self {
        Self { is_first: true, ..self }
    }

    /// Returns this question at another time.
    #[inline]
    pub(in crate::flow) const fn with_now(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    /// Returns this question to the limit of a key, which has no node of its own, at another time.
    #[inline]
    pub(in crate::flow) const fn of_key(self, now: Timestamp) -> Ask<'static> {
        let Self { permits, can_wait, is_first, .. } = self;
        Ask { now, permits, node: None, can_wait, is_first }
    }

    /// Returns the decision on this question. If it is a wait and the request cannot wait, the
    /// permits are spent, and the permit is told that the request does not go ahead.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(in crate::flow) fn settled<P: Permit>(&self, decision: Decision<P>) -> Decision<P> {
        match decision {
            Decision::Wait(delayed) if !self.can_wait => {
                delayed.into_parts().0.withdraw_at(self.now);
                Decision::Refused(Refusal::new(Reason::WaitTooLong, Retry::Unknown))
            }
            decision => decision,
        }
    }
}

impl From<Timestamp> for Ask<'_> {
    #[inline]
    fn from(now: Timestamp) -> Self {
        Self::at(now)
    }
}

impl fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("now", &self.now)
            .field("permits", &self.permits)
            .field("has_node", &self.node.is_some())
            .field("can_wait", &self.can_wait)
            .field("is_first", &self.is_first)
            .finish()
    }
}
