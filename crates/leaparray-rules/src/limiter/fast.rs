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
    Endless(Box<dyn Endless>),
    InFlight(Arc<ConcurrencyLimiter>),
    /// Each key has a limiter whose permits have no end.
    ByKey(Box<dyn ByKey>),
    /// Another limiter, or one that is not enforced for all requests: only the plan has it.
    None,
}

/// A limiter whose permits have no end.
//
// A reference to one, in a `Box`: an `Arc<dyn _>` finds its value by the alignment of that.
pub(crate) trait Endless: Send + Sync {
    /// Returns whether a request is admitted at once. Writes another decision into `other`.
    fn admits(&self, ask: &Ask<'_>, other: &mut Decision) -> bool;

    /// Returns whether a request would be admitted without a wait.
    fn would_admit(&self, ask: &Ask<'_>) -> bool;

    /// Gives back the permits of a request that was not to wait, if it can.
    fn refund(&self, ask: &Ask<'_>);
}

impl<L: Limiter<Permit = ()> + Send + Sync> Endless for Arc<L> {
    fn admits(&self, ask: &Ask<'_>, other: &mut Decision) -> bool {
        is_admitted(L::ask(self, ask), other)
    }

    fn would_admit(&self, ask: &Ask<'_>) -> bool {
        matches!(L::foretell(self, ask), Some(Decision::Admitted(())))
    }

    fn refund(&self, ask: &Ask<'_>) {
        L::account(self).refund(ask, Duration::ZERO);
    }
}

/// Returns whether a decision admits the request at once, and writes another one into `other`.
#[inline]
fn is_admitted(decision: Decision, other: &mut Decision) -> bool {
    if decision.is_admitted() {
        return true;
    }
    *other = decision;
    false
}

/// Limiters of keys, whose permits have no end.
pub(crate) trait ByKey: Send + Sync {
    /// Returns whether a request of a key is admitted at once. Writes another decision into
    /// `other`.
    fn admits(&self, key: &str, ask: &Ask<'_>, other: &mut Decision) -> bool;

    /// Returns whether a request of a key would be admitted without a wait.
    fn would_admit(&self, key: &str, ask: &Ask<'_>) -> bool;

    /// Gives back the permits of a request that was not to wait, if it can.
    fn refund(&self, key: &str, ask: &Ask<'_>);
}

macro_rules! by_key {
    ($($limiter:ident),*) => {$(
        impl<C: RuleClock> ByKey for Arc<Keyed<String, $limiter<C>>> {
            fn admits(&self, key: &str, ask: &Ask<'_>, other: &mut Decision) -> bool {
                is_admitted(self.of_key(key).ask(ask), other)
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
            Self::Endless(it) => it.would_admit(ask),
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
        let mut other = Decision::Admitted(());
        let is_admitted = match self {
            Self::Endless(it) => it.admits(ask, &mut other),
            Self::InFlight(it) => match it.ask(ask) {
                Decision::Admitted(permit) => {
                    permits.push(permit);
                    true
                }
                decision => is_admitted(decision.map(|permit| permits.push(permit)), &mut other),
            },
            Self::ByKey(it) => it.admits(key, ask, &mut other),
            Self::None => unreachable!("a limiter that would not admit the request"),
        };
        if is_admitted { None } else { Some(other) }
    }

    /// Gives back permits that have no end, of a request that was not to wait.
    #[cold]
    pub(crate) fn give_back(&self, key: &str, ask: &Ask<'_>) {
        match self {
            Self::Endless(it) => it.refund(ask),
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
                PerKey::Bucket(keys) => Self::ByKey(Box::new(Arc::clone(keys))),
                PerKey::Pace(keys) => Self::ByKey(Box::new(Arc::clone(keys))),
                PerKey::Each { .. } => Self::None,
            },
            RuleLimiter::ByClass(_) => Self::None,
        }
    }

    fn of_one<C: RuleClock>(one: &One<C>) -> Self {
        match one {
            One::Window(it) => Self::Endless(Box::new(Arc::clone(it))),
            #[cfg(feature = "fleet")]
            One::Fleet(it) => Self::Endless(Box::new(Arc::clone(it))),
            One::Bucket(it) => Self::Endless(Box::new(Arc::clone(it))),
            One::WarmUp(it) => Self::Endless(Box::new(Arc::clone(it))),
            One::Pace(it) => Self::Endless(Box::new(Arc::clone(it))),
            One::Gate(it) => Self::Endless(Box::new(Arc::clone(it))),
            One::InFlight(it) => Self::InFlight(Arc::clone(it)),
            One::AdaptiveInFlight(_) | One::Breaker(_) | One::AdaptiveBreaker(_) => Self::None,
        }
    }
}
