//! The limiters of the most frequent rules, without the type of their clock: the fast path calls
//! them by one pointer.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{
    Ask, ConcurrencyLimiter, Decision, Keyed, LeakyBucket, Limiter, LimiterExt, TokenBucket,
};

use super::one::One;
use super::per_key::PerKey;
use super::{RuleClock, RuleLimiter, RulePermits};

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

    /// Returns whether a request of a key would be admitted without a wait.
    fn would_admit(&self, key: &str, ask: &Ask<'_>) -> bool;

    /// Gives back the permits of a request that was not to wait, if it can.
    fn refund(&self, key: &str, ask: &Ask<'_>);
}

macro_rules! by_key {
    ($($limiter:ident),*) => {$(
        impl<C: RuleClock> ByKey for Keyed<String, $limiter<C>> {
            fn decide(&self, key: &str, ask: &Ask<'_>) -> Decision {
                self.of_key(key).ask(ask)
            }

            fn would_admit(&self, key: &str, ask: &Ask<'_>) -> bool {
                matches!(self.of_key(key).foretell(ask), Some(Decision::Admitted(())))
            }

            fn refund(&self, key: &str, ask: &Ask<'_>) {
                self.of_key(key).account().refund(ask, Duration::ZERO);
            }
        }
    )*};
}

by_key!(TokenBucket, LeakyBucket);

impl FastLimiter {
    /// Returns whether a request would be admitted without a wait. The key is that of the request,
    /// if the limiter has keys.
    #[inline]
    pub(crate) fn would_admit(&self, key: &str, ask: &Ask<'_>) -> bool {
        match self {
            Self::Endless(it) => matches!(it.foretell(ask), Some(Decision::Admitted(()))),
            Self::InFlight(it) => matches!(it.foretell(ask), Some(Decision::Admitted(()))),
            Self::ByKey(it) => it.would_admit(key, ask),
            Self::None => false,
        }
    }

    /// Asks for permits. Adds one that has to end to `permits`. Returns `None` if they are given
    /// without a wait, and otherwise the decision.
    #[inline]
    pub(crate) fn take<C: RuleClock>(
        &self,
        key: &str,
        ask: &Ask<'_>,
        permits: &mut RulePermits<C>,
    ) -> Option<Decision> {
        // Compared in place, and moved only if the permits are not given at once.
        let decision = match self {
            Self::Endless(it) => it.ask(ask),
            Self::InFlight(it) => match it.ask(ask) {
                Decision::Admitted(permit) => {
                    permits.push(permit);
                    return None;
                }
                decision => decision.map(|permit| permits.push(permit)),
            },
            Self::ByKey(it) => it.decide(key, ask),
            Self::None => unreachable!("a limiter that would not admit the request"),
        };
        match decision {
            Decision::Admitted(()) => None,
            decision => Some(decision),
        }
    }

    /// Gives back permits that have no end, of a request that was not to wait.
    #[cold]
    pub(crate) fn give_back(&self, key: &str, ask: &Ask<'_>) {
        match self {
            Self::Endless(it) => drop(it.account().refund(ask, Duration::ZERO)),
            Self::ByKey(it) => it.refund(key, ask),
            Self::InFlight(_) | Self::None => {}
        }
    }

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
