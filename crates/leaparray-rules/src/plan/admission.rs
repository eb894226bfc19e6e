//! The rules of a request, as one limiter.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::{Account, AllOf, Ask, Decision, Limiter, Named, Quota};
use leaparray::{MonotonicClock, Outcome, Permit, Resource, Timestamp};
use smallvec::SmallVec;

use super::index::{Member, Place, RuleList};
use super::{Active, Kept, MemberKey, Plan};
use crate::caller::{Caller, KeyValues};
use crate::limiter::{Asked, RuleClock, RulePermit};
use crate::rule::KeySource;

/// The rules that concern a request, as one limiter: it admits the request if each of them does,
/// and charges none of them if one refuses it. See
/// [`Rules::limiter`](crate::Rules::limiter).
///
/// Its rules are those of one version. If they are changed while it decides, such that the decision
/// may be by numbers of two versions, it takes the decision back and decides by the newest version.
pub struct Admission<K, C: RuleClock = MonotonicClock> {
    plan: Kept<C>,
    place: Place,
    /// The address of the resource's name, by which the resource is found again.
    resource: usize,
    /// The name of the resource, if a rule has it as its key.
    name: Option<Name>,
    keys: Keys<K>,
    /// The same request by a newer plan, after a decision by this one was taken back.
    later: OnceLock<Box<Self>>,
}

/// The name of a resource.
type Name = Arc<str>;

/// The keys of a request, from the sources of a list of rules.
type Keys<K> = SmallVec<[KeyValues<K>; 3]>;

impl<K: Deref<Target = str>, C: RuleClock> Admission<K, C> {
    /// Finds the rules of a request, and their keys.
    #[inline(always)]
    pub(crate) fn new<A>(plan: Kept<C>, resource: &Resource<C>, caller: &A) -> Self
    where
        A: Caller<Key = K> + ?Sized,
    {
        Self::find(plan, resource, caller, true)
    }

    /// Finds the rules and the keys. `counts` is whether a key that is missing is counted.
    #[inline(always)]
    fn find<A>(plan: Kept<C>, resource: &Resource<C>, caller: &A, counts: bool) -> Self
    where
        A: Caller<Key = K> + ?Sized,
    {
        let place = plan.index.place_of(resource);
        let (name, keys) = match place {
            Place::Alone(_) => (None, SmallVec::new()),
            Place::List(list) => Self::find_keys(&plan, list, resource, caller, counts),
        };
        let (resource, later) = (resource.name().as_ptr().addr(), OnceLock::new());
        Self { plan, place, resource, name, keys, later }
    }

    /// Returns the name of the resource, if a rule of the list has it as its key, and the keys.
    fn find_keys<A>(
        plan: &Plan<C>,
        list: usize,
        resource: &Resource<C>,
        caller: &A,
        counts: bool,
    ) -> (Option<Name>, Keys<K>)
    where
        A: Caller<Key = K> + ?Sized,
    {
        let list = plan.index.list(list);
        let name = list.has_name.then(|| resource.series_key().name);
        let keys: Keys<K> = list.sources.iter().map(|it| KeyValues::of(caller, it)).collect();
        if counts && keys.iter().any(|it| it.one().is_none()) {
            Self::count_without_key(plan, list, &keys);
        }
        (name, keys)
    }

    /// Counts a request at the rules whose key it lacks.
    #[cold]
    fn count_without_key(plan: &Plan<C>, list: &RuleList, keys: &[KeyValues<K>]) {
        for member in &list.members {
            let Active { rule, limiter, .. } = &plan.rules[member.rule];
            if let MemberKey::Source(place) = member.key
                && keys[place].one().is_none()
                && list.holds(member, rule, |place| keys[place].all())
            {
                limiter.count_without_key();
            }
        }
    }

