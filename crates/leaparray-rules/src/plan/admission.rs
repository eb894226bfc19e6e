//! The rules of a request, as one limiter.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use arc_swap::Guard;
use leaparray::flow::{Account, AllOf, Ask, Decision, Limiter, Named, Quota};
use leaparray::{MonotonicClock, Outcome, Permit, Resource, Timestamp};
use smallvec::SmallVec;

use super::index::Member;
use super::{MemberKey, Pin, Plan, RuleList};
use crate::caller::Caller;
use crate::limiter::{Asked, RuleClock, RulePermit};

/// The rules that concern a request, as one limiter: it admits the request if each of them does,
/// and charges none of them if one refuses it. See
/// [`Rules::limiter`](crate::Rules::limiter).
///
/// Its rules are those of one version. It is meant for one decision: while one exists, a change of
/// the rules waits before it raises a limit. A clone is not waited for.
pub struct Admission<K, C: RuleClock = MonotonicClock> {
    plan: Kept<C>,
    /// The place of its list in the index.
    place: usize,
    /// The name of the resource, if a rule has it as its key.
    name: Option<Arc<str>>,
    keys: SmallVec<[Option<K>; 3]>,
}

/// The plan of a request.
pub(crate) enum Kept<C: RuleClock> {
    /// During its decision, which a change of the rules waits for.
    Pinned(Guard<Arc<Pin<C>>>),
    /// For longer.
    Owned(Arc<Plan<C>>),
}

impl<C: RuleClock> Deref for Kept<C> {
    type Target = Plan<C>;

    #[inline]
    fn deref(&self) -> &Plan<C> {
        match self {
            Self::Pinned(pin) => &pin.0,
            Self::Owned(plan) => plan,
        }
    }
}

impl<K: Deref<Target = str>, C: RuleClock> Admission<K, C> {
    /// Finds the rules of a request, and their keys.
    #[inline]
    pub(crate) fn new<A>(plan: Kept<C>, resource: &Resource<C>, caller: &A) -> Self
    where
        A: Caller<Key = K> + ?Sized,
    {
        let place = plan.index.place_of(resource);
        let RuleList { sources, has_name, .. } = plan.index.list(place);
        let mut keys = SmallVec::new();
        if !sources.is_empty() {
            keys.extend(sources.iter().map(|source| caller.key(source)));
        }
        let name = has_name.then(|| resource.series_key().name);
        Self { plan, place, name, keys }
    }

    /// Returns whether no rule concerns the request.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        let list = self.list();
        if list.has_conditions() {
            self.members().next().is_none()
        } else {
            list.members.is_empty()
        }
    }

    /// Returns the names of the rules that concern the request, in the order in which they are
    /// asked.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members().map(|it| &*self.plan.rules[it.rule].rule.name)
    }

    #[inline]
    fn list(&self) -> &RuleList {
        self.plan.index.list(self.place)
    }

    /// Returns the limiter of a member.
    #[inline]
    fn asked(&self, member: &Member) -> Named<Asked<'_, C>> {
        let key = match member.key {
            MemberKey::None => None,
            MemberKey::Resource => self.name.as_deref(),
            MemberKey::Source(place) => self.keys[place].as_deref(),
        };
        // Requests without a key count together: one that leaves it out gains nothing.
        self.plan.rules[member.rule].asked(key.unwrap_or_default())
    }

    /// Returns the rules that concern the request.
    fn members(&self) -> impl Iterator<Item = &Member> {
        let list = self.list();
        let key = |place: usize| self.keys[place].as_deref();
        let rule = |member: &Member| &*self.plan.rules[member.rule].rule;
        list.members.iter().filter(move |it| list.holds(it, rule(it), key))
    }

    fn each(&self) -> impl Iterator<Item = Named<Asked<'_, C>>> {
        self.members().map(|member| self.asked(member))
    }

    #[inline]
    fn decide_by<M: Borrow<Member>>(
        &self,
        members: &[M],
        ask: &Ask<'_>,
    ) -> Decision<RulePermits<C>> {
        let asked = |member: &M| self.asked(member.borrow());
        match members {
            [] => Decision::Admitted(RulePermits(Held::Nothing)),
            [a] => asked(a).decide(ask).map(|a| RulePermits(Held::One(a))),
            [a, b] => AllOf::new((asked(a), asked(b)))
                .decide(ask)
                .map(|both| RulePermits(Held::Two(both))),
            [a, b, c] => AllOf::new((asked(a), asked(b), asked(c)))
                .decide(ask)
                .map(|all| RulePermits(Held::Three(all))),
            all => AllOf::new(all.iter().map(asked).collect::<Vec<_>>())
                .decide(ask)
                .map(|all| RulePermits(Held::Many(all))),
        }
    }

    fn all(&self) -> AllOf<Vec<Named<Asked<'_, C>>>> {
        AllOf::new(self.each().collect())
    }
}

