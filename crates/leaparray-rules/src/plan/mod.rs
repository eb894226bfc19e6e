//! The rules in force.

mod admission;
mod index;

use std::sync::Arc;

use leaparray::flow::shadow::{Mode, Rollout};
use leaparray::flow::{Ask, Decision, Limiter, LimiterExt, Named};

use crate::limiter::{Asked, RuleClock, RuleLimiter};
use crate::rule::Rule;
pub(crate) use admission::Kept;
pub use admission::{Admission, RulePermits};
pub(crate) use index::{Index, Member, MemberKey, RuleList};

/// The rules of one version. A request loads one plan, and is decided by the rules of that plan.
pub(crate) struct Plan<C: RuleClock> {
    pub(crate) rules: Box<[Active<C>]>,
    pub(crate) index: Arc<Index>,
}

/// The plan that requests load. Its references are those of requests whose decision is in flight:
/// what lasts longer than a decision keeps the plan within.
pub(crate) struct Pin<C: RuleClock>(pub(crate) Arc<Plan<C>>);

/// A rule with its limiter.
pub(crate) struct Active<C: RuleClock> {
    pub(crate) rule: Arc<Rule>,
    pub(crate) limiter: Arc<RuleLimiter<C>>,
    /// How far the limiter is enforced; `None` if it was always enforced as a whole.
    pub(crate) rollout: Option<Arc<Rollout>>,
    name: Named<Nothing>,
}

/// A limiter for the name of a rule, by which the limiter of each request is named.
#[derive(Clone, Copy)]
struct Nothing;

impl Limiter for Nothing {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Admitted(())
    }
}

impl<C: RuleClock> Plan<C> {
    pub(crate) fn new(rules: Box<[Active<C>]>, before: Option<&Self>) -> Self {
        let all = || rules.iter().map(|it| &*it.rule);
        let kept = before.map(|it| &it.index).filter(|it| it.is_of(all()));
        let index = kept.map_or_else(|| Arc::new(Index::new(all())), Arc::clone);
        Self { rules, index }
    }
}

impl<C: RuleClock> Active<C> {
    /// Creates the next version of a rule, with the counts of the version before, if there is one.
    pub(crate) fn new(
        rule: &Arc<Rule>,
        limiter: Arc<RuleLimiter<C>>,
        before: Option<&Arc<Rollout>>,
    ) -> Self {
        let rollout = before.cloned().or_else(|| {
            let is_whole = rule.mode == Mode::Enforce;
            (!is_whole).then(|| Arc::new(Rollout::new(rule.mode)))
        });
        Self { rule: Arc::clone(rule), limiter, rollout, name: Nothing.named(&rule.name) }
    }

    /// Returns how far the limiter is enforced; `None` if it is as a whole. In each version by the
    /// mode of the rule, also while the mode of the rollout changes.
    #[inline]
    pub(crate) fn rollout(&self) -> Option<&Arc<Rollout>> {
        if self.rule.mode == Mode::Enforce { None } else { self.rollout.as_ref() }
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
        let Self { rule, limiter, rollout, name } = self;
        let (rule, limiter, rollout) = (Arc::clone(rule), Arc::clone(limiter), rollout.clone());
        Self { rule, limiter, rollout, name: *name }
    }
}
