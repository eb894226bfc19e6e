//! The limiter of a rule for one request, and as a monitor shows it.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray::flow::shadow::{Rollout, Shadow};
use leaparray::flow::watch::{Watch, WatchedState};
use leaparray::flow::{Account, Ask, Decision, Limiter, Quota};

use super::{RuleClock, RuleLimiter, RulePermit};
use crate::part::Part;

/// The limiter of a rule, for a request with a key.
pub(crate) struct Asked<'a, C: RuleClock> {
    pub(super) limiter: &'a RuleLimiter<C>,
    /// Empty if the rule has none.
    pub(super) key: &'a str,
    /// The part of the limit that the request may use.
    pub(super) part: Part<'a>,
    /// How far the limiter is enforced; `None` if it is as a whole.
    pub(super) rollout: Option<&'a Rollout>,
}

impl<'a, C: RuleClock> Asked<'a, C> {
    /// Returns the limiter as far as it is enforced.
    fn shadow(&self, rollout: &'a Rollout) -> Shadow<Self, &'a Rollout> {
        let Self { limiter, key, part, .. } = *self;
        let shadow = Shadow::with_rollout(Self { limiter, key, part, rollout: None }, rollout);
        match limiter {
            RuleLimiter::One(_) | RuleLimiter::ByClass(_) | RuleLimiter::ByTenant(_) => shadow,
            RuleLimiter::PerKey { .. } => shadow.of_key(key),
        }
    }

    fn with<T>(&self, read: impl FnOnce(&dyn Account) -> T) -> T {
        match (self.rollout, self.limiter) {
            (Some(rollout), _) => read(self.shadow(rollout).account()),
            (None, RuleLimiter::One(one)) => read(one.account()),
            (None, RuleLimiter::PerKey { keys, .. }) => {
                keys.with_account(self.key, self.part, read)
            }
            (None, RuleLimiter::ByClass(classes)) => classes.with_account(self.part.share(), read),
            (None, RuleLimiter::ByTenant(tenants)) => tenants.with_account(self.part, read),
        }
    }
}

impl<C: RuleClock> Limiter for Asked<'_, C> {
    type Permit = RulePermit<C>;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<RulePermit<C>> {
        match (self.rollout, self.limiter) {
            (Some(rollout), _) => {
                let decision = self.shadow(rollout).decide(ask);
                decision.map(|permit| permit.unwrap_or(RulePermit::nothing()))
            }
            (None, RuleLimiter::One(one)) => one.decide(ask),
            (None, RuleLimiter::PerKey { keys, .. }) => keys.decide(self.key, self.part, ask),
            (None, RuleLimiter::ByClass(classes)) => classes.decide_with(self.part.share(), ask),
            (None, RuleLimiter::ByTenant(tenants)) => tenants.decide(self.part, ask),
        }
    }

    #[inline]
    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        match (self.rollout, self.limiter) {
            (Some(rollout), _) => self.shadow(rollout).peek(ask),
            (None, RuleLimiter::One(one)) => one.peek(ask),
            (None, RuleLimiter::PerKey { keys, .. }) => keys.peek(self.key, self.part, ask),
            (None, RuleLimiter::ByClass(classes)) => classes.peek_with(self.part.share(), ask),
            (None, RuleLimiter::ByTenant(tenants)) => tenants.peek(self.part, ask),
        }
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        match (self.rollout, self.limiter) {
            (None, RuleLimiter::One(one)) => one.account(),
            _ => self,
        }
    }
}

impl<C: RuleClock> Account for Asked<'_, C> {
    fn now(&self) -> Timestamp {
        self.with(|account| account.now())
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.with(|account| account.quota(now))
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.with(|account| account.each_quota(now, visit));
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        self.with(|account| account.watched_at(now))
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.with(|account| account.is_as_new(now))
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        self.with(|account| account.refund(ask, wait))
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.with(|account| account.wake_on_answer(waker))
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.with(|account| account.note_wait(permits))
    }
}

/// The limiter of a rule, as exporters show it.
#[derive(Clone)]
pub(crate) struct Watched<C: RuleClock> {
    limiter: Weak<RuleLimiter<C>>,
    rollout: Option<Arc<Rollout>>,
}

impl<C: RuleClock> Watched<C> {
    pub(crate) fn new(limiter: &Arc<RuleLimiter<C>>, rollout: Option<&Arc<Rollout>>) -> Self {
        Self { limiter: Arc::downgrade(limiter), rollout: rollout.cloned() }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.limiter.ptr_eq(&other.limiter) && self.rollout.is_some() == other.rollout.is_some()
    }
}

impl<C: RuleClock> Watch for Watched<C> {
    fn watched(&self) -> Option<WatchedState> {
        let limiter = self.limiter.upgrade()?;
        let state = match &*limiter {
            RuleLimiter::One(one) => one.watched(),
            RuleLimiter::PerKey { keys, .. } => keys.watched(),
            RuleLimiter::ByClass(classes) => classes.watched(),
            RuleLimiter::ByTenant(tenants) => tenants.watched(),
        }?;
        let Some(rollout) = &self.rollout else { return Some(state) };
        let shadow = Shadow::with_rollout(Shown(state), &**rollout);
        Some(shadow.account().watched_at(Timestamp::MIN))
    }
}

/// A limiter that is asked for its state alone.
struct Shown(WatchedState);

impl Limiter for Shown {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Admitted(())
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Shown {
    fn watched_at(&self, _now: Timestamp) -> WatchedState {
        self.0.clone()
    }
}