impl<K: Deref<Target = str>, C: RuleClock> Limiter for Admission<K, C> {
    type Permit = RulePermits<C>;

    /// Decides by up to three rules without an allocation.
    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<RulePermits<C>> {
        let list = self.list();
        if list.has_conditions() {
            let members: SmallVec<[&Member; 3]> = self.members().collect();
            self.decide_by(&members, ask)
        } else {
            self.decide_by(&list.members, ask)
        }
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.all().peek(ask)
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

/// The account of all rules, as an [`AllOf`] of them has it.
impl<K: Deref<Target = str>, C: RuleClock> Account for Admission<K, C> {
    fn now(&self) -> Timestamp {
        let mut times = self.each().map(|it| it.account().now());
        times.find(|it| *it > Timestamp::MIN).unwrap_or(Timestamp::MIN)
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.all().account().quota(now)
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.each().for_each(|it| it.account().each_quota(now, visit));
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.all().account().is_as_new(now)
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        let mut one = self.each();
        match (one.next(), one.next()) {
            // The wait of one rule is its own.
            (Some(one), None) => one.account().refund(ask, wait),
            _ => self.all().account().refund(ask, wait),
        }
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.all().account().wake_on_answer(waker)
    }
}

impl<K: Clone, C: RuleClock> Clone for Admission<K, C> {
    fn clone(&self) -> Self {
        let plan = match &self.plan {
            Kept::Pinned(pin) => &pin.0,
            Kept::Owned(plan) => plan,
        };
        let (place, name, keys) = (self.place, self.name.clone(), self.keys.clone());
        Self { plan: Kept::Owned(Arc::clone(plan)), place, name, keys }
    }
}

/// The permits of a request that all rules have admitted. They end at the limiters that have given
/// them, also if rules were changed or removed since.
#[derive(Debug)]
pub struct RulePermits<C: RuleClock = MonotonicClock>(Held<C>);

#[derive(Debug)]
enum Held<C: RuleClock> {
    Nothing,
    One(RulePermit<C>),
    Two((RulePermit<C>, RulePermit<C>)),
    Three((RulePermit<C>, RulePermit<C>, RulePermit<C>)),
    Many(Vec<RulePermit<C>>),
}

impl<C: RuleClock> Permit for RulePermits<C> {
    #[inline]
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        match &mut self.0 {
            Held::Nothing => {}
            Held::One(permit) => permit.end_at(now, outcome),
            Held::Two(permits) => permits.end_at(now, outcome),
            Held::Three(permits) => permits.end_at(now, outcome),
            Held::Many(permits) => permits.end_at(now, outcome),
        }
    }

    #[inline]
    fn withdraw_at(&mut self, now: Timestamp) {
        match &mut self.0 {
            Held::Nothing => {}
            Held::One(permit) => permit.withdraw_at(now),
            Held::Two(permits) => permits.withdraw_at(now),
            Held::Three(permits) => permits.withdraw_at(now),
            Held::Many(permits) => permits.withdraw_at(now),
        }
    }

    #[inline]
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        match &mut self.0 {
            Held::Nothing => {}
            Held::One(permit) => permit.drop_at(now, outcome),
            Held::Two(permits) => permits.drop_at(now, outcome),
            Held::Three(permits) => permits.drop_at(now, outcome),
            Held::Many(permits) => permits.drop_at(now, outcome),
        }
    }
}

impl<K, C: RuleClock> fmt::Debug for Admission<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = &self.plan.index.list(self.place).members;
        let names = members.iter().map(|it| &self.plan.rules[it.rule].rule.name);
        f.debug_list().entries(names).finish()
    }
}
