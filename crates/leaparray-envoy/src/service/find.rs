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
            left: None,
            quota: None,
        };
        key.clear();
        if let Some(limit) = descriptor.limit {
            // As in the reference server, it needs no descriptor of the configuration.
            (one.requests, one.unit) = (limit.requests_per_unit, limit.unit);
            one.limit = states.of_override(request, descriptor, limit, &mut key, now);
        } else if let Some(rule) = level.find(&descriptor.entries, &mut key) {
            one.rule = Some(rule);
            replaces |= !rule.replaces.is_empty();
            if let Some(requests) = rule.requests {
                (one.requests, one.unit) = requests;
                one.limit = states.of_rule(rule, requests, &mut key, now);
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
        now: Timestamp,
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
        if let Some(window) = &rule.state.window {
            return Found::One(window);
        }
        let window = self.table.window(unit, key.of(rule.id), now);
        window.map_or(Found::Fallback, Found::Key)
    }

    /// Returns where a limit that the request gives is counted: by the domain and all entries.
    fn of_override<'t>(
        &self,
        request: &Request,
        descriptor: &Descriptor,
        limit: LimitOverride,
        key: &mut Key,
        now: Timestamp,
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
        let window = self.table.window(limit.unit, key.of(RuleId(of_unit)), now);
        window.map_or(Found::Fallback, Found::Key)
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
