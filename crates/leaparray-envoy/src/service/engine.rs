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

use leaparray::flow::{Ask, Limiter};
use leaparray::{Clock, Timestamp};
use smallvec::SmallVec;

use super::decision::{By, Code, CurrentLimit, Decision, Status};
use super::key::Key;
use super::request::{Descriptor, Request};
use super::settings::{Charging, Fallback};
use super::state::{State, States, override_key};
use super::table::{Window, set_limit};
use super::tree::{Level, Rule};
use crate::config::Unit;

pub(super) type Rules<C> = Rule<Arc<State<C>>>;

/// The limit of a descriptor, as far as it is known for the request.
pub(super) struct Asked<'t, C> {
    pub(super) rule: Option<&'t Rules<C>>,
    requests: u32,
    unit: Unit,
    hits: u64,
    pub(super) by: By,
    is_refused: bool,
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
}

pub(super) type AllAsked<'t, C> = SmallVec<[Asked<'t, C>; 2]>;

impl<C: Clock> Asked<'_, C> {
    fn window(&self) -> Option<&Window<C>> {
        match &self.limit {
            Found::One(window) => Some(window),
            Found::Key(window) => Some(window),
            Found::Nothing | Found::Unlimited | Found::Fallback => None,
        }
    }

    fn is_shadow(&self) -> bool {
        self.rule.is_some_and(|rule| rule.is_shadow)
    }

    fn is_quota(&self) -> bool {
        self.rule.is_some_and(|rule| rule.is_quota && !rule.is_shadow)
    }

    fn ask(&self, now: Timestamp) -> Ask<'static> {
        Ask::at(now).many(self.hits)
    }

    /// Asks without a charge. A request without hits asks whether one is left.
    fn peek(&mut self, now: Timestamp) {
        if let Some(window) = self.window() {
            let peeked = window.peek(&Ask::at(now).many(self.hits.max(1)));
            self.is_refused = peeked.is_some_and(|it| it.is_refused());
        }
    }

    #[inline]
    fn take(&mut self, now: Timestamp) {
        if self.hits == 0 {
            self.peek(now);
        } else if let Some(window) = self.window() {
            self.is_refused = window.decide(&self.ask(now)).is_refused();
        }
    }

    /// Takes what is left, if it was refused.
    fn take_rest(&self, now: Timestamp) {
        let Some(window) = self.window().filter(|_| self.is_refused && self.hits > 1) else {
            return;
        };
        // Another request may take a part of it at the same time. Then less is left.
        while let Some(rest) = window.account().quota(now).map(|it| it.remaining.min(self.hits))
            && rest > 0
        {
            if window.decide(&Ask::at(now).many(rest)).is_admitted() {
                break;
            }
        }
    }

    fn give_back(&self, now: Timestamp) {
        if let Some(window) = self.window().filter(|_| !self.is_refused && self.hits > 0) {
            let _: bool = window.account().refund(&self.ask(now), Duration::ZERO);
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
            limit: Found::Nothing,
        };
        key.clear();
        if let Some(limit) = descriptor.limit {
            // As in the reference server, it needs no descriptor of the configuration.
            (one.requests, one.unit) = (limit.requests_per_unit, limit.unit);
            one.limit = of_key(states, limit.unit, override_key(request, descriptor, &mut key));
        } else if let Some(rule) = level.find(&descriptor.entries, &mut key) {
            one.rule = Some(rule);
            replaces |= !rule.replaces.is_empty();
            match rule.requests {
                None => one.limit = Found::Unlimited,
                Some((requests, unit)) => {
                    (one.requests, one.unit) = (requests, unit);
                    one.limit = match &rule.state.window {
                        Some(window) => Found::One(window),
                        None => of_key(states, unit, key.of(rule.id)),
                    };
                }
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
            Found::Nothing | Found::Unlimited => {}
        }
    }
    asked
}

fn of_key<'t, C: Clock + Clone + Send + Sync + 'static>(
    states: &States<C>,
    unit: Unit,
    key: &[u8],
) -> Found<'t, C> {
    states.table.window(unit, key).map_or(Found::Fallback, Found::Key)
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
        asked.iter().for_each(|one| one.give_back(now));
    }
    is_over
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

/// Returns the answer.
pub(super) fn answer<C: Clock>(asked: &AllAsked<'_, C>, over: bool, now: Timestamp) -> Decision {
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
        Found::Fallback | Found::One(_) | Found::Key(_) => {}
    }
    status.limit = Some(CurrentLimit {
        name: one.rule.and_then(|rule| rule.name.clone()),
        requests_per_unit: one.requests,
        unit: one.unit,
    });
    if let Some(quota) = one.window().and_then(|window| window.account().quota(now)) {
        status.remaining = quota.remaining;
        status.until_reset = quota.reset.map(|reset| reset.saturating_since(now));
    }
    status
}
