//! The rules of a registry, and how they are changed.
#![expect(clippy::inline_always, reason = "out of line, the rules of a request go through memory")]

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use leaparray::flow::{Ask, Decision, Refusal};
use leaparray::registry::RegistryError;
use leaparray::{Entry, MonotonicClock, Registry, Resource, Timestamp, TrafficType};

use crate::caller::Caller;
use crate::changes::Changes;
use crate::limit::Limit;
use crate::limiter::{MaybeFleet, RuleClock, RuleLimiter, RulePermits, Watched};
use crate::plan::{Active, Admission, FastPath, Kept, Plan, PlanRef, Version, fast_path};
use crate::rule::Rule;
use crate::source::RulesStatus;
use crate::text::RuleSet;

/// The rules of a registry. A clone is another handle to the same rules.
///
/// ```
/// use leaparray::Registry;
/// use leaparray_rules::{RuleSet, Rules};
/// use std::sync::Arc;
///
/// let rules = Rules::new(Arc::new(Registry::new()));
/// rules.apply(&RuleSet::parse(
///     r#"
///     [[rule]]
///     name = "each-client"
///     resource = "/api/*"
///     key = "client"
///     limit = "50 per minute, bursts of 2"
///     "#,
/// )?);
/// for _ in 0..2 {
///     rules.try_enter("GET /api/orders", "10.0.0.7")?.success();
/// }
/// let refusal = rules.enter("GET /api/orders", "10.0.0.7")?.refusal().expect("a burst of 2");
/// assert_eq!(refusal.limiter(), Some("each-client"));
/// assert!(rules.enter("GET /api/orders", "10.0.0.8")?.is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Changes
///
/// [`apply`](Self::apply) replaces the rules as a whole, while requests are decided by them.
///
/// A rule is known by its name. If its limiter is of the same kind as before, and has the same key,
/// it keeps its state: buckets, breakers, warmth and keys stay, and the numbers are changed in
/// place. A limiter is replaced if it becomes one of another kind, if its window has another
/// interval or another number of buckets, and if its key or its `max_keys` changes. If both the old
/// and the new one limit the rate of all requests together, the new one is charged with what the
/// old one has charged, but for the few requests that are decided during the change. Otherwise, it
/// begins without a state, as the limiter of a new rule does.
/// [`Changes::begun_anew`] has the names.
///
/// A rule that is gone, or a limiter that was replaced, takes its state up again if it comes back
/// within an hour. A permit ends at the limiter that has given it, also after its rule was changed
/// or removed.
///
/// A request is decided by the rules of one version: by the list of rules, their resources, keys
/// and modes that are in force when its decision begins. The numbers of rules that stay are changed
/// in this order:
///
/// 1. what falls (limits, rates, bursts, waits), and the share of requests rises for which a rule
///    is enforced,
/// 2. the list of rules is replaced,
/// 3. what rises, and the settings that have no order: those of breakers and adaptive limits.
///
/// A decision that began before step 2 and ends after it is taken back if it may be by numbers of
/// two versions, and the request is decided by the new one. So a request that is admitted was
/// admitted by each rule of its version with the numbers of that version, or lower ones. In
/// particular, no request is admitted by the former number of one rule and the new number of
/// another, if neither version admits it. A request that is refused during a change was refused by
/// a number of one of the two versions. A decision beside the change of a breaker or an adaptive
/// limit is by its former settings or by the new ones.
///
/// A change waits for no request, and no request for a change. A request that is decided twice is
/// charged twice by a rule whose permits cannot be given back: by one with a key, and by a bucket
/// that was changed.
///
/// A thread keeps the version by which it has decided last, with its limiters and the keys that
/// they store, until it decides again by any rules or ends. So the memory of a rule with many keys
/// that is removed stays while a thread that has decided by it is idle. The registry does not: it
/// is dropped with the last handle to the rules and to it.
///
/// # The registry
///
/// Each rule is [watched](Registry::watch) under its name, so that the page and the exporters show
/// it. Use one `Rules` for a registry: the resources keep what they have found in the one that
/// asked last.
pub struct Rules<C: RuleClock = MonotonicClock> {
    pub(crate) shared: Arc<Shared<C>>,
}

