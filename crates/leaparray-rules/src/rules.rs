//! The rules of a registry, and how they are changed.
#![expect(clippy::inline_always, reason = "out of line, the rules of a request go through memory")]

use std::fmt;
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use leaparray::flow::{Ask, Decision, Refusal};
use leaparray::registry::RegistryError;
use leaparray::{Entry, MonotonicClock, Registry, Resource, TrafficType};

use crate::caller::Caller;
use crate::decide::{enter, enter_after, is_nothing};
use crate::enter_error::EnterError;
use crate::limiter::{MaybeFleet, RuleClock, RulePermits};
#[cfg(feature = "tower")]
use crate::plan::AtOnce;
use crate::plan::{Admission, Home, Kept, fast_path};
use crate::rule::Rule;
use crate::source::RulesStatus;
use crate::turn::Turn;

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
/// interval or another number of buckets, if its key or its `max_keys` changes, and if it gets a
/// [priority](crate::Rule::priority) or [tenants](crate::Rule::tenants), or loses them. If both the
/// old and the new one limit the rate of all requests together, the new one is charged with what
/// the old one has charged, as if that were taken at the change, also beyond the limit of a window,
/// but for the few requests that are decided during the change. A limit that warms up begins cold:
/// it is charged as far as it admits at once. A pace has no number of permits: it is charged with
/// nothing, and neither is the limiter that replaces it. Otherwise, the new one begins without a
/// state, as the limiter of a new rule does. [`Changes::begun_anew`](crate::Changes::begun_anew)
/// has the names.
///
/// A rule that is gone, or a limiter that was replaced, takes its state up again if it comes back
/// within an hour, also if the rule has had other limiters since: up to 32 of a name, and of all
/// names the 16,384 that are gone since the latest times. A permit ends at the limiter that has
/// given it, also after its rule was changed or removed.
///
/// A request is decided by the rules of one version: by the list of rules, their resources, keys,
/// modes and shares that are in force when its decision begins. The numbers of rules that stay are
/// changed in this order:
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
/// charged twice by a rule whose permits cannot be given back: by one with a key, by a bucket or a
/// pace that was changed, by a limit that warms up, and by a limiter that replaces another one. A
/// rule that is not enforced, or enforced in part, counts it for each of the decisions.
///
/// A thread keeps the version by which it has decided last, with its limiters and the keys that
/// they store, until it decides again by any rules or ends. So the memory of a rule with many keys
/// that is removed stays while a thread that has decided by it is idle. The registry does not: it
/// is dropped with the last handle to the rules and to it.
///
/// A thread keeps one version. If it decides by two `Rules` in turn, or inside of another decision,
/// it loads the newest version each time, and so writes a reference count that threads share.
///
/// # The registry
///
/// Each rule is [watched](Registry::watch) under its name, so that the page and the exporters show
/// it. Use one `Rules` for a registry: the resources keep what they have found in the one that
/// asked last.
pub struct Rules<C: RuleClock = MonotonicClock> {
    pub(crate) shared: Arc<Shared<C>>,
    /// The number of the newest version. Here as well, so that a request reads it without `shared`.
    pub(crate) newest: Arc<AtomicU64>,
}

pub(crate) struct Shared<C: RuleClock> {
    pub(crate) home: Arc<Home<C>>,
    pub(crate) fleet: MaybeFleet,
    /// The thread that changes the rules has the lock. No request takes it.
    pub(crate) turn: Mutex<Turn<C>>,
    pub(crate) status: Mutex<RulesStatus>,
    /// Wakes the threads that follow sources. They end when it is dropped.
    pub(crate) followers: Mutex<Vec<Arc<SyncSender<()>>>>,
}

/// The entry of a request that the rules have admitted.
pub type RuleEntry<C = MonotonicClock> = Entry<Resource<C>, C, RulePermits<C>>;

impl<C: RuleClock> Rules<C> {
    /// Creates rules for the resources of a registry: at first none. The limiters read its clock.
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        Self::of_fleet(registry, MaybeFleet::default())
    }

    /// Creates rules of a process of a fleet, if there is one.
    pub(crate) fn of_fleet(registry: Arc<Registry<C>>, fleet: MaybeFleet) -> Self {
        let (home, turn) = (Home::new(registry), Mutex::default());
        let (status, followers) = (Mutex::default(), Mutex::default());
        Self::of(Arc::new(Shared { home, fleet, turn, status, followers }))
    }

    /// Returns a handle to rules.
    pub(crate) fn of(shared: Arc<Shared<C>>) -> Self {
        let newest = Arc::clone(shared.home.newest());
        Self { shared, newest }
    }

    /// Returns the registry.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry<C>> {
        &self.shared.home.registry
    }

    /// Returns the rules in force, in their order.
    #[must_use]
    pub fn rules(&self) -> Vec<Arc<Rule>> {
        let plan = self.shared.home.plan();
        plan.rules.iter().map(|it| Arc::clone(&it.rule)).collect()
    }

    /// Returns whether the program has given the rules a fleet.
    pub(crate) fn has_fleet(&self) -> bool {
        self.shared.fleet.is_some()
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
        Admission::new(Kept::newest(&self.shared.home), resource, caller)
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
        fast_path::ask(&self.newest, || &self.shared.home, resource, caller, ask)
    }

    /// Decides on a request, for a layer that has to know which rules have decided: see
    /// [`fast_path::admit`].
    #[cfg(feature = "tower")]
    #[inline(always)]
    pub(crate) fn admit<A: Caller + ?Sized>(
        &self,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
    ) -> AtOnce<C> {
        fast_path::admit(&self.newest, resource, caller, ask)
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
        let decision = self.ask(&resource, caller, &ask.over(&*resource));
        if is_nothing(&decision) {
            mem::forget(decision);
            return Decision::Admitted(enter(resource, &ask));
        }
        enter_after(decision, resource, ask)
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
        let decision = self.ask(&resource, caller, &ask.over(&*resource));
        if is_nothing(&decision) {
            mem::forget(decision);
            return Ok(enter(resource, &ask));
        }
        // Without a wait: a request that would have to wait is refused.
        Ok(enter_after(decision, resource, ask).into_result()?.into_parts().0)
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
        let resource = self.shared.home.registry.resource_with(resource, traffic)?;
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
        let resource = self.shared.home.registry.resource(resource)?;
        let now = resource.clock().now();
        Ok(self.try_enter_at(resource, &caller, now)?)
    }
}

impl<C: RuleClock> Clone for Rules<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), newest: Arc::clone(&self.newest) }
    }
}

impl<C: RuleClock> fmt::Debug for Rules<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.shared.home.plan();
        let names = plan.rules.iter().map(|it| &it.rule.name);
        f.debug_list().entries(names).finish()
    }
}
