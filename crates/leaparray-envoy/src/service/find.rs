//! The search for the limits of a request.

use std::sync::Arc;

use leaparray::{Clock, Timestamp};
use smallvec::SmallVec;

use super::asked::{AllAsked, Asked, Found, Rules};
use super::decision::{By, RuleId};
use super::key::Key;
#[cfg(feature = "redis")]
use super::leases::Leased;
use super::request::{Descriptor, LimitOverride, Request};
use super::settings::Fallback;
use super::state::{State, States};
use super::table::set_limit;
use super::tree::Level;
use crate::config::Unit;

/// Finds the limits of a request at `now`.
pub(super) fn find<'t, C: Clock + Clone + Send + Sync + 'static>(
    level: &'t Level<Arc<State<C>>>,
    request: &Request,
    states: &'t States<C>,
    now: Timestamp,
) -> AllAsked<'t, C> {
    let mut key = Key::new();
    let mut asked: AllAsked<'t, C> = SmallVec::new();
    let mut replaces = false;
    for descriptor in &request.descriptors {
        let mut one = find_one(level, request, descriptor, states, &mut key);
        look_up(&mut one, states, &key, now);
        replaces |= one.rule.is_some_and(|rule| !rule.replaces.is_empty());
        asked.push(one);
    }
    if replaces && asked.len() > 1 {
        replace(&mut asked);
    }
    asked.iter_mut().for_each(|one| prepare(one, states));
    asked
}

/// Finds the limit of a descriptor. A window of the table is not looked up: `key` is its key.
#[inline]
pub(super) fn find_one<'t, C: Clock + Clone + Send + Sync + 'static>(
    level: &'t Level<Arc<State<C>>>,
    request: &Request,
    descriptor: &Descriptor,
    states: &States<C>,
    key: &mut Key,
) -> Asked<'t, C> {
    let mut one = Asked::new(request.hits_of(descriptor));
    key.clear();
    if let Some(limit) = descriptor.limit {
        // As in the reference server, it needs no descriptor of the configuration.
        (one.requests, one.unit) = (limit.requests_per_unit, limit.unit);
        one.limit = states.of_override(request, descriptor, limit, key);
    } else if let Some(rule) = level.find(&descriptor.entries, key) {
        one.rule = Some(rule);
        if let Some(requests) = rule.requests {
            (one.requests, one.unit) = requests;
            one.limit = states.of_rule(rule, requests, key);
        } else {
            one.limit = Found::Unlimited;
        }
    }
    one
}

/// Looks the window of a descriptor up, if it is in the table.
pub(super) fn look_up<C: Clock + Clone + Send + Sync + 'static>(
    one: &mut Asked<'_, C>,
    states: &States<C>,
    key: &Key,
    now: Timestamp,
) {
    if matches!(one.limit, Found::InTable) {
        let window = states.table.window(one.unit, key.bytes(), now);
        one.limit = window.map_or(Found::Fallback, Found::Key);
    }
}

/// Prepares a limit that was found for the charge.
#[inline]
pub(super) fn prepare<C: Clock>(one: &mut Asked<'_, C>, states: &States<C>) {
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
        Found::Nothing | Found::Unlimited | Found::InTable | Found::Read(_) => {}
    }
}

impl<C: Clock + Clone + Send + Sync + 'static> States<C> {
    /// Returns where a limit of the configuration is counted.
    #[inline]
    #[cfg_attr(not(feature = "redis"), expect(clippy::unused_self, reason = "there are no leases"))]
    fn of_rule<'t>(
        &self,
        rule: &'t Rules<C>,
        (requests, unit): (u32, Unit),
        key: &mut Key,
    ) -> Found<'t, C> {
        #[cfg(feature = "redis")]
        if let Some(leases) = &self.leases {
            key.set_id(rule.id);
            let key = key.bytes();
            return found(
                requests,
                leases.get(key, (requests, unit), |name| {
                    name.part(&rule.path);
                    name.entries(&rule.entries);
                    name.bytes(Key::values(key));
                }),
            );
        }
        let _ = (requests, unit);
        if let Some(window) = &rule.state.window {
            return Found::One(window);
        }
        key.set_id(rule.id);
        Found::InTable
    }

    /// Returns where a limit that the request gives is counted: by the domain and all entries.
    #[cfg_attr(not(feature = "redis"), expect(clippy::unused_self, reason = "there are no leases"))]
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
            key.set_id(RuleId(of_unit | u64::from(requests)));
            let key = key.bytes();
            return found(
                requests,
                leases.get(key, (requests, limit.unit), |name| {
                    name.part(&request.domain);
                    name.bytes(Key::values(key));
                }),
            );
        }
        key.set_id(RuleId(of_unit));
        Found::InTable
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
fn replace<C>(asked: &mut [Asked<'_, C>]) {
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