pub(crate) struct Shared<C: RuleClock> {
    pub(crate) registry: Arc<Registry<C>>,
    pub(crate) fleet: MaybeFleet,
    version: ArcSwap<Version>,
    /// The number of the version.
    pub(crate) newest: Arc<AtomicU64>,
    /// The thread that changes the rules has the lock. No request takes it.
    turn: Mutex<Turn<C>>,
    pub(crate) status: Mutex<RulesStatus>,
    /// Wakes the threads that follow sources. They end when it is dropped.
    pub(crate) followers: Mutex<Vec<Arc<SyncSender<()>>>>,
}

/// The limiters that the registry watches, with the resources at which a page shows them, by the
/// names of the rules.
type WatchedRules<C> = HashMap<Arc<str>, (Watched<C>, Box<str>)>;

/// The rules that are gone by their names, and since when.
type GoneRules<C> = HashMap<Arc<str>, (Active<C>, Timestamp)>;

/// The state that a change leaves for the next one.
struct Turn<C: RuleClock> {
    /// The rules that the registry watches.
    watched: WatchedRules<C>,
    /// The rules that are gone, or whose limiter was replaced, with the time.
    gone: GoneRules<C>,
}

/// A rule that stays, and whose numbers change.
struct Step<C: RuleClock> {
    former: Arc<Rule>,
    /// The numbers until the last step.
    strictest: Limit,
    next: Active<C>,
}

impl<C: RuleClock> Step<C> {
    /// Lowers what falls, and enforces what will be enforced for more requests.
    fn begin(&self, clock: &C) {
        let Self { former, strictest, next } = self;
        if *strictest != former.limit {
            next.limiter.set(strictest, clock);
        }
        if next.rule.mode.enforced() > former.mode.enforced() {
            self.set_mode();
        }
    }

    /// Raises what rises, and sets what has no order.
    fn end(&self, clock: &C) {
        let Self { strictest, next, .. } = self;
        if *strictest != next.rule.limit {
            next.limiter.set(&next.rule.limit, clock);
        }
        self.set_mode();
    }

    fn set_mode(&self) {
        if let Some(rollout) = &self.next.rollout {
            rollout.set_mode(self.next.rule.mode);
        }
    }
}

/// The entry of a request that the rules have admitted.
pub type RuleEntry<C = MonotonicClock> = Entry<Resource<C>, C, RulePermits<C>>;

/// The next plan, and how to come to it.
struct Prepared<C: RuleClock> {
    plan: Plan<C>,
    steps: Vec<Step<C>>,
    carries: Vec<Carry<C>>,
    /// The rules that are removed, or whose limiter is replaced.
    gone: Vec<Active<C>>,
    changes: Changes,
}

/// A limiter that replaces another one, and is charged with what that has charged.
struct Carry<C: RuleClock> {
    from: Arc<RuleLimiter<C>>,
    to: Arc<RuleLimiter<C>>,
    /// The permits that the new limiter has charged by the last call.
    charged: Option<u64>,
}

impl<C: RuleClock> Carry<C> {
    fn new(from: &Arc<RuleLimiter<C>>, to: &Arc<RuleLimiter<C>>) -> Self {
        Self { from: Arc::clone(from), to: Arc::clone(to), charged: None }
    }

    /// Charges what was not charged yet.
    fn charge(&mut self, now: Timestamp) {
        let Self { from, to, charged } = self;
        let (taken, before) = (from.taken(now), charged.unwrap_or_else(|| to.taken(now)));
        to.take(now, taken.saturating_sub(before));
        *charged = Some(taken.max(before));
    }
}

/// Why a request has not entered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnterError {
    /// A rule has refused it.
    Refused(Refusal),
    /// The registry has no such resource, and cannot list it.
    NotListed(RegistryError),
}

impl From<Refusal> for EnterError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<RegistryError> for EnterError {
    fn from(error: RegistryError) -> Self {
        Self::NotListed(error)
    }
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NotListed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EnterError {}

impl<C: RuleClock> Shared<C> {
    /// Returns the newest plan.
    pub(crate) fn plan(&self) -> PlanRef<C> {
        PlanRef::of(self.version.load_full())
    }
}

impl<C: RuleClock> Rules<C> {
    /// The time for which a rule that is gone can come back to its state.
    const KEEP: Duration = Duration::from_secs(3_600);

    /// Creates rules for the resources of a registry: at first none. The limiters read its clock.
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        Self::of_fleet(registry, MaybeFleet::default())
    }

