//! The rules of a request, as one limiter.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::{Account, Ask, Decision, Limiter, Quota, Refusal};
use leaparray::{MonotonicClock, Permit, Resource, Timestamp};
use smallvec::SmallVec;

use super::concerned::Concerned;
use super::index::RuleList;
use super::word::Place;
use super::{Kept, PlanRef, Version};
use crate::caller::{self, Caller, KeyValues};
use crate::limiter::{RuleClock, RulePermits};
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
    /// The address of a name, by which the handle to the resource is found again.
    handle: usize,
    /// `None` if the resource has one rule alone, so that nothing has to be dropped.
    keys: Option<Keys<K>>,
    /// The same request by a newer plan, after a decision by this one was taken back.
    later: OnceLock<Box<Self>>,
}

/// The keys of a request, from the sources of a list of rules.
type Keys<K> = SmallVec<[KeyValues<K>; 3]>;

/// Returns the keys of a request for the rules of a list.
fn find_keys<A: Caller + ?Sized, C: RuleClock>(
    list: &RuleList,
    resource: &Resource<C>,
    caller: &A,
) -> Keys<A::Key> {
    let handle = |source: &KeySource| caller::key_of_handle(resource, source);
    let mut keys = Keys::new();
    // Not by `collect`, which takes three times as many instructions for one key.
    for source in &list.sources {
        keys.push(KeyValues::of(caller, source, handle));
    }
    keys
}

impl<K: Deref<Target = str>, C: RuleClock> Admission<K, C> {
    /// Finds the rules of a request, and their keys.
    #[inline]
    pub(crate) fn new<A>(plan: Kept<C>, resource: &Resource<C>, caller: &A) -> Self
    where
        A: Caller<Key = K> + ?Sized,
    {
        let admission = Self::find(plan, resource, caller);
        admission.concerned().count_without_key();
        admission
    }

    /// Finds the rules and the keys, and counts none that is missing.
    #[inline]
    fn find<A>(plan: Kept<C>, resource: &Resource<C>, caller: &A) -> Self
    where
        A: Caller<Key = K> + ?Sized,
    {
        let place = plan.index.place_of(resource);
        let list = plan.index.rule_or_list(place).err().map(|list| plan.index.list(list));
        let keys = list.map(|list| find_keys(list, resource, caller));
        Self { plan, place, handle: address_of(resource), keys, later: OnceLock::new() }
    }

    /// Returns the rules of the request.
    #[inline]
    fn concerned(&self) -> Concerned<'_, K, C> {
        let Self { plan, place, keys, .. } = self;
        Concerned { plan, place: *place, keys: keys.as_deref().unwrap_or_default() }
    }

    /// Returns whether no rule concerns the request.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.concerned().is_empty()
    }

    /// Returns the names of the rules that concern the request, in the order in which they are
    /// asked.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.concerned().rules().map(|it| &*it.rule.name)
    }

    /// Returns the request by the plan by which it was decided.
    fn latest(&self) -> Concerned<'_, K, C> {
        let mut latest = self;
        while let Some(later) = latest.later.get() {
            latest = later;
        }
        latest.concerned()
    }
}

impl<K: Deref<Target = str> + Clone, C: RuleClock> Admission<K, C> {
    /// Decides on a request, as the [`Limiter`] does.
    pub(super) fn ask<A>(
        version: &Arc<Version>,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
    ) -> Decision<RulePermits<C>>
    where
        A: Caller<Key = K> + ?Sized,
    {
        let plan = version.plan();
        let place = plan.index.place_of(resource);
        let list = plan.index.rule_or_list(place).err().map(|list| plan.index.list(list));
        let (one, several);
        let keys = match list.map_or(&[][..], |it| &it.sources) {
            [] => &[],
            [source] => {
                one = KeyValues::of(caller, source, |it| caller::key_of_handle(resource, it));
                std::slice::from_ref(&one)
            }
            _ => {
                several = list.map(|list| find_keys(list, resource, caller));
                several.as_deref().unwrap_or_default()
            }
        };
        let concerned = Concerned { plan, place, keys };
        concerned.count_without_key();
        let mut permits = RulePermits::nothing();
        let decision = concerned.decide_and_count(ask, &mut permits).map(|()| permits);
        Self::validated(version, resource, caller, ask, decision)
    }

    /// Returns a decision, unless it may be by numbers of two versions: then a new one.
    #[inline]
    pub(super) fn validated<A>(
        version: &Arc<Version>,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
        decision: Decision<RulePermits<C>>,
    ) -> Decision<RulePermits<C>>
    where
        A: Caller<Key = K> + ?Sized,
    {
        // A refusal is by a number of a version that was in force since the request came.
        if decision.is_refused() || version.number.has_decided() {
            return decision;
        }
        Self::ask_anew(version, resource, caller, ask, decision)
    }

    /// Returns a decision by one rule that does not admit the request at once, or beside a change
    /// of the rules.
    #[inline(never)]
    pub(super) fn conclude<A>(
        version: &Arc<Version>,
        rule: usize,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
        decision: Decision<RulePermits<C>>,
    ) -> Decision<RulePermits<C>>
    where
        A: Caller<Key = K> + ?Sized,
    {
        if let Decision::Refused(refusal) = decision {
            return Decision::Refused(Self::refused_by(version, rule, ask, refusal));
        }
        Self::validated(version, resource, caller, ask, decision)
    }

    /// Counts a refusal at the rule that has refused alone, and returns it in the name of the rule.
    fn refused_by(version: &Version, rule: usize, ask: &Ask<'_>, refusal: Refusal) -> Refusal {
        let rule = &version.plan::<C>().rules[rule];
        if ask.is_first() {
            rule.count_refusal();
        }
        rule.named(ask, refusal)
    }

