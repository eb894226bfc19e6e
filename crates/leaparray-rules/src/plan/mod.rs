//! The rules in force.
#![expect(
    clippy::inline_always,
    reason = "out of line, the plan and the decision go through memory"
)]

mod admission;
mod index;
mod kept;

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};

use leaparray::flow::shadow::{Mode, Rollout};
use leaparray::flow::{Ask, Decision, Limiter, Named, Refusal};

use crate::limiter::{self, Asked, RuleClock, RuleLimiter, RuleName, RulePermit};
use crate::rule::Rule;
use crate::rules::Shared;
pub use admission::{Admission, RulePermits};
pub(crate) use index::{Index, Member, Place};
pub(crate) use kept::Kept;

/// The rules of one version. A request is decided by the rules of one plan.
pub(crate) struct Plan<C: RuleClock> {
    pub(crate) rules: Box<[Active<C>]>,
    pub(crate) index: Arc<Index>,
    /// Greater than the version of the plan before.
    pub(crate) version: u64,
    /// The version of the newest plan of the same rules. It is set after that plan is published,
    /// and before a number of it rises.
    newest: Arc<AtomicU64>,
    /// The rules of which this is a version.
    home: Weak<Shared<C>>,
}

/// A rule with its limiter.
pub(crate) struct Active<C: RuleClock> {
    pub(crate) rule: Arc<Rule>,
    pub(crate) limiter: Arc<RuleLimiter<C>>,
    /// How far the limiter is enforced; `None` if it was always enforced as a whole.
    pub(crate) rollout: Option<Arc<Rollout>>,
    /// The number of requests that it has refused, in all versions.
    refused: Arc<AtomicU64>,
    /// Whether the mode of the rule is to enforce it for all requests.
    is_whole: bool,
    name: RuleName,
}

impl<C: RuleClock> Plan<C> {
    /// Creates a plan without rules.
    pub(crate) fn first(newest: &Arc<AtomicU64>, home: &Weak<Shared<C>>) -> Self {
        let (newest, home) = (Arc::clone(newest), Weak::clone(home));
        let index = Arc::new(Index::new(std::iter::empty()));
        Self { rules: Box::default(), index, version: 0, newest, home }
    }

    /// Creates the plan after this one.
    pub(crate) fn next(&self, rules: Box<[Active<C>]>) -> Self {
        let mut pairs = self.rules.iter().zip(&rules);
        let has_same_index = self.rules.len() == rules.len()
            && pairs.all(|(it, next)| index::is_same(&it.rule, &next.rule));
        let index = if has_same_index {
            Arc::clone(&self.index)
        } else {
            Index::new(rules.iter().map(|it| &*it.rule)).into()
        };
        let (newest, home) = (Arc::clone(&self.newest), Weak::clone(&self.home));
        Self { rules, index, version: self.version + 1, newest, home }
    }

    /// Returns the rule of a resource that has it alone, if it is enforced for all requests.
    #[inline(always)]
    fn rule_alone(&self, place: Place) -> Option<&Active<C>> {
        let rule = &self.rules[place.rule_or_list().ok()?];
        rule.rollout().is_none().then_some(rule)
    }

    /// Returns whether a decision by this plan, which this thread has made, has read no number of a
    /// newer plan that has risen.
    #[inline]
    fn has_decided(&self) -> bool {
        // Acquire: pairs with the Release in `set_newest`. If the decision has read a number that
        // has risen since, the load returns a newer version.
        fence(Ordering::Acquire);
        self.newest.load(Ordering::Relaxed) == self.version
    }

    /// Returns the newest plan of the same rules; `None` if they were dropped.
    fn newest_plan(&self) -> Option<Kept<C>> {
        Some(Kept::from(self.home.upgrade()?.plan.load_full()))
    }

    /// Has each decision by an older plan be reconsidered that reads a number which is set after
    /// this.
    pub(crate) fn set_newest(&self) {
        self.newest.store(self.version, Ordering::Release);
        // Release: pairs with the Acquire in `has_decided`.
        fence(Ordering::Release);
    }
}

impl<C: RuleClock> Active<C> {
    /// Creates the next version of a rule, with the counts of the version before, if there is one.
    /// `rollout` are the counts of what it would have refused, if the limiter is the same.
    pub(crate) fn new(
        rule: &Arc<Rule>,
        limiter: Arc<RuleLimiter<C>>,
        rollout: Option<&Arc<Rollout>>,
        before: Option<&Self>,
    ) -> Self {
        let is_whole = rule.mode == Mode::Enforce;
        let rollout =
            rollout.cloned().or_else(|| (!is_whole).then(|| Arc::new(Rollout::new(rule.mode))));
        let refused = before.map_or_else(Arc::default, |it| Arc::clone(&it.refused));
        let name = limiter::name(&rule.name);
        Self { rule: Arc::clone(rule), limiter, rollout, refused, is_whole, name }
    }

    /// Returns the number of requests that the rule has refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a refusal by this rule.
    fn count_refusal(&self) {
        // Relaxed: the number orders nothing.
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the rule has refused.
    fn has_refused(&self, refusal: &Refusal) -> bool {
        refusal.limiter() == Some(self.name.name())
    }

    /// Returns how far the limiter is enforced; `None` if it is as a whole. In each version by the
    /// mode of the rule, also while the mode of the rollout changes.
    #[inline]
    pub(crate) fn rollout(&self) -> Option<&Arc<Rollout>> {
        if self.is_whole { None } else { self.rollout.as_ref() }
    }

    /// Decides on a request, if the rule has no key, and its permits have no end.
    #[inline(always)]
    fn decide_endless(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.limiter.one()?.decide_endless(&self.name, ask)
    }

    /// Decides on a request, if the rule has no key, and its permits have an end.
    #[inline(always)]
    fn decide_ending(&self, ask: &Ask<'_>) -> Option<Decision<RulePermit<C>>> {
        self.limiter.one()?.decide_ending(&self.name, ask)
    }

    /// Decides on a request with that key, which has no other rule.
    #[inline(always)]
    fn decide(&self, key: &str, ask: &Ask<'_>) -> Decision<RulePermits<C>> {
        if self.rollout().is_some() {
            return self.asked(key).decide(ask).map(|it| RulePermits::of_all([it]));
        }
        self.limiter.decide_named(&self.name, key, ask)
    }

    /// Returns the limiter for a request with that key, with the name of the rule.
    #[inline]
    pub(crate) fn asked<'a>(&'a self, key: &'a str) -> Named<Asked<'a, C>> {
        let rollout = self.rollout().map(|it| &**it);
        self.name.over(self.limiter.asked(key, rollout))
    }
}

impl<C: RuleClock> Clone for Active<C> {
    fn clone(&self) -> Self {
        let Self { rule, limiter, rollout, refused, is_whole, name } = self;
        let (rule, limiter, rollout) = (Arc::clone(rule), Arc::clone(limiter), rollout.clone());
        let refused = Arc::clone(refused);
        Self { rule, limiter, rollout, refused, is_whole: *is_whole, name: *name }
    }
}
