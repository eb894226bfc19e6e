//! The limiters of the most frequent rules, without the type of their clock: the fast path calls
//! them by one pointer.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use leaparray::MonotonicClock;
use leaparray::flow::{
    Ask, ConcurrencyLimiter, Decision, Keyed, LeakyBucket, Limiter, LimiterExt,
    SlidingWindowLimiter, TokenBucket,
};

use super::bucket::Bucket;
use super::one::One;
use super::per_key::PerKey;
use super::{RuleClock, RuleLimiter, RulePermits};
use crate::rule::KeySource;

/// The limiter of a rule as the fast path calls it. The type of its clock is behind a pointer.
pub(crate) enum FastLimiter {
    /// A window with the clock of a process, which is decided without a call by a pointer, as a
    /// bucket is.
    Window(Arc<SlidingWindowLimiter>),
    Bucket(Bucket<MonotonicClock>),
    /// Its permits have no end.
    Endless(Arc<dyn Endless>),
    InFlight(Arc<ConcurrencyLimiter>),
    /// Each key has a limiter whose permits have no end. `None` is another limiter, or one that is
    /// not enforced for all requests: only the plan has it.
    //
    // Three kinds: with one more, they are told apart by a table of jumps.
    Other(Option<Box<KeyedLimiter>>),
}

/// The limiters of the keys of a rule.
pub(crate) struct KeyedLimiter {
    /// A caller has the key: the key of a handle is found by the plan.
    pub(crate) source: KeySource,
    pub(crate) limiters: Box<dyn ByKey>,
}

/// A limiter whose permits have no end.
pub(crate) trait Endless: Send + Sync {
    /// Returns whether a request is admitted at once. Writes another decision into `other`.
    fn admits(&self, ask: &Ask<'_>, other: &mut Decision) -> bool;

    /// Returns whether a request would be admitted without a wait.
    fn would_admit(&self, ask: &Ask<'_>) -> bool;

    /// Gives back the permits of a request that was not to wait, if it can.
    fn refund(&self, ask: &Ask<'_>);
}

impl<L: Limiter<Permit = ()> + Send + Sync> Endless for L {
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
pub(crate) fn is_admitted(decision: Decision, other: &mut Decision) -> bool {
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
    /// Returns whether a request with this key would be admitted without a wait. A limiter without
    /// keys ignores the key.
    #[inline]
    pub(crate) fn would_admit(&self, key: &str, ask: &Ask<'_>) -> bool {
        match self {
            Self::Window(it) => Endless::would_admit(&**it, ask),
            Self::Bucket(it) => Endless::would_admit(&**it, ask),
            Self::Endless(it) => it.would_admit(ask),
            Self::InFlight(it) => matches!(it.foretell(ask), Some(Decision::Admitted(()))),
            Self::Other(it) => it.as_ref().is_some_and(|it| it.limiters.would_admit(key, ask)),
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
            Self::Window(it) => Endless::admits(&**it, ask, &mut other),
            Self::Bucket(it) => Endless::admits(&**it, ask, &mut other),
            Self::Endless(it) => it.admits(ask, &mut other),
            Self::InFlight(it) => match it.ask(ask) {
                Decision::Admitted(permit) => {
                    permits.push(permit);
                    true
                }
                decision => is_admitted(decision.map(|permit| permits.push(permit)), &mut other),
            },
            Self::Other(Some(it)) => it.limiters.admits(key, ask, &mut other),
            Self::Other(None) => unreachable!("a limiter that would not admit the request"),
        };
        if is_admitted { None } else { Some(other) }
    }

    /// Gives back permits that have no end, of a request that was not to wait.
    #[cold]
    pub(crate) fn give_back(&self, key: &str, ask: &Ask<'_>) {
        match self {
            Self::Window(it) => Endless::refund(&**it, ask),
            Self::Bucket(it) => Endless::refund(&**it, ask),
            Self::Endless(it) => it.refund(ask),
            Self::Other(Some(it)) => it.limiters.refund(key, ask),
            Self::InFlight(_) | Self::Other(None) => {}
        }
    }

    /// A limiter that only the plan has.
    pub(crate) const NONE: Self = Self::Other(None);

    /// Returns the form of a limiter for the fast path. `key` is the source of the keys of its
    /// rule, and `is_whole` tells whether it is enforced for all requests.
    pub(crate) fn of<C: RuleClock>(
        limiter: &RuleLimiter<C>,
        key: Option<&KeySource>,
        is_whole: bool,
    ) -> Self {
        match (limiter, key) {
            _ if !is_whole => Self::NONE,
            (RuleLimiter::One(one), _) => Self::of_one(one),
            (RuleLimiter::PerKey { keys, .. }, Some(source)) if !source.is_of_handle() => {
                Self::by_key(source, keys)
            }
            (
                RuleLimiter::PerKey { .. } | RuleLimiter::ByClass(_) | RuleLimiter::ByTenant(_),
                _,
            ) => Self::NONE,
        }
    }

    fn by_key<C: RuleClock>(source: &KeySource, keys: &PerKey<C>) -> Self {
        let limiters: Box<dyn ByKey> = match keys {
            PerKey::Bucket(keys) => Box::new(Arc::clone(keys)),
            PerKey::Pace(keys) => Box::new(Arc::clone(keys)),
            PerKey::Each(_) | PerKey::ByClass(_) => return Self::NONE,
        };
        Self::Other(Some(Box::new(KeyedLimiter { source: source.clone(), limiters })))
    }

    fn of_one<C: RuleClock>(one: &One<C>) -> Self {
        match one {
            One::Window(it) => of_process(it).map_or_else(|| Self::endless(it), Self::Window),
            #[cfg(feature = "fleet")]
            One::Fleet(it) => Self::endless(it),
            One::Bucket(it) => {
                it.of_process().map_or_else(|| Self::endless(&Arc::new(it.clone())), Self::Bucket)
            }
            One::WarmUp(it) => Self::endless(it),
            One::Pace(it) => Self::endless(it),
            One::Gate(it) => Self::endless(it),
            One::InFlight(it) => Self::InFlight(Arc::clone(it)),
            One::AdaptiveInFlight(_) | One::Breaker(_) | One::AdaptiveBreaker(_) => Self::NONE,
        }
    }

    fn endless(limiter: &Arc<impl Endless + 'static>) -> Self {
        let limiter: Arc<_> = Arc::clone(limiter);
        Self::Endless(limiter)
    }
}

/// Returns a limiter as one of that type, if it is one: with the clock of a process.
pub(super) fn of_process<L, T>(limiter: &Arc<L>) -> Option<Arc<T>>
where
    L: Any + Send + Sync,
    T: Any + Send + Sync,
{
    let limiter: Arc<dyn Any + Send + Sync> = Arc::<L>::clone(limiter);
    limiter.downcast().ok()
}
