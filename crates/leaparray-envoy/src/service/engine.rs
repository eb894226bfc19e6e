//! The decision on a request.
//!
//! # Invariants
//!
//! 1. *Never over.* Each window decides by one atomic step, so no interval has more than its limit,
//!    whichever requests are beside it.
//! 2. *All or nothing.* A request that is over a limit is charged to no limit. Its limits are asked
//!    without a charge first. If another request was faster between the two steps, the limits that
//!    were charged are given back. That fails only if a request has opened a later bucket of the
//!    window in between: the hits then leave the window with their bucket. So an interval may have
//!    less than its limit for that time, and never more.
//! 3. *A shadow refuses nothing.* Only an enforced limit, or all quotas of a request together, make
//!    it over.
//!
//! A request may be refused by hits that another one holds between the steps, and gives back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{Ask, Limiter, Reason};
use leaparray::{Clock, Registry, Timestamp};
use smallvec::SmallVec;

use super::counts::Outcomes;
use super::decision::{By, Code, CurrentLimit, Decision, RuleId, Status};
use super::key::Key;
#[cfg(feature = "redis")]
use super::leases::{self, Leased};
use super::request::{Descriptor, LimitOverride, Request};
use super::settings::{Charging, Fallback};
use super::state::{State, States};
use super::table::{Window, set_limit};
use super::tree::{Level, Rule};
use crate::config::Unit;

pub(super) type Rules<C> = Rule<Arc<State<C>>>;

/// The limit of a descriptor, as far as it is known for the request.
pub(super) struct Asked<'t, C> {
    rule: Option<&'t Rules<C>>,
    requests: u32,
    unit: Unit,
    hits: u64,
    by: By,
    is_refused: bool,
    /// Whether the hits are charged.
    is_taken: bool,
    /// When they were charged, or before: leases give back what was taken since.
    #[cfg(feature = "redis")]
    since: Timestamp,
    /// Whether the next answer of the store may admit it.
    #[cfg(feature = "redis")]
    awaits: bool,
    limit: Found<'t, C>,
}

/// Where the hits of a descriptor are counted.
enum Found<'t, C> {
    /// No limit concerns the descriptor.
    Nothing,
    Unlimited,
    /// Nowhere: the fallback decides.
    Fallback,
    One(&'t Window<C>),
    Key(Arc<Window<C>>),
    #[cfg(feature = "redis")]
    Lease(Leased),
    /// Nowhere: a limit of 0, of which nothing can be leased.
    #[cfg(feature = "redis")]
    Closed,
}

pub(super) type AllAsked<'t, C> = SmallVec<[Asked<'t, C>; 2]>;

