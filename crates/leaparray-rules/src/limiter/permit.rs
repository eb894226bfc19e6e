//! The permit of a rule.

use std::fmt;
use std::sync::Arc;

use leaparray::flow::adaptive::{AdaptiveLimiter, Headroom};
use leaparray::flow::priority::{ClassPermit, Classes};
use leaparray::flow::shares::{FairShares, TenantPermit};
use leaparray::flow::{
    AdaptiveBreaker, CircuitBreaker, ConcurrencyLimiter, ConcurrencyPermit, FeedbackPermit,
};
use leaparray::{Outcome, Permit, Timestamp};

use super::RuleClock;

/// The permit of a request that one rule has admitted. It ends at the limiter that has given it,
/// also if the rule was changed or removed since.
pub struct RulePermit<C: RuleClock>(pub(super) Given<C>);

pub(super) enum Given<C: RuleClock> {
    Nothing,
    InFlight(ConcurrencyPermit<Arc<ConcurrencyLimiter>>),
    AdaptiveInFlight(FeedbackPermit<Arc<AdaptiveLimiter<Headroom, C>>>),
    Breaker(FeedbackPermit<Arc<CircuitBreaker<C>>>),
    AdaptiveBreaker(FeedbackPermit<Arc<AdaptiveBreaker<C>>>),
    OfClass(OfClass<Arc<ConcurrencyLimiter>, ConcurrencyPermit<Arc<ConcurrencyLimiter>>>),
    /// In a box: the permits of the others are smaller, and each decision moves one.
    AdaptiveOfClass(Box<AdaptiveOfClass<C>>),
    OfTenant(OfTenant<Arc<ConcurrencyLimiter>, ConcurrencyPermit<Arc<ConcurrencyLimiter>>>),
    AdaptiveOfTenant(Box<AdaptiveOfTenant<C>>),
}

/// The permit of a request of a class.
type OfClass<L, P> = ClassPermit<P, Arc<Classes<L>>>;

/// The permit of a request of a class of an adaptive limit.
type AdaptiveOfClass<C> =
    OfClass<Arc<AdaptiveLimiter<Headroom, C>>, FeedbackPermit<Arc<AdaptiveLimiter<Headroom, C>>>>;

/// The permit of a request of a tenant.
type OfTenant<L, P> = TenantPermit<P, Arc<FairShares<L>>>;

/// The permit of a request of a tenant of an adaptive limit.
type AdaptiveOfTenant<C> =
    OfTenant<Arc<AdaptiveLimiter<Headroom, C>>, FeedbackPermit<Arc<AdaptiveLimiter<Headroom, C>>>>;

impl<C: RuleClock> RulePermit<C> {
    #[inline]
    pub(super) const fn nothing() -> Self {
        Self(Given::Nothing)
    }

    #[inline]
    pub(crate) const fn is_nothing(&self) -> bool {
        matches!(self.0, Given::Nothing)
    }

    #[inline]
    fn inner(&mut self) -> Option<&mut dyn Permit> {
        match &mut self.0 {
            Given::Nothing => None,
            Given::InFlight(permit) => Some(permit),
            Given::AdaptiveInFlight(permit) => Some(permit),
            Given::Breaker(permit) => Some(permit),
            Given::AdaptiveBreaker(permit) => Some(permit),
            Given::OfClass(permit) => Some(permit),
            Given::AdaptiveOfClass(permit) => Some(&mut **permit),
            Given::OfTenant(permit) => Some(permit),
            Given::AdaptiveOfTenant(permit) => Some(&mut **permit),
        }
    }
}

impl<C: RuleClock> Permit for RulePermit<C> {
    #[inline]
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        if let Some(permit) = self.inner() {
            permit.end_at(now, outcome);
        }
    }

    #[inline]
    fn withdraw_at(&mut self, now: Timestamp) {
        if let Some(permit) = self.inner() {
            permit.withdraw_at(now);
        }
    }

    #[inline]
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        if let Some(permit) = self.inner() {
            permit.drop_at(now, outcome);
        }
    }
}

macro_rules! from {
    ($($permit:ty => $variant:ident),*) => {$(
        impl<C: RuleClock> From<$permit> for RulePermit<C> {
            #[inline]
            fn from(permit: $permit) -> Self {
                Self(Given::$variant(permit))
            }
        }
    )*};
}

from!(
    ConcurrencyPermit<Arc<ConcurrencyLimiter>> => InFlight,
    FeedbackPermit<Arc<AdaptiveLimiter<Headroom, C>>> => AdaptiveInFlight,
    FeedbackPermit<Arc<CircuitBreaker<C>>> => Breaker,
    FeedbackPermit<Arc<AdaptiveBreaker<C>>> => AdaptiveBreaker,
    OfClass<Arc<ConcurrencyLimiter>, ConcurrencyPermit<Arc<ConcurrencyLimiter>>> => OfClass,
    Box<AdaptiveOfClass<C>> => AdaptiveOfClass,
    OfTenant<Arc<ConcurrencyLimiter>, ConcurrencyPermit<Arc<ConcurrencyLimiter>>> => OfTenant,
    Box<AdaptiveOfTenant<C>> => AdaptiveOfTenant
);

impl<C: RuleClock> fmt::Debug for RulePermit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulePermit").finish_non_exhaustive()
    }
}
