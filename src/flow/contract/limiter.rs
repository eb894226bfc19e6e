//! The trait of limiters.

use crate::flow::contract::account::NoAccount;
use crate::flow::contract::{Account, Ask, Decision};
use crate::node::{Permit, ResourceNode};
use crate::time::{Clock, Timestamp};

/// A controller that hands out permits: the contract of a limiter.
///
/// [`decide`](Self::decide) is all that a limiter needs. Callers use the methods of
/// [`LimiterExt`](crate::flow::LimiterExt), which every limiter has.
///
/// Limiters of rates have the permit `()`. A
/// [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter) and an
/// [`AdaptiveBreaker`](crate::flow::AdaptiveBreaker) hand out permits that refer to them, so the
/// trait is implemented for references to them: `&ConcurrencyLimiter` and
/// `Arc<ConcurrencyLimiter>`.
///
/// References to limiters, a `Box` and an [`Arc`](std::sync::Arc) of one, and an `Option` of one
/// are limiters. `None` admits every request.
///
/// ```
/// use leaparray::flow::{AllOf, Ask, Decision, Limiter, LimiterExt, Rate, Reason, Refusal, Retry};
/// use leaparray::flow::TokenBucket;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// /// Admits requests while a service is open.
/// #[derive(Debug, Default)]
/// struct Gate(AtomicBool);
///
/// impl Limiter for Gate {
///     type Permit = ();
///
///     fn decide(&self, _ask: &Ask<'_>) -> Decision {
///         if self.0.load(Ordering::Relaxed) {
///             return Decision::Admitted(());
///         }
///         Decision::Refused(Refusal::new(Reason::Custom("closed"), Retry::Unknown))
///     }
/// }
///
/// let gate = Gate::default();
/// let both = AllOf::new((&gate, TokenBucket::new(Rate::per_second(10)?, 2)));
/// assert!(both.try_acquire().is_refused());
/// gate.0.store(true, Ordering::Relaxed);
/// assert!(both.try_acquire_many(2).is_admitted());
/// assert!(both.try_acquire().is_refused());
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
pub trait Limiter {
    /// The permit of an admitted request: see [`Permit`].
    type Permit: Permit;

    /// Decides on a request: all of its permits or none. A limiter of permits admits a request for
    /// 0 of them.
    ///
    /// A limiter that paces takes no permits for a request that [cannot wait](Ask::can_wait), and
    /// would have to. If it decides that such a request waits, the caller refuses it, and its
    /// permits are spent.
    ///
    /// In an [`AllOf`](crate::flow::AllOf) and in a [`WaitQueue`](crate::flow::WaitQueue), a
    /// [peek](Self::peek) comes before the decision, which is then not the [first](Ask::is_first)
    /// question of its request.
    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permit>;

    /// Returns the decision that a request would get, and takes no permits. `None` if the limiter
    /// cannot tell, as a limiter that decides at random.
    ///
    /// If another request takes permits in between, the [decision](Self::decide) may differ.
    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        None
    }

    /// Returns the clock of the limiter, its quotas, and what else it does besides decisions. By
    /// default, it has nothing of that. A limiter that has an account returns `self`.
    fn account(&self) -> &dyn Account {
        &NoAccount
    }
}

/// The passes and the clock of a node, for a limiter that also counts the requests that entered the
/// node directly: see [`Ask::over`].
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
