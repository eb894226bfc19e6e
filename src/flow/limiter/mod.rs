//! The trait of limiters.

mod forward;
mod named;

use std::ops::Deref;
use std::task::Waker;
use std::time::Duration;

use super::{Decision, Quota, Reason, Refusal, Retry, WatchedState};
use crate::node::{Entry, Outcome, Permit, ResourceNode};
use crate::time::{Clock, Timestamp};
use forward::Boxed;
pub use named::Named;

/// A controller that hands out permits. Code that works with any limiter is generic over this
/// trait.
///
/// Limiters of rates have the permit `()`. A [`ConcurrencyLimiter`](super::ConcurrencyLimiter) and
/// an [`AdaptiveBreaker`](super::AdaptiveBreaker) hand out permits that refer to them, so the trait
/// is implemented for references to them: `&ConcurrencyLimiter` and `Arc<ConcurrencyLimiter>`.
///
/// ```
/// use leaparray::flow::{LeakyBucket, Limiter, Rate, TokenBucket};
/// use std::time::Duration;
///
/// fn limiter(
///     name: &str,
///     rate: Rate,
/// ) -> Option<Box<dyn Limiter<Permit = ()> + Send + Sync>> {
///     match name {
///         "pace" => Some(Box::new(LeakyBucket::new(rate, Duration::from_millis(500)))),
///         "burst" => Some(Box::new(TokenBucket::new(rate, 20))),
///         _ => None,
///     }
/// }
/// let limiter = limiter("burst", Rate::per_second(10)?).expect("there is one");
/// assert!(limiter.try_acquire_many(20).is_admitted());
/// assert!(limiter.try_acquire().is_refused());
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
///
/// [`boxed`](Self::boxed) makes a limiter of any kind, whatever its permit, an element of one
/// collection.
pub trait Limiter {
    /// The permit of an admitted request: see [`Permit`].
    type Permit: Permit;

    /// Returns the time of the limiter's clock. A limiter whose decisions do not depend on the time
    /// may return [`Timestamp::MIN`].
    fn now(&self) -> Timestamp;

    /// Asks for `permits` permits at `now`: all of them or none. A limiter of permits admits a
    /// request for 0 of them.
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision<Self::Permit>;

    /// Asks for one permit. Reads the clock once.
    #[inline]
    fn try_acquire(&self) -> Decision<Self::Permit> {
        self.try_acquire_many(1)
    }

    /// Asks for `permits` permits: all of them or none. Reads the clock once.
    #[inline]
    fn try_acquire_many(&self, permits: u64) -> Decision<Self::Permit> {
        self.try_acquire_at(self.now(), permits)
    }

    /// Asks for `permits` permits at `now`, for a request that is about to enter `node`. A limiter
    /// that also counts the requests that entered the node directly overrides this.
    #[inline]
    fn try_acquire_for(
        &self,
        _node: &dyn Passed,
        now: Timestamp,
        permits: u64,
    ) -> Decision<Self::Permit> {
        self.try_acquire_at(now, permits)
    }

    /// Asks for `permits` permits at `now`, for a request that cannot wait, and that is about to
    /// enter `node`, if there is one. A limiter that paces overrides this with a decision that
    /// takes no permits for a request that would have to wait. By default, they are spent, the
    /// permit is told that the request was cancelled, and the time to ask again is unknown. A
    /// [`WaitQueue`](super::WaitQueue) asks by this method.
    #[inline]
    fn try_acquire_at_once(
        &self,
        node: Option<&dyn Passed>,
        now: Timestamp,
        permits: u64,
    ) -> Decision<Self::Permit> {
        let decision = match node {
            Some(node) => self.try_acquire_for(node, now, permits),
            None => self.try_acquire_at(now, permits),
        };
        match decision {
            Decision::Wait(delayed) => {
                delayed.into_parts().0.end_at(now, Outcome::Cancelled);
                Decision::Refused(Refusal::new(Reason::WaitTooLong, Retry::Unknown))
            }
            decision => decision,
        }
    }