impl<C: Clock> Asked<'_, C> {
    fn limiter(&self) -> Option<&dyn Limiter<Permit = ()>> {
        match &self.limit {
            Found::One(window) => Some(*window),
            Found::Key(window) => Some(&**window),
            #[cfg(feature = "redis")]
            Found::Lease(leased) => Some(leased),
            _ => None,
        }
    }

    fn is_shadow(&self) -> bool {
        self.rule.is_some_and(|rule| rule.is_shadow)
    }

    fn is_quota(&self) -> bool {
        self.rule.is_some_and(|rule| rule.is_quota && !rule.is_shadow)
    }

    /// Returns the time of the limiter: leases end by a clock of their own.
    #[inline]
    #[cfg_attr(not(feature = "redis"), expect(clippy::unused_self, reason = "there are no leases"))]
    fn time(&self, now: Timestamp) -> Timestamp {
        #[cfg(feature = "redis")]
        if let Found::Lease(leased) = &self.limit {
            return leased.clock().now();
        }
        now
    }

    /// Asks without a charge. A request without hits asks whether one is left. What a lease cannot
    /// tell counts as not refused.
    fn peek(&mut self, now: Timestamp) {
        let ask = Ask::at(self.time(now)).many(self.hits.max(1));
        if let Some(limiter) = self.limiter() {
            self.is_refused = limiter.peek(&ask).is_some_and(|it| it.is_refused());
        }
    }

    #[inline]
    fn take(&mut self, now: Timestamp) {
        match &self.limit {
            #[cfg(feature = "redis")]
            Found::Closed => {}
            Found::Nothing | Found::Unlimited | Found::Fallback => {}
            #[cfg(feature = "redis")]
            Found::Lease(leased) => {
                self.since = leased.clock().now();
                let (by, refusal) = leases::take(leased, self.hits);
                self.by = by;
                self.is_refused = refusal.is_some();
                self.awaits = refusal.is_some_and(|awaits| awaits);
            }
            Found::One(_) | Found::Key(_) if self.hits == 0 => self.peek(now),
            Found::One(window) => {
                self.is_refused = window.decide(&Ask::at(now).many(self.hits)).is_refused();
            }
            Found::Key(window) => {
                self.is_refused = window.decide(&Ask::at(now).many(self.hits)).is_refused();
            }
        }
        self.is_taken = !self.is_refused;
    }

    /// Takes what is left, if it was refused.
    fn take_rest(&self, now: Timestamp) {
        let refused = self.limiter().filter(|_| self.is_refused && self.hits > 1);
        let Some(limiter) = refused else { return };
        let now = self.time(now);
        // Another request may take a part of it at the same time. Then less is left.
        while let Some(quota) = limiter.account().quota(now)
            && let rest @ 1.. = quota.remaining.min(self.hits)
        {
            if limiter.decide(&Ask::at(now).many(rest)).is_admitted() {
                break;
            }
        }
    }

    /// Returns what became of the hits. Those that a limit in the shadow refuses were admitted.
    fn outcome(&self, over: bool) -> Outcomes {
        match self.by {
            _ if !self.is_refused && (self.is_taken || !over) => Outcomes::Admitted,
            _ if self.is_shadow() && !over => Outcomes::Admitted,
            _ if !self.is_refused || self.is_shadow() => Outcomes::Uncharged,
            By::NoRoom => Outcomes::Refused(Reason::NO_ROOM_FOR_KEY),
            By::StoreAway => Outcomes::Refused(Reason::Custom("the store of the limits is away")),
            _ => Outcomes::Refused(Reason::LimitReached),
        }
    }

    fn give_back(&mut self, now: Timestamp) {
        let is_taken = std::mem::replace(&mut self.is_taken, false);
        if let Some(limiter) = self.limiter().filter(|_| is_taken && self.hits > 0) {
            #[cfg(feature = "redis")]
            let now = if matches!(self.limit, Found::Lease(_)) { self.since } else { now };
            let ask = Ask::at(now).many(self.hits);
            let _: bool = limiter.account().refund(&ask, Duration::ZERO);
        }
    }
}

/// Finds the limits of a request.
pub(super) fn find<'t, C: Clock + Clone + Send + Sync + 'static>(
    level: &'t Level<Arc<State<C>>>,
    request: &Request,
    states: &'t States<C>,
) -> AllAsked<'t, C> {
    let mut key = Key::new();
    let mut asked: AllAsked<'t, C> = SmallVec::with_capacity(request.descriptors.len());
    let mut replaces = false;
    let is_alone = request.descriptors.len() == 1;
    for descriptor in &request.descriptors {
        let mut one = Asked {
            rule: None,
            requests: 0,
            unit: Unit::Second,
            hits: request.hits_of(descriptor),
            by: By::Limit,
            is_refused: false,
            is_taken: false,
            #[cfg(feature = "redis")]
            since: Timestamp::from_nanos(0),
            #[cfg(feature = "redis")]
            awaits: false,
            limit: Found::Nothing,
        };
        key.clear();
        if let Some(limit) = descriptor.limit {
            // As in the reference server, it needs no descriptor of the configuration.
            (one.requests, one.unit) = (limit.requests_per_unit, limit.unit);
            one.limit = states.of_override(request, descriptor, limit, &mut key);
        } else if let Some(rule) = level.find(&descriptor.entries, &mut key) {
            one.rule = Some(rule);
            replaces |= !rule.replaces.is_empty();
            if let Some(requests) = rule.requests {
                (one.requests, one.unit) = requests;
                one.limit = states.of_rule(rule, requests, &mut key);
            } else {
                one.limit = Found::Unlimited;
            }
        }
        asked.push(one);
    }
    if replaces && !is_alone {
        replace(&mut asked);
    }
    for one in &mut asked {
        match &one.limit {
            Found::Fallback => {
                one.by = By::NoRoom;
                one.is_refused = states.settings.fallback == Fallback::Closed;
            }
            Found::One(window) => set_limit(window, one.requests),
            Found::Key(window) => set_limit(window, one.requests),
            #[cfg(feature = "redis")]
            Found::Lease(_) => {}
            #[cfg(feature = "redis")]
            Found::Closed => one.is_refused = true,
            Found::Nothing | Found::Unlimited => {}
        }
    }
    asked
}