    /// Returns whether no rule concerns the request.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self.list() {
            None => false,
            Some(list) if list.has_conditions() => self.members().next().is_none(),
            Some(list) => list.members.is_empty(),
        }
    }

    /// Returns the names of the rules that concern the request, in the order in which they are
    /// asked.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules().map(|it| &*it.rule.name)
    }

    /// Returns the list of the rules of the resource, unless it has one rule without a key.
    #[inline]
    fn list(&self) -> Option<&RuleList> {
        match self.place {
            Place::Alone(_) => None,
            Place::List(place) => Some(self.plan.index.list(place)),
        }
    }

    /// Returns the rules that concern the request.
    fn members(&self) -> impl Iterator<Item = &Member> {
        let key = |place: usize| self.keys[place].all();
        let rule = |member: &Member| &*self.plan.rules[member.rule].rule;
        let list = self.list();
        let members = self.plan.index.members(self.place).iter();
        members.filter(move |it| list.is_none_or(|list| list.holds(it, rule(it), key)))
    }

    fn rules(&self) -> impl Iterator<Item = &Active<C>> {
        self.members().map(|member| &self.plan.rules[member.rule])
    }

    /// Returns the key of a member.
    #[inline]
    fn key(&self, member: &Member) -> &str {
        let key = match member.key {
            MemberKey::None => None,
            MemberKey::Resource => self.name.as_deref(),
            MemberKey::Source(place) => self.keys[place].one().map(|it| &**it),
        };
        // Requests without a key count together: one that leaves it out gains nothing.
        key.unwrap_or_default()
    }

    /// Returns the limiter of a member.
    #[inline]
    fn asked(&self, member: &Member) -> Named<Asked<'_, C>> {
        self.plan.rules[member.rule].asked(self.key(member))
    }

    fn each(&self) -> impl Iterator<Item = Named<Asked<'_, C>>> {
        self.members().map(|member| self.asked(member))
    }

    fn all(&self) -> AllOf<Vec<Named<Asked<'_, C>>>> {
        AllOf::new(self.each().collect())
    }

    /// Decides by up to three rules without an allocation.
    #[inline(always)]
    fn decide_by_plan(&self, ask: &Ask<'_>) -> Decision<RulePermits<C>> {
        if let Place::Alone(rule) = self.place {
            return self.plan.rules[rule].decide("", ask);
        }
        self.decide_by_list(ask)
    }

    fn decide_by_list(&self, ask: &Ask<'_>) -> Decision<RulePermits<C>> {
        match self.list() {
            Some(list) if list.has_conditions() => {
                let members: SmallVec<[&Member; 3]> = self.members().collect();
                self.decide_by(&members, ask)
            }
            _ => self.decide_by(self.plan.index.members(self.place), ask),
        }
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
            [a] => {
                let a = a.borrow();
                self.plan.rules[a.rule].decide(self.key(a), ask)
            }
            [a, b] => AllOf::new((asked(a), asked(b)))
                .decide(ask)
                .map(|(a, b)| RulePermits::of_all([a, b])),
            [a, b, c] => AllOf::new((asked(a), asked(b), asked(c)))
                .decide(ask)
                .map(|(a, b, c)| RulePermits::of_all([a, b, c])),
            all => AllOf::new(all.iter().map(asked).collect::<Vec<_>>())
                .decide(ask)
                .map(RulePermits::of_all),
        }
    }

    /// Gives back the permits of a decision by this plan.
    fn give_back(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        let mut one = self.each();
        match (one.next(), one.next()) {
            // The wait of one rule is its own.
            (Some(one), None) => one.account().refund(ask, wait),
            _ => self.all().account().refund(ask, wait),
        }
    }

    /// Returns the request by the plan by which it was decided.
    fn latest(&self) -> &Self {
        let mut latest = self;
        while let Some(later) = latest.later.get() {
            latest = later;
        }
        latest
    }
}

impl<K: Deref<Target = str> + Clone, C: RuleClock> Admission<K, C> {
    /// Decides anew if a decision by this plan may have read a number of a newer one.
    #[cold]
    #[inline(never)]
    fn reconsider(
        &self,
        ask: &Ask<'_>,
        decision: Decision<RulePermits<C>>,
    ) -> Decision<RulePermits<C>> {
        // Without the rules, there is no other version. A resource that is not listed any more
        // has the same rules as before.
        let Some(next) = self.by_newest_plan().filter(|it| !self.decides_as(it)) else {
            return decision;
        };
        if let Ok(delayed) = decision.into_result() {
            let (mut permits, wait) = delayed.into_parts();
            // As in an `AllOf`, one of the two has no effect.
            self.give_back(ask, wait);
            permits.withdraw_at(ask.now());
        }
        self.later.get_or_init(|| Box::new(next)).decide(&ask.again())
    }

    /// Returns the same request by the newest plan. A key that no rule of this plan has asked for
    /// is missing: the request counts with others that lack it.
    fn by_newest_plan(&self) -> Option<Self> {
        let home = self.plan.home.upgrade()?;
        let plan = home.plan.load_full();
        let mut listed = home.registry.iter();
        let resource = listed.find(|it| it.name().as_ptr().addr() == self.resource)?;
        let sources = self.list().map_or(&[][..], |it| &it.sources);
        let keys = Known { sources, keys: &self.keys };
        Some(Self::find(Kept::from(plan), &resource, &keys, false))
    }

    /// Returns whether each decision by this plan, beside the changes up to the next one, is one by
    /// the rules of this plan or of the next one.
    fn decides_as(&self, next: &Self) -> bool {
        let mut changed = 0;
        let (mut rules, mut next_rules) = (self.rules(), next.rules());
        let are_same = loop {
            match (rules.next(), next_rules.next()) {
                (None, None) => break true,
                (Some(rule), Some(next))
                    if Arc::ptr_eq(&rule.limiter, &next.limiter)
                        && rule.rule.mode == next.rule.mode =>
                {
                    // A rule that was changed and changed back is another one.
                    changed += usize::from(!Arc::ptr_eq(&rule.rule, &next.rule));
                }
                _ => break false,
            }
        };
        // If one rule has changed once, its number is of one of the two versions.
        are_same && (changed == 0 || changed == 1 && next.plan.version == self.plan.version + 1)
    }
}

