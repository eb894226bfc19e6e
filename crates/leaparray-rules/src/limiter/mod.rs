//! The limiters of rules.

mod one;
mod per_key;
mod permit;

use std::sync::Arc;

use leaparray::flow::watch::{Watch, WatchedState};
use leaparray::flow::{Account, Ask, Decision, Limiter, Quota};
use leaparray::{Clock, ManualClock, Timestamp};

use crate::limit::Limit;
use crate::rule::Rule;
use one::One;
use per_key::PerKey;
pub use permit::RulePermit;

/// What a clock of the rules has to be.
pub trait RuleClock: Clock + Clone + Send + Sync + 'static {}

impl<C: Clock + Clone + Send + Sync + 'static> RuleClock for C {}

/// The limiter of a rule. It is changed in place, and outlives the plans that it is in.
pub(crate) enum RuleLimiter<C: RuleClock> {
    /// One limit for all requests.
    One(One<C>),
    /// A limit for each key.
    PerKey(PerKey<C>),
}

/// Returns why a limit cannot be made, if it cannot.
pub(crate) fn check(limit: &Limit) -> Result<(), String> {
    // A clock of the process takes longer to make than the limiter.
    One::new(limit, &ManualClock::new(Timestamp::MIN)).map(drop)
}

impl<C: RuleClock> RuleLimiter<C> {
    /// Creates the limiter of a rule that was checked.
    pub(crate) fn new(rule: &Rule, clock: &C) -> Self {
        match rule.key {
            None => Self::One(One::known(&rule.limit, clock)),
            Some(_) => Self::PerKey(PerKey::new(&rule.limit, rule.max_keys, clock)),
        }
    }

    /// Changes the numbers in place, to a limit that was checked and is of the same kind.
    pub(crate) fn set(&self, limit: &Limit, clock: &C) {
        match self {
            Self::One(one) => one.set(limit),
            Self::PerKey(keys) => keys.set(limit, clock),
        }
    }

    /// Returns the limiter for a request with that key.
    #[inline]
    pub(crate) const fn asked<'a>(&'a self, key: &'a str) -> Asked<'a, C> {
        Asked { limiter: self, key }
    }
}

/// The limiter of a rule, for a request with a key.
pub(crate) struct Asked<'a, C: RuleClock> {
    limiter: &'a RuleLimiter<C>,
    key: &'a str,
}

impl<C: RuleClock> Limiter for Asked<'_, C> {
    type Permit = RulePermit<C>;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<RulePermit<C>> {
        match self.limiter {
            RuleLimiter::One(one) => one.decide(ask),
            RuleLimiter::PerKey(keys) => keys.decide(self.key, ask),
        }
    }

    #[inline]
    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        match self.limiter {
            RuleLimiter::One(one) => one.peek(ask),
            RuleLimiter::PerKey(keys) => keys.peek(self.key, ask),
        }
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        match self.limiter {
            RuleLimiter::One(one) => one.account(),
            RuleLimiter::PerKey(_) => self,
        }
    }
}

/// The account of a key. The others are those of the limiters.
impl<C: RuleClock> Account for Asked<'_, C> {
    fn now(&self) -> Timestamp {
        self.with(Timestamp::MIN, |account| account.now())
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.with(None, |account| account.quota(now))
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.with((), |account| account.each_quota(now, visit));
    }
}

impl<C: RuleClock> Asked<'_, C> {
    fn with<T>(&self, otherwise: T, read: impl FnOnce(&dyn Account) -> T) -> T {
        match self.limiter {
            RuleLimiter::One(_) => otherwise,
            RuleLimiter::PerKey(keys) => keys.with_account(self.key, read),
        }
    }
}

/// The limiter of a rule, as exporters show it.
pub(crate) struct Watched<C: RuleClock>(pub(crate) std::sync::Weak<RuleLimiter<C>>);

impl<C: RuleClock> Watch for Watched<C> {
    fn watched(&self) -> Option<WatchedState> {
        let limiter: Arc<_> = self.0.upgrade()?;
        match &*limiter {
            RuleLimiter::One(one) => one.watched(),
            RuleLimiter::PerKey(keys) => keys.watched(),
        }
    }
}