    /// Creates rules of a process of a fleet, if there is one.
    pub(crate) fn of_fleet(registry: Arc<Registry<C>>, fleet: MaybeFleet) -> Self {
        let newest = Arc::new(AtomicU64::new(0));
        let shared = |home: &_| {
            let version = ArcSwap::from_pointee(Version::new(Plan::first(&newest, home)));
            let turn = Mutex::new(Turn { watched: HashMap::new(), gone: HashMap::new() });
            let (status, followers) = (Mutex::default(), Mutex::default());
            Shared { registry, fleet, version, newest, turn, status, followers }
        };
        Self { shared: Arc::new_cyclic(shared) }
    }

    /// Returns the registry.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry<C>> {
        &self.shared.registry
    }

    /// Returns the rules in force, in their order.
    #[must_use]
    pub fn rules(&self) -> Vec<Arc<Rule>> {
        let plan = self.shared.plan();
        plan.rules.iter().map(|it| Arc::clone(&it.rule)).collect()
    }

    /// Replaces the rules; see [Changes](Self#changes). Other threads may ask at the same time.
    /// Threads that change the rules take turns.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_rules::{RuleSet, Rules};
    /// use std::sync::Arc;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// let of = |limit| {
    ///     let text = "[[rule]]\nname = \"orders\"\nresource = \"orders\"\nlimit = ";
    ///     RuleSet::parse(&format!("{text}{limit:?}"))
    /// };
    /// assert_eq!(rules.apply(&of("3 per hour, bursts of 3")?).added[..], [Arc::from("orders")]);
    /// assert!(rules.enter("orders", ())?.is_admitted());
    /// assert_eq!(rules.apply(&of("3 per hour, bursts of 2")?).changed[..], [Arc::from("orders")]);
    /// assert!(rules.enter("orders", ())?.is_admitted(), "two were left");
    /// assert!(rules.enter("orders", ())?.is_admitted(), "one is left");
    /// assert!(rules.enter("orders", ())?.is_refused());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "a report")]
    pub fn apply(&self, rules: &RuleSet) -> Changes {
        let mut turn = locked(&self.shared.turn);
        let before = self.shared.plan();
        let clock = self.shared.registry.clock();
        let now = clock.now();
        turn.gone.retain(|_, (_, since)| now.saturating_since(*since) < Self::KEEP);
        let Prepared { plan, steps, mut carries, gone, mut changes } =
            self.prepare(&before, &turn.gone, rules);
        for carry in &mut carries {
            carry.charge(now);
        }
        for step in &steps {
            step.begin(clock);
        }
        let version = Arc::new(Version::new(plan));
        self.shared.version.store(Arc::clone(&version));
        version.number.set_newest();
        for step in &steps {
            step.end(clock);
        }
        for carry in &mut carries {
            carry.charge(clock.now());
        }
        for rule in rules.rules() {
            turn.gone.remove(&rule.name);
        }
        // A decision that finds its limiter ended is made anew: it is by a former plan.
        let kept = gone.into_iter().filter(|it| it.limiter.end());
        turn.gone.extend(kept.map(|it| (Arc::clone(&it.rule.name), (it, now))));
        changes.not_shown = self.show(&mut turn.watched);
        let not_started = self.each(|it| (!it.is_started()).then_some(()));
        changes.not_started = not_started.into_iter().map(|(name, ())| name).collect();
        let mut status = locked(&self.shared.status);
        status.version += 1;
        (status.rules, status.applied_at) = (rules.rules().len(), Some(clock.now()));
        changes.version = status.version;
        changes
    }

    /// Returns whether the program has given the rules a fleet.
    pub(crate) fn has_fleet(&self) -> bool {
        self.shared.fleet.is_some()
    }

    /// Returns what `read` finds in the limiters of the rules in force, with their names.
    pub(crate) fn each<T>(
        &self,
        read: impl Fn(&RuleLimiter<C>) -> Option<T>,
    ) -> Vec<(Arc<str>, T)> {
        let plan = self.shared.plan();
        let each = plan.rules.iter();
        each.filter_map(|it| Some((Arc::clone(&it.rule.name), read(&it.limiter)?))).collect()
    }

    /// Drops the rules that are gone for too long to come back.
    pub(crate) fn forget_gone(&self) {
        let now = self.shared.registry.clock().now();
        let gone = &mut locked(&self.shared.turn).gone;
        gone.retain(|_, (_, since)| now.saturating_since(*since) < Self::KEEP);
    }

    /// Makes the next plan. Changes nothing.
    fn prepare(&self, before: &Plan<C>, gone: &GoneRules<C>, rules: &RuleSet) -> Prepared<C> {
        let mut former: HashMap<&str, &Active<C>> =
            before.rules.iter().map(|it| (&*it.rule.name, it)).collect();
        let (mut steps, mut carries) = (Vec::new(), Vec::new());
        let (mut replaced, mut changes) = (Vec::new(), Changes::default());
        let active = rules.rules().iter().map(|rule| {
            let known = former.remove(&*rule.name);
            if let Some(same) = known.filter(|it| *it.rule == *rule) {
                changes.unchanged += 1;
                return same.clone();
            }
            let new = Arc::new(rule.clone());
            let in_place = known.and_then(|it| Some((it, it.rule.becomes(rule)?)));
            let Some((known, strictest)) = in_place else {
                let list =
                    if known.is_some() { &mut changes.begun_anew } else { &mut changes.added };
                list.push(Arc::clone(&rule.name));
                replaced.extend(known.cloned());
                // A rule that has come back takes its state up again: no request had it since.
                if let Some((back, _)) = gone.get(&rule.name)
                    && back.rule.becomes(rule).is_some()
                {
                    let rollout = back.rollout.as_ref();
                    let before = known.or(Some(back));
                    let next = Active::new(&new, Arc::clone(&back.limiter), rollout, before);
                    let (former, strictest) = (Arc::clone(&back.rule), rule.limit.clone());
                    steps.push(Step { former, strictest, next: next.clone() });
                    if let Some(known) = known {
                        carries.push(Carry::new(&known.limiter, &back.limiter));
                    }
                    return next;
                }
                let Shared { registry, fleet, .. } = &*self.shared;
                let limiter = Arc::new(RuleLimiter::new(rule, registry, fleet));
                if let Some(known) = known {
                    carries.push(Carry::new(&known.limiter, &limiter));
                }
                return Active::new(&new, limiter, None, known);
            };
            changes.changed.push(Arc::clone(&rule.name));
            let (limiter, rollout) = (Arc::clone(&known.limiter), known.rollout.as_ref());
            let next = Active::new(&new, limiter, rollout, Some(known));
            steps.push(Step { former: Arc::clone(&known.rule), strictest, next: next.clone() });
            next
        });
        let active: Box<[_]> = active.collect();
        changes.removed = former.keys().copied().map(Arc::from).collect();
        changes.removed.sort_unstable();
        replaced.extend(former.into_values().cloned());
        Prepared { plan: before.next(active), steps, carries, gone: replaced, changes }
    }

    /// Has the registry watch the limiters of the present rules, and no others. Returns the names
    /// under which it watches a limiter of the program.
    fn show(&self, watched: &mut WatchedRules<C>) -> Vec<Arc<str>> {
        let registry = &self.shared.registry;
        let plan = self.shared.plan();
        let mut before = mem::take(watched);
        let mut not_shown = Vec::new();
        for active in &plan.rules {
            let rule = &active.rule;
            // On a page, a rule for one resource is shown there.
            let resource = match &rule.resources[..] {
                [one] if one.is_name() => one.as_str(),
                _ => &*rule.name,
            };
            let limiter = Watched::new(&active.limiter, active.rollout());
            if let Some((known, at)) = before.remove(&rule.name) {
                if known.is_same(&limiter) && *at == *resource {
                    watched.insert(Arc::clone(&rule.name), (known, at));
                    continue;
                }
                registry.unwatch(&rule.name);
            }
            if registry.watch_at(resource, &rule.name, limiter.clone()).is_ok() {
                watched.insert(Arc::clone(&rule.name), (limiter, resource.into()));
            } else {
                not_shown.push(Arc::clone(&rule.name));
            }
        }
        for name in before.keys() {
            registry.unwatch(name);
        }
        not_shown
    }

    /// Returns the rules that concern a request of a resource, as one limiter: for
    /// [`enter`](leaparray::flow::LimiterExt::enter), [`ask`](leaparray::flow::LimiterExt::ask),
    /// and their forms with a time.
    ///
    /// Use it for one decision, while you hold the resource.
    ///
    /// ```
    /// use leaparray::flow::{Ask, LimiterExt};
    /// use leaparray::{Clock, Registry};
    /// use leaparray_rules::{RuleSet, Rules};
    /// use std::sync::Arc;
    ///
    /// let registry = Arc::new(Registry::new());
    /// let rules = Rules::new(Arc::clone(&registry));
    /// rules.apply(&RuleSet::parse(
    ///     "[[rule]]\nname = \"jobs\"\nresource = \"jobs\"\nkey = \"extension:tenant\"\n\
    ///      limit = \"4 per minute\"",
    /// )?);
    /// let jobs = registry.resource("jobs")?;
    /// let now = registry.clock().now();
    /// let admits = |tenant| {
    ///     let ask = Ask::at(now).many(3);
    ///     rules.limiter(&jobs, &tenant).try_enter_at(&*jobs, ask).is_ok()
    /// };
    /// assert_eq!([admits("acme"), admits("acme"), admits("globex")], [true, false, true]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn limiter<A: Caller + ?Sized>(
        &self,
        resource: &Resource<C>,
        caller: &A,
    ) -> Admission<A::Key, C> {
        Admission::new(Kept::newest(&self.shared), resource, caller)
    }

    /// Asks the rules for the permits of a request of a resource. As
    /// [`limiter`](Self::limiter)`(resource, caller).ask(ask)` does, in less time. The caller is
    /// asked for its keys again if the rules are changed such that the request is decided anew.
    ///
    /// ```
    /// use leaparray::flow::Ask;
    /// use leaparray::{Clock, Registry};
    /// use leaparray_rules::{RuleSet, Rules};
    /// use std::sync::Arc;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// let text = "[[rule]]\nname = \"jobs\"\nresource = \"jobs\"\nlimit = \"4 per minute\"";
    /// rules.apply(&RuleSet::parse(text)?);
    /// let jobs = rules.registry().resource("jobs")?;
    /// let ask = Ask::at(rules.registry().clock().now()).many(3);
    /// let decisions = [(); 2].map(|()| rules.ask(&jobs, &(), &ask).is_admitted());
    /// assert_eq!(decisions, [true, false]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn ask<A: Caller + ?Sized>(
        &self,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
    ) -> Decision<RulePermits<C>> {
        let mut decision = Decision::Admitted(RulePermits::nothing());
        if self.decide(resource, caller, ask, &mut decision) {
            // Made anew: it is moved in fewer words than one that was in memory.
            mem::forget(decision);
            return Decision::Admitted(RulePermits::nothing());
        }
        decision
    }

    /// Writes the decision on a request into `result`, unless it is admitted without a permit that
    /// has to end. Returns whether it is: `result` then has nothing that a drop would end.
    #[inline(always)]
    fn decide<A: Caller + ?Sized>(
        &self,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
        result: &mut Decision<RulePermits<C>>,
    ) -> bool {
        let path = fast_path::ask(&self.shared.newest, resource, caller, ask, result);
        if path == FastPath::NotTaken {
            Admission::ask(&Kept::newest(&self.shared), resource, caller, ask, result);
        }
        path == FastPath::Admitted
    }

    /// Enters a request into a resource, or refuses it and counts it there. `ask` is a time, or an
    /// [`Ask`].
    ///
    /// ```
    /// use leaparray::{Clock, Registry};
    /// use leaparray_rules::{RuleSet, Rules};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// let text = "[[rule]]\nname = \"jobs\"\nresource = \"jobs\"\npace = \"10 per second\"\n\
    ///             max_wait = \"1s\"";
    /// rules.apply(&RuleSet::parse(text)?);
    /// let (jobs, now) = (rules.registry().resource("jobs")?, rules.registry().clock().now());
    /// let waits = [(); 2].map(|()| rules.enter_at(jobs.clone(), &(), now).wait());
    /// assert_eq!(waits, [Duration::ZERO, Duration::from_millis(100)]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn enter_at<A: Caller + ?Sized>(
        &self,
        resource: Resource<C>,
        caller: &A,
        ask: impl Into<Ask<'static>>,
    ) -> Decision<RuleEntry<C>> {
        let ask = ask.into();
        let mut decision = Decision::Admitted(RulePermits::nothing());
        if self.decide(&resource, caller, &ask.over(&*resource), &mut decision) {
            mem::forget(decision);
            let admitted = Decision::Admitted(RulePermits::nothing());
            return admitted.enter_many_at(resource, ask.now(), ask.permits());
        }
        enter_after(decision, resource, &ask)
    }

    /// Like [`enter_at`](Self::enter_at), for a caller that cannot wait.
    ///
    /// # Errors
    ///
    /// Returns the refusal. A request that would have to wait is refused.
    ///
    /// ```
    /// use leaparray::{Clock, Registry};
    /// use leaparray_rules::{RuleSet, Rules};
    /// use std::sync::Arc;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// let text = "[[rule]]\nname = \"jobs\"\nresource = \"jobs\"\nin_flight = 1";
    /// rules.apply(&RuleSet::parse(text)?);
    /// let (jobs, now) = (rules.registry().resource("jobs")?, rules.registry().clock().now());
    /// let first = rules.enter_at(jobs.clone(), &(), now);
    /// assert!(first.is_admitted());
    /// let refusal = rules.try_enter_at(jobs, &(), now).unwrap_err();
    /// assert_eq!(refusal.limiter(), Some("jobs"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn try_enter_at<A: Caller + ?Sized>(
        &self,
        resource: Resource<C>,
        caller: &A,
        ask: impl Into<Ask<'static>>,
    ) -> Result<RuleEntry<C>, Refusal> {
        let ask = ask.into().at_once();
        let mut decision = Decision::Admitted(RulePermits::nothing());
        let entered = if self.decide(&resource, caller, &ask.over(&*resource), &mut decision) {
            mem::forget(decision);
            let admitted = Decision::Admitted(RulePermits::nothing());
            admitted.enter_many_at(resource, ask.now(), ask.permits())
        } else {
            enter_after(decision, resource, &ask)
        };
        // Without a wait: a request that would have to wait is refused.
        Ok(entered.into_result()?.into_parts().0)
    }

    /// Enters a request into the inbound resource with that name, which is listed if it is new, or
    /// refuses it and counts it there. Reads the clock once.
    ///
    /// A request that can wait, as for a pace, calls [`Decision::sleep`] or
    /// [`Delayed::sleep_with`](leaparray::flow::Delayed::sleep_with). At a time of yours, use
    /// [`limiter`](Self::limiter).
    ///
    /// # Errors
    ///
    /// Returns a [`RegistryError`] if the resource is not listed, and cannot be.
    pub fn enter(
        &self,
        resource: &str,
        caller: impl Caller,
    ) -> Result<Decision<RuleEntry<C>>, RegistryError> {
        self.enter_with(TrafficType::Inbound, resource, caller)
    }

    /// Like [`enter`](Self::enter), for a request to another service: the resource is listed as an
    /// outbound one. A resource has the direction with which it is listed first, and is decided by
    /// the rules for that direction; see [`RulesStatus::misdirected`].
    ///
    /// # Errors
    ///
    /// As for [`enter`](Self::enter).
    pub fn enter_outbound(
        &self,
        resource: &str,
        caller: impl Caller,
    ) -> Result<Decision<RuleEntry<C>>, RegistryError> {
        self.enter_with(TrafficType::Outbound, resource, caller)
    }

    fn enter_with(
        &self,
        traffic: TrafficType,
        resource: &str,
        caller: impl Caller,
    ) -> Result<Decision<RuleEntry<C>>, RegistryError> {
        let resource = self.shared.registry.resource_with(resource, traffic)?;
        let now = resource.clock().now();
        Ok(self.enter_at(resource, &caller, now))
    }

    /// Like [`enter`](Self::enter), for a caller that cannot wait.
    ///
    /// # Errors
    ///
    /// Returns [`EnterError::Refused`] if a rule refuses the request, or it would have to wait, and
    /// [`EnterError::NotListed`] if the resource is not listed, and cannot be.
    pub fn try_enter(
        &self,
        resource: &str,
        caller: impl Caller,
    ) -> Result<RuleEntry<C>, EnterError> {
        let resource = self.shared.registry.resource(resource)?;
        let now = resource.clock().now();
        Ok(self.try_enter_at(resource, &caller, now)?)
    }
}

/// Enters a request into its resource, or counts it there, after a decision of any kind.
#[inline(never)]
fn enter_after<C: RuleClock>(
    decision: Decision<RulePermits<C>>,
    resource: Resource<C>,
    ask: &Ask<'_>,
) -> Decision<RuleEntry<C>> {
    decision.enter_many_at(resource, ask.now(), ask.permits())
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: RuleClock> Clone for Rules<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C: RuleClock> fmt::Debug for Rules<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.shared.plan();
        let names = plan.rules.iter().map(|it| &it.rule.name);
        f.debug_list().entries(names).finish()
    }
}