impl<C: Clock + Clone + Send + Sync + 'static> States<C> {
    /// Returns where a limit of the configuration is counted.
    #[inline]
    fn of_rule<'t>(
        &self,
        rule: &'t Rules<C>,
        (requests, unit): (u32, Unit),
        key: &mut Key,
    ) -> Found<'t, C> {
        #[cfg(feature = "redis")]
        if let Some(leases) = &self.leases {
            let key = key.of(rule.id);
            return found(
                requests,
                leases.get(key, (requests, unit), |name| {
                    name.part(&rule.path);
                    name.entries(&rule.entries);
                    name.bytes(Key::values(key));
                }),
            );
        }
        let _ = requests;
        match &rule.state.window {
            Some(window) => Found::One(window),
            None => self.table.window(unit, key.of(rule.id)).map_or(Found::Fallback, Found::Key),
        }
    }

    /// Returns where a limit that the request gives is counted: by the domain and all entries.
    fn of_override<'t>(
        &self,
        request: &Request,
        descriptor: &Descriptor,
        limit: LimitOverride,
        key: &mut Key,
    ) -> Found<'t, C> {
        key.push(&request.domain);
        for (name, value) in &descriptor.entries {
            key.push(name);
            key.push(value);
        }
        // Identities of limits of the configuration are counted from 1.
        let of_unit = (1 << 63) | ((limit.unit as u64) << 32);
        #[cfg(feature = "redis")]
        if let Some(leases) = &self.leases {
            let requests = limit.requests_per_unit;
            // Each number has leases of its own, of one limit on the server. Otherwise, requests
            // with two numbers in turn would end each other's leases.
            let key = key.of(RuleId(of_unit | u64::from(requests)));
            return found(
                requests,
                leases.get(key, (requests, limit.unit), |name| {
                    name.part(&request.domain);
                    name.bytes(Key::values(key));
                }),
            );
        }
        self.table.window(limit.unit, key.of(RuleId(of_unit))).map_or(Found::Fallback, Found::Key)
    }
}

#[cfg(feature = "redis")]
fn found<'t, C>(requests: u32, leased: Option<Leased>) -> Found<'t, C> {
    let other = if requests == 0 { Found::Closed } else { Found::Fallback };
    leased.map_or(other, Found::Lease)
}

/// Drops the limits that other limits of the request replace, as `constructLimitsToCheck` in
/// `src/service/ratelimit.go` of the reference server: by the names that the limits of all
/// descriptors give, also of those that are unlimited or replaced themselves.
fn replace<C>(asked: &mut AllAsked<'_, C>) {
    let replaced: std::collections::HashSet<&str> = asked
        .iter()
        .filter_map(|one| one.rule)
        .flat_map(|rule| rule.replaces.iter().map(String::as_str))
        .collect();
    for one in asked.iter_mut().filter(|one| !matches!(one.limit, Found::Unlimited)) {
        let name = one.rule.and_then(|rule| rule.name.as_deref());
        if name.is_some_and(|name| replaced.contains(name)) {
            (one.limit, one.by) = (Found::Nothing, By::Replaced);
        }
    }
}

/// Decides, and charges. Returns whether the request is over.
#[inline]
pub(super) fn charge<C: Clock>(
    request: &Request,
    asked: &mut AllAsked<'_, C>,
    charging: Charging,
    now: Timestamp,
) -> bool {
    if charging == Charging::Each {
        for one in asked.iter_mut() {
            one.take(now);
            one.take_rest(now);
        }
        return is_over(request, asked);
    }
    if asked.len() > 1 {
        asked.iter_mut().for_each(|one| one.peek(now));
    }
    if is_over(request, asked) {
        return true;
    }
    asked.iter_mut().filter(|one| !one.is_refused).for_each(|one| one.take(now));
    let is_over = is_over(request, asked);
    if is_over {
        asked.iter_mut().for_each(|one| one.give_back(now));
    }
    is_over
}

/// Returns whether answers of the store may admit a request that is over.
#[cfg(feature = "redis")]
pub(super) fn awaits<C: Clock>(asked: &AllAsked<'_, C>) -> bool {
    let mut refused = asked.iter().filter(|one| one.is_refused && !one.is_shadow()).peekable();
    refused.peek().is_some() && refused.all(|one| one.awaits)
}