    /// Returns the decision that a request for `permits` permits would get at `now`, and takes no
    /// permits. `None` if the limiter cannot tell, as a limiter that decides at random.
    ///
    /// If another request takes permits in between, the decision of
    /// [`try_acquire_at`](Self::try_acquire_at) may differ.
    fn peek_at(&self, _now: Timestamp, _permits: u64) -> Option<Decision> {
        None
    }

    /// Gives back the permits of a request that [`try_acquire_at`](Self::try_acquire_at) has
    /// admitted at `now`, or admitted after `wait`, and that will not go ahead. Returns whether
    /// they were given back. By default, they are not.
    ///
    /// For limiters whose permit is `()`. Other permits are given back when they are dropped.
    fn refund_at(&self, _now: Timestamp, _permits: u64, _wait: Duration) -> bool {
        false
    }

    /// Wakes `waker` once, when the next answer from elsewhere is there: see
    /// [`Retry::OnAnswer`](super::Retry::OnAnswer). Returns whether an answer is to come. If none
    /// is, the answer for which a request was refused has come since: it asks again at once. So no
    /// answer is missed, and a request asks once for each answer. A waker that is registered again
    /// is kept once.
    ///
    /// By default, no answer is to come: most limiters never refuse with `OnAnswer`. A limiter that
    /// contains others passes the call on to each. This call must not wake `waker`: its
    /// caller may hold a lock.
    fn wake_on_answer(&self, _waker: &Waker) -> bool {
        false
    }

