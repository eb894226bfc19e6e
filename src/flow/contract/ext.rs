//! The methods of every limiter.
#![expect(
    clippy::inline_always,
    reason = "out of line, the permit or the refusal of a decision goes through memory"
)]

use std::ops::Deref;
use std::time::Duration;

use super::forward::Boxed;
use super::{Account, Ask, BoxLimiter, Limiter, Named};
use crate::flow::contract::{Decision, Quota, Refusal};
use crate::node::{Entry, Permit, ResourceNode};
use crate::time::{Clock, Timestamp};

/// The methods of every limiter, for its callers.
///
/// Each [`Limiter`] has them, and each controller whose permits refer to it, such as a
/// [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter). The permits of such a controller borrow
/// it. Through an [`Arc`](std::sync::Arc) of it, they do not.
///
/// ```
/// use leaparray::flow::{ConcurrencyLimiter, LeakyBucket, Limiter, LimiterExt, Rate, TokenBucket};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// fn limiter(name: &str, rate: Rate) -> Option<Box<dyn Limiter<Permit = ()>>> {
///     match name {
///         "pace" => Some(Box::new(LeakyBucket::new(rate, Duration::from_millis(500)))),
///         "burst" => Some(Box::new(TokenBucket::new(rate, 20))),
///         _ => None,
///     }
/// }
/// let limiter = limiter("burst", Rate::per_second(10)?).expect("there is one");
/// assert!(limiter.try_acquire_many(20).is_admitted());
/// assert!(limiter.try_acquire().is_refused());
///
/// let shared = Arc::new(ConcurrencyLimiter::new(1));
/// let permit = shared.try_acquire().at_once()?;
/// std::thread::spawn(move || drop(permit)).join().expect("it does not panic");
/// assert_eq!(shared.in_use(), 0);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait LimiterExt {
    /// The permit of an admitted request.
    type Lent<'a>: Permit
    where
        Self: 'a;

    /// The limiter whose permits do not borrow it: this one, or an [`Arc`](std::sync::Arc) of it.
    type Owned: Limiter
    where
        Self: Sized;

    /// Asks for permits. A request that [cannot wait](Ask::can_wait), and would have to, is
    /// refused.
    fn ask<'a>(&'a self, ask: &Ask<'_>) -> Decision<Self::Lent<'a>>;

    /// Returns the decision that a request would get, and takes no permits. `None` if the limiter
    /// cannot tell, as a limiter that decides at random.
    ///
    /// If another request takes permits in between, the [decision](Self::ask) may differ.
    fn foretell(&self, ask: &Ask<'_>) -> Option<Decision>;

    /// Returns the [account](Limiter::account) of the limiter.
    #[doc(hidden)]
    fn books(&self) -> &dyn Account;

    /// Returns this limiter, or an [`Arc`](std::sync::Arc) of it if its permits would borrow it.
    fn into_owned(self) -> Self::Owned
    where
        Self: Sized;

    /// Asks for one permit. Reads the clock once.
    #[inline(always)]
    fn try_acquire(&self) -> Decision<Self::Lent<'_>> {
        self.try_acquire_many(1)
    }

    /// Asks for `permits` permits: all of them or none. Reads the clock once.
    #[inline(always)]
    fn try_acquire_many(&self, permits: u64) -> Decision<Self::Lent<'_>> {
        self.try_acquire_at(self.books().now(), permits)
    }

    /// Asks for `permits` permits at `now`: all of them or none. A limiter of permits admits a
    /// request for 0 of them.
    #[inline(always)]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision<Self::Lent<'_>> {
        self.ask(&Ask::at(now).many(permits))
    }

    /// Returns the decision that a request for `permits` permits would get at `now`; see
    /// [`foretell`](Self::foretell).
    fn peek_at(&self, now: Timestamp, permits: u64) -> Option<Decision> {
        self.foretell(&Ask::at(now).many(permits).again())
    }

    /// Enters a request into a node, or refuses it and counts it there as blocked, at the time of
    /// the node's clock. The entry ends the permit: a breaker is told whether the request
    /// succeeded, and a concurrency limiter gets its permit back.
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
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
    fn enter<N, C>(&self, node: N) -> Decision<Entry<N, C, Self::Lent<'_>>>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        let now = node.clock().now();
        self.enter_at(node, now)
    }

    /// Like [`enter`](Self::enter), with a question of the caller: a time, or an [`Ask`].
    #[inline]
    fn enter_at<N, C>(
        &self,
        node: N,
        ask: impl Into<Ask<'static>>,
    ) -> Decision<Entry<N, C, Self::Lent<'_>>>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        let ask = ask.into();
        self.ask(&ask.over(&*node)).enter_many_at(node, ask.now(), ask.permits())
    }

    /// Enters a request into a node, for a caller that cannot wait, at the time of the node's
    /// clock; see [`try_enter_at`](Self::try_enter_at).
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    ///
    /// ```
    /// use leaparray::flow::{LeakyBucket, LimiterExt, Rate, Reason};
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
    fn try_enter<N, C>(&self, node: N) -> Result<Entry<N, C, Self::Lent<'_>>, Refusal>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        let now = node.clock().now();
        self.try_enter_at(node, now)
    }

    /// Enters a request into a node, or counts it there as blocked: it is refused by the limiter,
    /// or would have to wait. `ask` is a time, or an [`Ask`], which cannot wait.
    ///
    /// # Errors
    ///
    /// Returns the refusal. A request that would have to wait is refused for the reason
    /// [`WaitTooLong`](crate::flow::Reason::WaitTooLong). A
    /// [`LeakyBucket`](crate::flow::LeakyBucket) takes no permits for it, and refuses it until it
    /// would be due.
    #[inline]
    fn try_enter_at<N, C>(
        &self,
        node: N,
        ask: impl Into<Ask<'static>>,
    ) -> Result<Entry<N, C, Self::Lent<'_>>, Refusal>
    where
        N: Deref<Target = ResourceNode<C>>,
        C: Clock + Clone,
    {
        let ask = ask.into().at_once();
        match self.ask(&ask.over(&*node)).at_once() {
            Ok(permit) => Ok(Entry::with_permit(node, ask.now(), ask.permits(), permit)),
            Err(refusal) => {
                refusal.count_at(&node, ask.now(), ask.permits());
                Err(refusal)
            }
        }
    }

    /// Returns the limit, the permits that remain at `now`, and the time at which all of them
    /// remain again; `None` if the limiter has no such numbers.
    fn quota_at(&self, now: Timestamp) -> Option<Quota> {
        self.books().quota(now)
    }

    /// [Gives back](Account::refund) the permits of a request that was admitted at `now`, or was
    /// admitted after `wait`, and that will not go ahead. Returns whether they were given back.
    fn refund_at(&self, now: Timestamp, permits: u64, wait: Duration) -> bool {
        self.books().refund(&Ask::at(now).many(permits), wait)
    }

    /// Returns this limiter with a name for its [quotas](Quota::name) and its
    /// [refusals](crate::flow::Refusal::limiter), by which clients and operators tell limits apart.
    /// Limits that have names keep them.
    ///
    /// The process keeps each distinct name until it ends, once: take names from the program or
    /// its configuration, and not from requests.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    ///
    /// let search = TokenBucket::new(Rate::per_minute(60)?, 10).named("search");
    /// let now = Timestamp::from_secs(60);
    /// let quota = search.quota_at(now);
    /// assert_eq!(quota.and_then(|quota| quota.name), Some("search"));
    /// let refusal = search.try_acquire_at(now, 11).refusal().expect("the burst is 10");
    /// assert_eq!(refusal.limiter(), Some("search"));
    /// assert_eq!(
    ///     refusal.to_string(),
    ///     "refused by search: the request asks for more than the limit, and will always be",
    /// );
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    #[must_use]
    fn named(self, name: &str) -> Named<Self::Owned>
    where
        Self: Sized,
    {
        Named::new(name, self.into_owned())
    }

    /// Returns this limiter behind a pointer of one type, with its permit in a box. A permit of
    /// size 0, such as `()`, takes no allocation.
    ///
    /// ```
    /// use leaparray::flow::{
    ///     AdaptiveBreaker, BoxLimiter, ConcurrencyLimiter, LimiterExt, Rate, TokenBucket,
    /// };
    /// use leaparray::flow::breaker::AdaptiveBreakerConfig;
    /// use leaparray::{NodeConfig, ResourceNode};
    ///
    /// let limiters: [BoxLimiter; 3] = [
    ///     TokenBucket::new(Rate::per_second(10)?, 10).boxed(),
    ///     ConcurrencyLimiter::new(8).boxed(),
    ///     AdaptiveBreaker::new(AdaptiveBreakerConfig::default()).boxed(),
    /// ];
    /// let node = ResourceNode::new(NodeConfig::default());
    /// for limiter in &limiters {
    ///     limiter.try_enter(&node)?.success();
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    fn boxed(self) -> BoxLimiter
    where
        Self: Sized,
        Self::Owned: Limiter<Permit: Send + 'static> + Send + Sync + 'static,
    {
        std::sync::Arc::new(Boxed(self.into_owned()))
    }
}

impl<L: Limiter + ?Sized> LimiterExt for L {
    type Lent<'a>
        = L::Permit
    where
        L: 'a;
    type Owned
        = L
    where
        L: Sized;

    #[inline(always)]
    fn ask(&self, ask: &Ask<'_>) -> Decision<L::Permit> {
        ask.decided_by(self)
    }

    #[inline]
    fn foretell(&self, ask: &Ask<'_>) -> Option<Decision> {
        ask.foretold_by(self)
    }

    #[inline(always)]
    fn books(&self) -> &dyn Account {
        self.account()
    }

    fn into_owned(self) -> L
    where
        L: Sized,
    {
        self
    }
}