    /// Returns the rules of a version, which have decided on a request, and the decision that it
    /// gets: see [`AtOnce::Otherwise`](super::AtOnce::Otherwise).
    ///
    /// `word` is the word that the resource had at the decision. A handle that threads share may
    /// have a later word by now, of a newer version.
    #[cfg(feature = "tower")]
    #[cold]
    #[inline(never)]
    pub(crate) fn concluded<A>(
        version: Arc<Version>,
        word: u64,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
        mut decision: Decision<RulePermits<C>>,
    ) -> (Self, Decision<RulePermits<C>>)
    where
        A: Caller<Key = K> + ?Sized,
    {
        // Each rule of a list has named and counted its refusal.
        if let Decision::Refused(refusal) = &mut decision
            && let Some(rule) = version.rule_alone(word)
        {
            *refusal = Self::refused_by(&version, rule, ask, *refusal);
        }
        let admission = Self::find(PlanRef::of(version).into(), resource, caller);
        // A refusal is by a number of a version that was in force since the request came.
        if !decision.is_refused() && !admission.plan.number.has_decided() {
            let next = admission.plan.newest_plan().map(|it| Self::find(it, resource, caller));
            decision = admission.reconsider(next, ask, decision);
        }
        (admission, decision)
    }

    /// Reconsiders a decision by a plan. The caller is there, and has the keys for which the newest
    /// plan asks.
    #[cold]
    #[inline(never)]
    fn ask_anew<A>(
        version: &Arc<Version>,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
        decision: Decision<RulePermits<C>>,
    ) -> Decision<RulePermits<C>>
    where
        A: Caller<Key = K> + ?Sized,
    {
        let plan = PlanRef::of(Arc::clone(version));
        let next = plan.newest_plan().map(|plan| Self::find(plan, resource, caller));
        Self::find(plan.into(), resource, caller).reconsider(next, ask, decision)
    }

    /// Decides anew if a decision by this plan may have read a number of a newer one. `next` is the
    /// same request by the newest plan, if there is one.
    #[cold]
    #[inline(never)]
    fn reconsider(
        &self,
        next: Option<Self>,
        ask: &Ask<'_>,
        decision: Decision<RulePermits<C>>,
    ) -> Decision<RulePermits<C>> {
        let Some(next) = next.filter(|it| !self.concerned().decides_as(it.concerned())) else {
            return decision;
        };
        if let Ok(delayed) = decision.into_result() {
            let (mut permits, wait) = delayed.into_parts();
            // As in an `AllOf`, one of the two has no effect.
            self.concerned().take_back(ask, wait);
            permits.withdraw_at(ask.now());
        }
        let later = self.later.get_or_init(|| Box::new(next));
        // A queue or a combination has peeked at the limiters of this plan before, and would have
        // peeked at those of the next one.
        if !ask.is_first()
            && let Some(refusal) = later.concerned().refused_after(self.concerned(), ask)
        {
            return Decision::Refused(refusal);
        }
        // Not asked `again`: this plan has admitted the request, so no limiter has counted a refusal
        // of it, and several rules count one by a peek at the first question alone.
        later.decide(ask)
    }

    /// Returns the same request by the newest plan, for a decision without the caller. A key that
    /// no rule of this plan has asked for is missing: the request counts with others that lack it.
    ///
    /// Without the rules, there is no other version. A resource that is not listed any more has the
    /// same rules as before.
    fn by_newest_plan(&self) -> Option<Self> {
        let (plan, home) = (self.plan.newest_plan()?, self.plan.home.upgrade()?);
        let handles = home.registry.iter().flat_map(|it| {
            let contexts: Vec<_> = it.contexts().collect();
            [it].into_iter().chain(contexts)
        });
        let mut handles = handles.filter(|it| address_of(it) == self.handle);
        let resource = handles.next()?;
        let concerned = self.concerned();
        let sources = concerned.list().map_or(&[][..], |it| &it.sources);
        let keys = Known { sources, keys: concerned.keys };
        Some(Self::find(plan, &resource, &keys))
    }
}

/// Returns an address that no handle to another resource or context has: the address of the name of
/// the context, or of the name of the resource if the handle is to no context.
fn address_of<C>(resource: &Resource<C>) -> usize {
    resource.context().unwrap_or_else(|| resource.name()).as_ptr().addr()
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
        self.of(source).map_or_else(Vec::new, |it| it.given().to_vec())
    }
}

impl<K: Deref<Target = str> + Clone, C: RuleClock> Limiter for Admission<K, C> {
    type Permit = RulePermits<C>;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<RulePermits<C>> {
        if let Some(later) = self.later.get() {
            return later.decide(ask);
        }
        let mut permits = RulePermits::nothing();
        let decision = self.concerned().decide_and_count(ask, &mut permits).map(|()| permits);
        // A refusal is by a number of a version that was in force since the request came.
        if decision.is_refused() || self.plan.number.has_decided() {
            return decision;
        }
        self.reconsider(self.by_newest_plan(), ask, decision)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.latest().all().peek(ask)
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

/// The account of all rules, as an [`AllOf`](leaparray::flow::AllOf) of them has it.
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
        let Self { plan, place, handle, keys, later } = self;
        let (plan, keys, later) = (plan.plan().clone().into(), keys.clone(), later.clone());
        Self { plan, place: *place, handle: *handle, keys, later }
    }
}

impl<K, C: RuleClock> fmt::Debug for Admission<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.plan.index.members(self.place);
        f.debug_list().entries(members.map(|it| &self.plan.rules[it.rule].rule.name)).finish()
    }
}
