//! The rules in force.

mod admission;
mod concerned;
mod fast_list;
pub(crate) mod fast_path;
mod home;
mod index;
mod kept;
mod numbers;
mod together;
mod version;
mod word;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use leaparray::MonotonicClock;
use leaparray::flow::shadow::{Mode, Rollout};
use leaparray::flow::{Ask, Decision, LimiterExt, Named, Refusal};

use crate::limiter::{
    self, Asked, Bucket, FastLimiter, RuleClock, RuleLimiter, RuleName, RulePermits,
};
use crate::part::Part;
use crate::rule::Rule;
pub use admission::Admission;
#[cfg(feature = "tower")]
pub(crate) use fast_path::AtOnce;
pub(crate) use home::Home;
pub(crate) use index::{Index, Member};
pub(crate) use kept::Kept;
use numbers::Numbered;
pub(crate) use numbers::Numbers;
use version::Number;
pub(crate) use version::{PlanRef, Version};

/// The rules of one version. A request is decided by the rules of one plan.
pub(crate) struct Plan<C: RuleClock> {
    pub(crate) rules: Box<[Active<C>]>,
    pub(crate) index: Arc<Index>,
    buckets: Numbered,
    number: Number,
    /// The rules of which this is a version.
    home: Weak<Home<C>>,
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
    /// Whether the limiter decides by the key alone: it is enforced as a whole, and each request
    /// may use all of the limit.
    is_plain: bool,
    name: RuleName,
}

impl<C: RuleClock> Plan<C> {
    /// Creates a plan without rules.
    pub(crate) fn first(home: &Weak<Home<C>>) -> Self {
        let (number, home) = (Number::first(), Weak::clone(home));
        let index = Arc::new(Index::new(std::iter::empty(), Numbers::default()));
        Self { rules: Box::default(), index, buckets: Numbered::default(), number, home }
    }

    /// Creates the plan after this one.
    pub(crate) fn next(&self, rules: Box<[Active<C>]>) -> Self {
        let mut pairs = self.rules.iter().zip(&rules);
        let (numbers, buckets) = Numbers::of(&rules);
        let has_same_index = self.rules.len() == rules.len()
            && pairs.all(|(it, next)| index::is_same(&it.rule, &next.rule))
            && *self.index.buckets() == numbers;
        let index = if has_same_index {
            Arc::clone(&self.index)
        } else {
            Index::new(rules.iter().map(|it| &*it.rule), numbers).into()
        };
        let (number, home) = (self.number.next(), Weak::clone(&self.home));
        Self { rules, index, buckets, number, home }
    }

    /// Returns the newest plan of the same rules; `None` if they were dropped.
    fn newest_plan(&self) -> Option<Kept<C>> {
        Some(self.home.upgrade()?.plan().into())
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
        let (name, is_plain) =
            (limiter::name(&rule.name), is_whole && rule.part_source().is_none());
        Self { rule: Arc::clone(rule), limiter, rollout, refused, is_whole, is_plain, name }
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

    /// Decides on a request with that key, and adds its permit to `permits` if that has an end.
    #[inline]
    fn decide_into(
        &self,
        key: &str,
        part: Part<'_>,
        ask: &Ask<'_>,
        permits: &mut RulePermits<C>,
    ) -> Decision {
        if !self.is_plain {
            return self.decide_in_part(key, part, ask, permits);
        }
        match self.limiter.decide_into(key, ask, permits) {
            Decision::Refused(refusal) => Decision::Refused(self.named(ask, refusal)),
            decision => decision,
        }
    }

    /// As [`decide_into`](Self::decide_into), by a rule that is not enforced as a whole, or of
    /// which a request may use a part.
    #[inline(never)]
    fn decide_in_part(
        &self,
        key: &str,
        part: Part<'_>,
        ask: &Ask<'_>,
        permits: &mut RulePermits<C>,
    ) -> Decision {
        self.asked(key, part).ask(ask).map(|permit| {
            if !permit.is_nothing() {
                permits.push(permit);
            }
        })
    }

    /// Returns the decision that a request with that key would get.
    #[inline]
    fn foretell(&self, key: &str, part: Part<'_>, ask: &Ask<'_>) -> Option<Decision> {
        if !self.is_plain {
            return self.asked(key, part).foretell(ask);
        }
        match self.limiter.foretell(key, ask)? {
            Decision::Refused(refusal) => Some(Decision::Refused(self.named(ask, refusal))),
            decision => Some(decision),
        }
    }

    /// Returns the limiter in the form of the fast path.
    fn fast_limiter(&self) -> FastLimiter {
        FastLimiter::of(&self.limiter, self.rule.key.as_ref(), self.rollout().is_none())
    }

    /// Returns the bucket, if the fast path decides by it without a call through a pointer.
    fn fast_bucket(&self) -> Option<Bucket<MonotonicClock>> {
        if self.rollout().is_some() { None } else { self.limiter.bucket()?.of_process() }
    }

    fn named(&self, ask: &Ask<'_>, refusal: Refusal) -> Refusal {
        limiter::named(&self.name, ask, refusal)
    }

    /// Returns the limiter for a request with that key, which may use that part of the limit, with
    /// the name of the rule.
    #[inline]
    pub(crate) fn asked<'a>(&'a self, key: &'a str, part: Part<'a>) -> Named<Asked<'a, C>> {
        let rollout = self.rollout().map(|it| &**it);
        self.name.over(self.limiter.asked(key, part, rollout))
    }
}

impl<C: RuleClock> Clone for Active<C> {
    fn clone(&self) -> Self {
        let Self { rule, limiter, rollout, refused, is_whole, is_plain, name } = self;
        let (rule, limiter, rollout) = (Arc::clone(rule), Arc::clone(limiter), rollout.clone());
        let refused = Arc::clone(refused);
        let (is_whole, is_plain, name) = (*is_whole, *is_plain, *name);
        Self { rule, limiter, rollout, refused, is_whole, is_plain, name }
    }
}