    /// Enters a request into a node, or refuses it and counts it there as blocked, at the time of
    /// the node's clock. The entry ends the permit: a breaker is told whether the request
    /// succeeded, and a concurrency limiter gets its permit back.
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, Limiter};
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// let limiter = ConcurrencyLimiter::new(1);
    /// let entry = limiter.try_enter(&node)?;
    /// assert!(limiter.try_enter(&node).is_err());
    /// entry.success();
    /// assert_eq!((limiter.in_use(), node.now().long().sum(MetricEvent::Block)), (0, 1));
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[inline]
    fn enter<N, C>(&self, node: N) -> Decision<Entry<N, C, Self::Permit>>
    where
        Self: Sized,
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        let now = node.clock().now();
        self.enter_many_at(node, now, 1)
    }

    /// Like [`enter`](Self::enter), at `now`.
    #[inline]
    fn enter_at<N, C>(&self, node: N, now: Timestamp) -> Decision<Entry<N, C, Self::Permit>>
    where
        Self: Sized,
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        self.enter_many_at(node, now, 1)
    }

    /// Like [`enter`](Self::enter), at `now`, for a request of `permits` permits.
    #[inline]
    fn enter_many_at<N, C>(
        &self,
        node: N,
        now: Timestamp,
        permits: u64,
    ) -> Decision<Entry<N, C, Self::Permit>>
    where
        Self: Sized,
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        self.try_acquire_for(&*node, now, permits).enter_many_at(node, now, permits)
    }

    /// Like [`enter`](Self::enter), for a request of `permits` permits.
    #[inline]
    fn enter_many<N, C>(&self, node: N, permits: u64) -> Decision<Entry<N, C, Self::Permit>>
    where
        Self: Sized,
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        let now = node.clock().now();
        self.enter_many_at(node, now, permits)
    }

    /// Enters a request into a node, for a caller that cannot wait, at the time of the node's
    /// clock; see [`try_enter_many_at`](Self::try_enter_many_at).
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, Limiter, Rate, Reason};
    /// use leaparray::{MetricEvent, NodeConfig, ResourceNode};
    /// use std::time::Duration;
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// let pace = LeakyBucket::new(Rate::per_minute(1)?, Duration::from_secs(3_600));
    /// pace.try_enter(&node)?.success();
    /// let refusal = pace.try_enter(&node).unwrap_err();
    /// assert_eq!(refusal.reason, Reason::WaitTooLong);
    /// let sum = |event| node.now().long().sum(event);
    /// assert_eq!((sum(MetricEvent::Pass), sum(MetricEvent::Block)), (1, 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    fn try_enter<N, C>(&self, node: N) -> Result<Entry<N, C, Self::Permit>, Refusal>
    where
        Self: Sized,
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        let now = node.clock().now();
        self.try_enter_many_at(node, now, 1)
    }

    /// Like [`try_enter`](Self::try_enter), at `now`.
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    #[inline]
    fn try_enter_at<N, C>(
        &self,
        node: N,
        now: Timestamp,
    ) -> Result<Entry<N, C, Self::Permit>, Refusal>
    where
        Self: Sized,
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        self.try_enter_many_at(node, now, 1)
    }

    /// Enters a request of `permits` permits into a node at `now`, or counts it there as blocked:
    /// it is refused by the limiter, or would have to wait.
    ///
    /// # Errors
    ///
    /// Returns the refusal. A request that would have to wait is refused for the reason
    /// [`WaitTooLong`](super::Reason::WaitTooLong). A [`LeakyBucket`](super::LeakyBucket) takes no
    /// permits for it, and refuses it until it would be due.
    #[inline]
    fn try_enter_many_at<N, C>(
        &self,
        node: N,
        now: Timestamp,
        permits: u64,
    ) -> Result<Entry<N, C, Self::Permit>, Refusal>
    where
        Self: Sized,
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        match self.try_acquire_at_once(Some(&*node), now, permits).at_once() {
            Ok(permit) => Ok(Entry::with_permit(node, now, permits, permit)),
            Err(refusal) => {
                node.refuse_many_at(now, permits, refusal.reason);
                Err(refusal)
            }
        }
    }

    /// Returns the state of the limit now; see [`quota_at`](Self::quota_at).
    fn quota(&self) -> Option<Quota> {
        self.quota_at(self.now())
    }

    /// Returns the limit, the permits that remain at `now`, and the time at which all of them
    /// remain again; `None` if the limiter has no such numbers.
    fn quota_at(&self, _now: Timestamp) -> Option<Quota> {
        None
    }

    /// Calls `visit` with the state of each limit of which the limiter consists: of its only one by
    /// [`quota_at`](Self::quota_at), or of each in a combination such as [`AllOf`](super::AllOf). A
    /// limiter that wraps others forwards the call.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{AllOf, FixedWindowLimiter, Limiter};
    /// use std::time::Duration;
    ///
    /// let [minute, hour] = [60, 3_600].map(Duration::from_secs);
    /// let both = AllOf::new((
    ///     FixedWindowLimiter::new(minute, 10)?.named("minute"),
    ///     FixedWindowLimiter::new(hour, 100)?.named("hour"),
    /// ));
    /// let now = Timestamp::from_secs(7_200);
    /// assert!(both.try_acquire_at(now, 1).is_admitted());
    /// let mut quotas = Vec::new();
    /// both.each_quota_at(now, &mut |quota| quotas.push((quota.name, quota.remaining)));
    /// assert_eq!(quotas, [(Some("minute"), 9), (Some("hour"), 99)]);
    /// # Ok::<_, leaparray::flow::LimitError>(())
    /// ```
    fn each_quota_at(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        if let Some(quota) = self.quota_at(now) {
            visit(quota);
        }
    }

    /// Returns the state that a monitor shows of the limiter at `now`: see
    /// [`Registry::watch`](crate::Registry::watch). By default, that is the
    /// [quota](Self::quota_at), if there is one.
    fn watched_at(&self, now: Timestamp) -> WatchedState {
        self.quota_at(now).map_or(WatchedState::Nothing, WatchedState::Quota)
    }

    /// Returns whether the limiter is *as new* at `now`: whether from then on it decides as when it
    /// was made. `false` if it is not, or cannot tell. A [`LimiterPerKey`](super::LimiterPerKey)
    /// drops the limiter of an idle key only if it is as new.
    ///
    /// By default, it is if the whole limit remains by its [quota](Self::quota_at), and the
    /// [reset](Quota::reset) is known and not after `now`. A limiter overrides this if its quota
    /// does not tell its whole state, or if it decides at another time than `now`, such as a
    /// horizon: an [`AllOf`](super::AllOf) is as new if each of its limiters is, and an
    /// [`AdaptiveLimiter`](super::AdaptiveLimiter), which learns its limit, never is.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{FixedWindowLimiter, Limiter};
    /// use std::time::Duration;
    ///
    /// let limiter = FixedWindowLimiter::new(Duration::from_secs(60), 100)?;
    /// let t = Timestamp::from_secs;
    /// assert!(limiter.try_acquire_at(t(60), 1).is_admitted());
    /// assert_eq!([119, 120].map(|now| limiter.is_as_new_at(t(now))), [false, true]);
    /// # Ok::<_, leaparray::flow::LimitError>(())
    /// ```
    fn is_as_new_at(&self, now: Timestamp) -> bool {
        self.quota_at(now).is_some_and(|quota| quota.is_whole_at(now))
    }

    /// Returns this limiter with a name for its [quotas](Quota::name): clients tell the limits that
    /// apply to a request apart by their names. Limits that have names keep them.
    ///
    /// ```
    /// use leaparray::flow::{Limiter, Rate, TokenBucket};
    ///
    /// let search = TokenBucket::new(Rate::per_minute(60)?, 10).named("search");
    /// assert_eq!(search.quota().and_then(|quota| quota.name), Some("search"));
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    #[must_use]
    fn named(self, name: &'static str) -> Named<Self>
    where
        Self: Sized,
    {
        Named::new(name, self)
    }

    /// Returns this limiter in a box, with its permit in a box as well. A permit of size 0, such as
    /// `()`, takes no allocation.
    ///
    /// ```
    /// use leaparray::flow::{
    ///     AdaptiveBreaker, BoxLimiter, BreakerConfig, ConcurrencyLimiter, Limiter, Rate,
    ///     TokenBucket,
    /// };
    /// use leaparray::{NodeConfig, ResourceNode};
    /// use std::sync::Arc;
    ///
    /// let limiters: [BoxLimiter; 3] = [
    ///     TokenBucket::new(Rate::per_second(10)?, 10).boxed(),
    ///     Arc::new(ConcurrencyLimiter::new(8)).boxed(),
    ///     Arc::new(AdaptiveBreaker::new(BreakerConfig::default())).boxed(),
    /// ];
    /// let node = ResourceNode::new(NodeConfig::default());
    /// for limiter in &limiters {
    ///     limiter.try_enter(&node)?.success();
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    fn boxed(self) -> BoxLimiter
    where
        Self: Sized + Send + Sync + 'static,
        Self::Permit: Send + 'static,
    {
        Box::new(Boxed(self))
    }
}

/// A limiter of any kind: see [`Limiter::boxed`].
pub type BoxLimiter = Box<dyn Limiter<Permit = BoxPermit> + Send + Sync>;

/// The permit of a [`BoxLimiter`].
pub type BoxPermit = Box<dyn Permit + Send>;

/// The passes and the clock of a node, for a limiter that also counts the requests that entered the
/// node directly: see [`Limiter::try_acquire_for`].
pub trait Passed {
    /// Returns the time of the node's clock.
    fn now(&self) -> Timestamp;

    /// Returns the number of passes from `start`, the start of a bucket, up to the end of the
    /// bucket of `now`.
    fn passed_since(&self, start: Timestamp, now: Timestamp) -> u64;

    /// Returns the end of the bucket of `now`, from which the passes may be read again. The result
    /// is after `now`, except at the end of time.
    fn bucket_end(&self, now: Timestamp) -> Timestamp;
}

impl<C: Clock + Clone> Passed for ResourceNode<C> {
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn passed_since(&self, start: Timestamp, now: Timestamp) -> u64 {
        Self::passed_since(self, start, now)
    }

    fn bucket_end(&self, now: Timestamp) -> Timestamp {
        self.config().short().bucket_end(now)
    }
}
