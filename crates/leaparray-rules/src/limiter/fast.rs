//! The limiters of the most frequent rules, without the type of their clock: the fast path calls
//! them by one pointer.

use std::sync::Arc;

use leaparray::flow::{
    Ask, ConcurrencyLimiter, Decision, Keyed, LeakyBucket, Limiter, LimiterExt, TokenBucket,
};

use super::one::One;
use super::per_key::PerKey;
use super::{RuleClock, RuleLimiter};

/// The limiter of a rule as the fast path calls it. The type of its clock is behind a pointer.
pub(crate) enum FastLimiter {
    /// Its permits have no end.
    Endless(Arc<dyn Limiter<Permit = ()> + Send + Sync>),
    InFlight(Arc<ConcurrencyLimiter>),
    /// Each key has a limiter whose permits have no end.
    ByKey(Arc<dyn ByKey>),
    /// Another limiter, or one that is not enforced for all requests: only the plan has it.
    None,
}

/// Limiters of keys, whose permits have no end.
pub(crate) trait ByKey: Send + Sync {
    fn decide(&self, key: &str, ask: &Ask<'_>) -> Decision;
}

impl<C: RuleClock> ByKey for Keyed<String, TokenBucket<C>> {
    fn decide(&self, key: &str, ask: &Ask<'_>) -> Decision {
        self.of_key(key).ask(ask)
    }
}

impl<C: RuleClock> ByKey for Keyed<String, LeakyBucket<C>> {
    fn decide(&self, key: &str, ask: &Ask<'_>) -> Decision {
        self.of_key(key).ask(ask)
    }
}

impl FastLimiter {
    /// Returns the form of a limiter for the fast path. `is_whole` tells whether it is enforced for
    /// all requests.
    pub(crate) fn of<C: RuleClock>(limiter: &RuleLimiter<C>, is_whole: bool) -> Self {
        if !is_whole {
            return Self::None;
        }
        match limiter {
            RuleLimiter::One(one) => Self::of_one(one),
            RuleLimiter::PerKey { keys, .. } => match keys {
                PerKey::Bucket(keys) => Self::ByKey(Arc::<Keyed<_, _>>::clone(keys)),
                PerKey::Pace(keys) => Self::ByKey(Arc::<Keyed<_, _>>::clone(keys)),
                PerKey::Each { .. } => Self::None,
            },
            RuleLimiter::ByClass(_) => Self::None,
        }
    }

    fn of_one<C: RuleClock>(one: &One<C>) -> Self {
        match one {
            One::Window(it) => Self::Endless(Arc::clone(it) as _),
            #[cfg(feature = "fleet")]
            One::Fleet(it) => Self::Endless(Arc::clone(it) as _),
            One::Bucket(it) => Self::Endless(Arc::clone(it) as _),
            One::WarmUp(it) => Self::Endless(Arc::clone(it) as _),
            One::Pace(it) => Self::Endless(Arc::clone(it) as _),
            One::Gate(it) => Self::Endless(Arc::clone(it) as _),
            One::InFlight(it) => Self::InFlight(Arc::clone(it)),
            One::AdaptiveInFlight(_) | One::Breaker(_) | One::AdaptiveBreaker(_) => Self::None,
        }
    }
}
