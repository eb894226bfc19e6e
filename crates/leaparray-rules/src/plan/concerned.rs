//! The rules of one version for a request.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{AllOf, Ask, Decision, Limiter, LimiterExt, Named, Outlook, Refusal};
use smallvec::SmallVec;

use super::index::{Member, RuleList};
use super::word::Place;
use super::{Active, Plan, together};
use crate::caller::KeyValues;
use crate::limiter::{Asked, RuleClock, RulePermits};
use crate::part::Part;

/// The rules of one version for a request, which decide by keys that they borrow.
pub(super) struct Concerned<'a, K, C: RuleClock> {
    pub(super) plan: &'a Plan<C>,
    pub(super) place: Place,
    pub(super) keys: &'a [KeyValues<K>],
}

impl<K, C: RuleClock> Clone for Concerned<'_, K, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, C: RuleClock> Copy for Concerned<'_, K, C> {}

impl<'a, K: Deref<Target = str>, C: RuleClock> Concerned<'a, K, C> {
    /// Returns the list of the rules of the resource, unless it has one rule without a key.
    #[inline]
    pub(super) fn list(self) -> Option<&'a RuleList> {
        let index = &self.plan.index;
        index.rule_or_list(self.place).err().map(|place| index.list(place))
    }

    /// Counts a request at the rules whose key it lacks.
    #[inline]
    pub(super) fn count_without_key(self) {
        if self.keys.iter().any(|it| it.text().is_none()) {
            self.count_missing();
        }
    }

    #[cold]
    fn count_missing(self) {
        for member in self.members() {
            if member.key.is_some_and(|place| self.keys[place].text().is_none()) {
                self.plan.rules[member.rule].limiter.count_without_key();
            }
        }
    }

    /// Counts a refusal at the rule that has refused, if it is the answer to the first question of
    /// a request: a request that waits in a queue asks several times.
    #[inline(never)]
    fn count_refusal(self, ask: &Ask<'_>, refusal: &Refusal) {
        if ask.is_first()
            && let Some(rule) = self.rules().find(|it| it.has_refused(refusal))
        {
            rule.count_refusal();
        }
    }

    pub(super) fn is_empty(self) -> bool {
        match self.list() {
            None => false,
            Some(list) if list.has_conditions() => self.members().next().is_none(),
            Some(list) => list.members.is_empty(),
        }
    }

    /// Returns the rules that concern the request.
    fn members(self) -> impl Iterator<Item = Member> + use<'a, K, C> {
        let Self { plan, place, keys } = self;
        let rule = |member: Member| &*plan.rules[member.rule].rule;
        let list = self.list();
        let members = plan.index.members(place);
        members.filter(move |it| list.is_none_or(|list| list.holds(*it, rule(*it), keys)))
    }

    pub(super) fn rules(self) -> impl Iterator<Item = &'a Active<C>> {
        self.members().map(move |member| &self.plan.rules[member.rule])
    }

    /// Returns the key of a member.
    #[inline]
    pub(super) fn key(self, member: Member) -> &'a str {
        let Self { keys, .. } = self;
        // Requests without a key count together: one that leaves it out gains nothing.
        member.key.and_then(|place| keys[place].text()).unwrap_or_default()
    }

    /// Returns the part of the limit of a member that the request may use.
    #[inline]
    pub(super) fn part(self, member: Member) -> Part<'a> {
        let Self { plan, keys, .. } = self;
        member.part.map_or(Part::Whole, |place| plan.rules[member.rule].rule.part(&keys[place]))
    }

    #[inline]
    pub(super) fn rule(self, member: &Member) -> &'a Active<C> {
        let Self { plan, .. } = self;
        &plan.rules[member.rule]
    }

    /// Returns the limiter of a member.
    pub(super) fn asked(self, member: Member) -> Named<Asked<'a, C>> {
        let Self { plan, .. } = self;
        plan.rules[member.rule].asked(self.key(member), self.part(member))
    }

    pub(super) fn each(self) -> impl Iterator<Item = Named<Asked<'a, C>>> {
        self.members().map(move |member| self.asked(member))
    }

    pub(super) fn all(self) -> AllOf<Vec<Named<Asked<'a, C>>>> {
        AllOf::new(self.each().collect())
    }

    /// Decides without an allocation, unless more than two rules have permits that end. Adds these
    /// to `permits`, which are none before.
    #[inline]
    fn decide(self, ask: &Ask<'_>, permits: &mut RulePermits<C>) -> Decision {
        let list = match self.plan.index.rule_or_list(self.place) {
            Ok(rule) => return self.plan.rules[rule].decide_into("", Part::Whole, ask, permits),
            Err(list) => self.plan.index.list(list),
        };
        if list.has_conditions() {
            let members: SmallVec<[Member; 3]> = self.members().collect();
            return self.decide_by(&members, ask, permits);
        }
        self.decide_by(&list.members, ask, permits)
    }

    /// Decides, and counts a refusal at the rule that has refused.
    #[inline]
    pub(super) fn decide_and_count(self, ask: &Ask<'_>, permits: &mut RulePermits<C>) -> Decision {
        let decision = self.decide(ask, permits);
        self.count_if_refused(ask, &decision);
        decision
    }

    /// Counts a refusal at the rule that has refused, if the decision is one.
    #[inline]
    pub(super) fn count_if_refused(self, ask: &Ask<'_>, decision: &Decision) {
        if let Decision::Refused(refusal) = decision {
            self.count_refusal(ask, refusal);
        }
    }

    #[inline]
    fn decide_by(
        self,
        members: &[Member],
        ask: &Ask<'_>,
        permits: &mut RulePermits<C>,
    ) -> Decision {
        match members {
            [] => Decision::Admitted(()),
            [one] => {
                let (key, part) = (self.key(*one), self.part(*one));
                self.rule(one).decide_into(key, part, ask, permits)
            }
            all if all.len() <= together::MOST => together::decide(self, all, ask, permits),
            all => self.decide_by_many(all, ask, permits),
        }
    }

    #[cold]
    fn decide_by_many(
        self,
        members: &[Member],
        ask: &Ask<'_>,
        permits: &mut RulePermits<C>,
    ) -> Decision {
        let asked = members.iter().map(|it| self.asked(*it)).collect::<Vec<_>>();
        AllOf::new(asked).decide(ask).map(|all| *permits = RulePermits::of_all(all))
    }

    /// Gives back the permits of a decision by this plan.
    pub(super) fn give_back(self, ask: &Ask<'_>, wait: Duration) -> bool {
        let mut one = self.each();
        match (one.next(), one.next()) {
            // The wait of one rule is its own.
            (Some(one), None) => one.account().refund(ask, wait),
            _ => self.all().account().refund(ask, wait),
        }
    }

    /// Gives back the permits of a decision by this plan, as far as each rule can, also of one that
    /// makes the request wait. Which of several rules has made it wait is not known: of these, none
    /// gives its time back.
    pub(super) fn take_back(self, ask: &Ask<'_>, wait: Duration) {
        let may_wait = |it: &Active<C>| it.rule.limit.may_make_wait();
        let one_waits = self.rules().filter(|it| may_wait(it)).count() == 1;
        for (rule, asked) in self.rules().zip(self.each()) {
            let own = if may_wait(rule) { wait } else { Duration::ZERO };
            if own.is_zero() || one_waits {
                asked.account().refund(ask, own);
            }
        }
    }

    /// Returns the refusal that a request would get if one of the limiters refuses it that are not
    /// those of `former`, which had its first question. This peek is the first question to each of
    /// the others: one that counts requests counts it.
    ///
    /// A limiter of `former` has admitted the request. If it refuses now, as its limit was lowered,
    /// its decision counts the refusal.
    pub(super) fn refused_after(self, former: Self, ask: &Ask<'_>) -> Option<Refusal> {
        let (first, mut outlook, mut is_refused) = (first(ask), Outlook::default(), false);
        for (rule, asked) in self.rules().zip(self.each()) {
            let is_asked = former.rules().any(|it| Arc::ptr_eq(&it.limiter, &rule.limiter));
            let foretold = asked.foretell(if is_asked { ask } else { &first });
            is_refused |= !is_asked && foretold.as_ref().is_some_and(Decision::is_refused);
            outlook.add(foretold);
        }
        outlook.refusal().filter(|_| is_refused)
    }

    /// Returns whether each decision by this plan, beside the changes up to the next one, is one by
    /// the rules of this plan or of the next one.
    pub(super) fn decides_as(self, next: Self) -> bool {
        let mut changed = 0;
        let (mut rules, mut next_rules) = (self.rules(), next.rules());
        let are_same = loop {
            match (rules.next(), next_rules.next()) {
                (None, None) => break true,
                (Some(rule), Some(next))
                    if Arc::ptr_eq(&rule.limiter, &next.limiter)
                        && rule.rule.mode == next.rule.mode
                        && rule.rule.priority == next.rule.priority
                        && rule.rule.tenants == next.rule.tenants =>
                {
                    // A rule that was changed and changed back is another one.
                    changed += usize::from(!Arc::ptr_eq(&rule.rule, &next.rule));
                }
                _ => break false,
            }
        };
        // If one rule has changed once, its number is of one of the two versions.
        are_same && (changed == 0 || changed == 1 && next.plan.number.is_after(&self.plan.number))
    }
}

/// Returns a question as the first one of its request.
fn first<'a>(ask: &Ask<'a>) -> Ask<'a> {
    let first = Ask::at(ask.now()).many(ask.permits());
    let first = if ask.can_wait() { first } else { first.at_once() };
    ask.node().map_or(first, |it| first.over(it))
}
