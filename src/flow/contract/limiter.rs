//! The trait of limiters.

use crate::flow::contract::account::NoAccount;
use crate::flow::contract::{Account, Ask, Decision, Refusal};
use crate::node::{Permit, Reason};

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

/// How all callers ask.
impl Ask<'_> {
    /// Asks a limiter.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(in crate::flow) fn decided_by<L: Limiter + ?Sized>(
        &self,
        limiter: &L,
    ) -> Decision<L::Permit> {
        self.settled(limiter.decide(self))
    }

    /// Peeks at a limiter. If it tells of a wait and the request cannot wait, that is a refusal
    /// until the request would be due.
    #[inline]
    pub(in crate::flow) fn foretold_by<L: Limiter + ?Sized>(
        &self,
        limiter: &L,
    ) -> Option<Decision> {
        Some(match limiter.peek(self)? {
            Decision::Wait(delayed) if !self.can_wait() => {
                let due = self.now().saturating_add(delayed.wait());
                Decision::Refused(Refusal::due(Reason::WaitTooLong, due))
            }
            peek => peek,
        })
    }
}