/// Waits for the answers of the store, for a request that was over by [`charge`], and decides once
/// more. The limits that wait come first, so that the others are charged for no longer than needed.
/// If the future is dropped while it waits, all is given back.
#[cfg(feature = "redis")]
pub(super) async fn charge_after_answers<C: Clock>(
    request: &Request,
    asked: &mut AllAsked<'_, C>,
    charging: Charging,
    now: Timestamp,
) -> bool {
    let gives_back = charging == Charging::All;
    let mut held = Held { asked, now, gives_back };
    let until = leases::wait_end();
    for one in held.asked.iter_mut().filter(|one| one.awaits) {
        let Found::Lease(leased) = &one.limit else { continue };
        one.since = leased.clock().now();
        (one.by, one.is_refused) = leases::acquire(leased, one.hits, until).await;
        one.is_taken = !one.is_refused;
        if charging == Charging::Each {
            one.take_rest(now);
        }
    }
    if charging == Charging::All && !is_over(request, held.asked) {
        held.asked.iter_mut().filter(|one| !one.awaits).for_each(|one| one.take(now));
    }
    let is_over = is_over(request, held.asked);
    held.gives_back &= is_over;
    is_over
}

/// Gives back what was charged when it is dropped.
#[cfg(feature = "redis")]
struct Held<'a, 't, C: Clock> {
    asked: &'a mut AllAsked<'t, C>,
    now: Timestamp,
    gives_back: bool,
}

#[cfg(feature = "redis")]
impl<C: Clock> Drop for Held<'_, '_, C> {
    fn drop(&mut self) {
        if self.gives_back {
            self.asked.iter_mut().for_each(|one| one.give_back(self.now));
        }
    }
}

/// Returns whether an enforced limit refuses the request, or all of its quotas do.
fn is_over<C: Clock>(request: &Request, asked: &AllAsked<'_, C>) -> bool {
    let mut has_quota = false;
    for one in asked {
        if one.is_quota() {
            has_quota = true;
        } else if one.is_refused && !one.is_shadow() {
            return true;
        }
    }
    has_quota && are_quotas_over(request, asked)
}

/// Returns whether each group of quotas has one that is over.
///
/// As in `shouldRateLimitWorker` of the reference server: the quotas of one backend and model are a
/// group, so that a request can go to another model while one has a quota left. Without these keys,
/// each list of entries is a group.
#[cold]
fn are_quotas_over<C: Clock>(request: &Request, asked: &AllAsked<'_, C>) -> bool {
    let mut groups: HashMap<Group<'_>, bool> = HashMap::new();
    for (one, descriptor) in asked.iter().zip(&request.descriptors) {
        if one.is_quota() {
            *groups.entry(Group::of(descriptor)).or_default() |= one.is_refused;
        }
    }
    groups.values().all(|is_over| *is_over)
}

#[derive(PartialEq, Eq, Hash)]
enum Group<'a> {
    Model(&'a str, &'a str),
    Entries(&'a [(String, String)]),
}

impl<'a> Group<'a> {
    fn of(descriptor: &'a Descriptor) -> Self {
        let value = |name| {
            let mut entries = descriptor.entries.iter().rev();
            entries.find(|(key, _)| key == name).map_or("", |(_, value)| value)
        };
        match (value("backend_name"), value("model_name_override")) {
            ("", "") => Self::Entries(&descriptor.entries),
            (backend, model) => Self::Model(backend, model),
        }
    }
}

/// Counts the hits, and returns the answer.
pub(super) fn answer<C: Clock + Clone>(
    registry: &Registry<C>,
    request: &Request,
    asked: &AllAsked<'_, C>,
    over: bool,
    now: Timestamp,
) -> Decision {
    for (one, descriptor) in asked.iter().zip(&request.descriptors) {
        if let Some(rule) = one.rule.filter(|_| one.by != By::Replaced) {
            let outcome = one.outcome(over);
            rule.state.counts.count(registry, rule, descriptor, now, one.hits, outcome);
        }
    }
    let statuses = asked.iter().map(|one| status(one, now)).collect();
    Decision::new(over, statuses)
}

fn status<C: Clock>(one: &Asked<'_, C>, now: Timestamp) -> Status {
    let by = match one.by {
        By::Limit if one.is_refused && one.is_shadow() => By::Shadow,
        by => by,
    };
    let is_over = one.is_refused && !one.is_shadow();
    let mut status = Status {
        code: if is_over { Code::OverLimit } else { Code::Ok },
        by,
        rule: one.rule.map(|rule| rule.id),
        ..Status::without_limit()
    };
    match &one.limit {
        Found::Nothing => return status,
        Found::Unlimited => {
            status.remaining = u64::MAX;
            return status;
        }
        _ => {}
    }
    status.limit = Some(CurrentLimit {
        name: one.rule.and_then(|rule| rule.name.clone()),
        requests_per_unit: one.requests,
        unit: one.unit,
    });
    let now = one.time(now);
    if let Some(quota) = one.limiter().and_then(|limiter| limiter.account().quota(now)) {
        status.remaining = quota.remaining;
        status.until_reset = quota.reset.map(|reset| reset.saturating_since(now));
    }
    status
}