/// The keys that are known of a request.
struct Known<'a, K> {
    sources: &'a [KeySource],
    keys: &'a [KeyValues<K>],
}

impl<K> Known<'_, K> {
    fn of(&self, source: &KeySource) -> Option<&KeyValues<K>> {
        let place = self.sources.iter().position(|it| it == source)?;
        Some(&self.keys[place])
    }
}

impl<K: Deref<Target = str> + Clone> Caller for Known<'_, K> {
    type Key = K;

    fn key(&self, source: &KeySource) -> Option<K> {
        self.of(source)?.one().cloned()
    }

    fn several(&self, source: &KeySource) -> Vec<K> {
        self.of(source).map_or_else(Vec::new, |it| it.all().to_vec())
    }
}

impl<K: Deref<Target = str> + Clone, C: RuleClock> Limiter for Admission<K, C> {
    type Permit = RulePermits<C>;

    #[inline(always)]
    fn decide(&self, ask: &Ask<'_>) -> Decision<RulePermits<C>> {
        if let Some(later) = self.later.get() {
            return later.decide(ask);
        }
        let decision = self.decide_by_plan(ask);
        // A refusal is by a number of a version that was in force since the request came.
        if decision.is_refused() || self.plan.has_decided() {
            return decision;
        }
        self.reconsider(ask, decision)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.latest().all().peek(ask)
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

/// The account of all rules, as an [`AllOf`] of them has it.
impl<K: Deref<Target = str>, C: RuleClock> Account for Admission<K, C> {
    fn now(&self) -> Timestamp {
        let mut times = self.latest().each().map(|it| it.account().now());
        times.find(|it| *it > Timestamp::MIN).unwrap_or(Timestamp::MIN)
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.latest().all().account().quota(now)
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.latest().each().for_each(|it| it.account().each_quota(now, visit));
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.latest().all().account().is_as_new(now)
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        self.latest().give_back(ask, wait)
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.latest().all().account().wake_on_answer(waker)
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.latest().all().account().note_wait(permits)
    }
}

impl<K: Clone, C: RuleClock> Clone for Admission<K, C> {
    fn clone(&self) -> Self {
        let Self { plan, place, resource, name, keys, later } = self;
        let (name, keys, later) = (name.clone(), keys.clone(), later.clone());
        let plan = Kept::from(Arc::clone(plan));
        Self { plan, place: *place, resource: *resource, name, keys, later }
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
    Two([RulePermit<C>; 2]),
    Many(Vec<RulePermit<C>>),
}

impl<C: RuleClock> RulePermits<C> {
    /// Returns the permits of a request of one rule.
    #[inline]
    pub(super) fn of(permit: RulePermit<C>) -> Self {
        Self(if permit.is_nothing() { Held::Nothing } else { Held::One(permit) })
    }

    /// Returns those of the permits that have to end. Up to two need no allocation.
    fn of_all(permits: impl IntoIterator<Item = RulePermit<C>>) -> Self {
        let mut permits = permits.into_iter().filter(|it| !it.is_nothing());
        Self(match (permits.next(), permits.next(), permits.next()) {
            (Some(a), Some(b), Some(c)) => {
                Held::Many([a, b, c].into_iter().chain(permits).collect())
            }
            (Some(a), Some(b), None) => Held::Two([a, b]),
            (Some(a), ..) => Held::One(a),
            (None, ..) => Held::Nothing,
        })
    }

    #[inline]
    fn permits(&mut self) -> &mut [RulePermit<C>] {
        match &mut self.0 {
            Held::Nothing => &mut [],
            Held::One(permit) => std::slice::from_mut(permit),
            Held::Two(permits) => permits,
            Held::Many(permits) => permits,
        }
    }
}

impl<C: RuleClock> Permit for RulePermits<C> {
    #[inline]
    fn end_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permits().iter_mut().for_each(|it| it.end_at(now, outcome));
    }

    #[inline]
    fn withdraw_at(&mut self, now: Timestamp) {
        self.permits().iter_mut().for_each(|it| it.withdraw_at(now));
    }

    #[inline]
    fn drop_at(&mut self, now: Timestamp, outcome: Outcome) {
        self.permits().iter_mut().for_each(|it| it.drop_at(now, outcome));
    }
}

impl<K, C: RuleClock> fmt::Debug for Admission<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.plan.index.members(self.place).iter();
        f.debug_list().entries(members.map(|it| &self.plan.rules[it.rule].rule.name)).finish()
    }
}
