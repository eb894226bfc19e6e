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

use leaparray::{Clock, Registry, Timestamp};
use smallvec::SmallVec;

#[cfg(feature = "redis")]
use super::asked::Found;
use super::asked::{Asked, status};
use super::decision::{By, Decision};
#[cfg(feature = "redis")]
use super::leases;
use super::request::{Descriptor, Request};
use super::settings::Charging;
#[cfg(feature = "redis")]
use super::settings::Fallback;

/// Decides, and charges. Returns whether the request is over.
#[inline]
pub(super) fn charge<C: Clock>(
    request: &Request,
    asked: &mut [Asked<'_, C>],
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
        for one in asked.iter_mut() {
            one.peek(now);
        }
        forget_repeated(asked);
    }
    if is_over(request, asked) {
        return true;
    }
    asked.iter_mut().filter(|one| !one.is_refused).for_each(|one| one.take(now));
    let is_over = is_over(request, asked);
    if is_over {
        for one in asked.iter_mut() {
            one.give_back(now);
        }
    }
    is_over
}

/// Forgets what is left of a window that several descriptors of the request charge: each reading
/// would lack the charges of the others. With more than a few descriptors, forgets it of all.
fn forget_repeated<C: Clock>(asked: &mut [Asked<'_, C>]) {
    const FEW: usize = 8;
    for index in 0..asked.len() {
        let is_few = asked.len() <= FEW;
        let repeats = |other: usize| other != index && asked[other].has_window_of(&asked[index]);
        if !is_few || (0..asked.len()).any(repeats) {
            asked[index].left = None;
        }
    }
}

/// Returns whether answers of the store may admit a request that is over.
#[cfg(feature = "redis")]
pub(super) fn awaits<C: Clock>(asked: &[Asked<'_, C>]) -> bool {
    let mut refused = asked.iter().filter(|one| one.is_refused && !one.is_shadow()).peekable();
    refused.peek().is_some() && refused.all(|one| one.awaits)
}

/// Waits for the answers of the store, for a request that was over by [`charge`], and decides once
/// more. The limits that wait come first, so that the others are charged for no longer than needed.
/// If the future is dropped while it waits, all is given back.
#[cfg(feature = "redis")]
pub(super) async fn charge_after_answers<C: Clock>(
    request: &Request,
    asked: &mut [Asked<'_, C>],
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

/// Decides by the fallback on the limits that would wait for the store, for a request that was over
/// by [`charge`], and may not wait. Nothing is charged to these limits, beyond what is left of them
/// with [`Charging::Each`].
#[cfg(feature = "redis")]
#[cold]
pub(super) fn charge_by<C: Clock>(
    fallback: Fallback,
    request: &Request,
    asked: &mut [Asked<'_, C>],
    charging: Charging,
    now: Timestamp,
) -> bool {
    let decide = |one: &mut Asked<'_, C>| {
        one.by = By::TooManyWaiting;
        one.is_refused = fallback == Fallback::Closed;
    };
    asked.iter_mut().filter(|one| one.awaits).for_each(decide);
    if charging == Charging::Each || is_over(request, asked) {
        return is_over(request, asked);
    }
    for one in asked.iter_mut().filter(|one| !one.awaits && !one.is_refused) {
        one.take(now);
        // Its permits in hand are too few by now: another request was faster, or they could not be
        // given back.
        if one.awaits {
            decide(one);
        }
    }
    let is_over = is_over(request, asked);
    if is_over {
        for one in asked.iter_mut() {
            one.give_back(now);
        }
    }
    is_over
}

/// Gives back what was charged when it is dropped.
#[cfg(feature = "redis")]
struct Held<'a, 't, C: Clock> {
    asked: &'a mut [Asked<'t, C>],
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
#[inline]
pub(super) fn is_over<C: Clock>(request: &Request, asked: &[Asked<'_, C>]) -> bool {
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
fn are_quotas_over<C: Clock>(request: &Request, asked: &[Asked<'_, C>]) -> bool {
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
    asked: &[Asked<'_, C>],
    over: bool,
    now: Timestamp,
) -> Decision {
    let mut statuses = SmallVec::new();
    for (one, descriptor) in asked.iter().zip(&request.descriptors) {
        if let Some(rule) = one.rule.filter(|_| one.by != By::Replaced) {
            let outcome = one.outcome(over);
            rule.state.counts.count(registry, rule, descriptor, now, one.hits, outcome);
        }
        statuses.push(status(one, now));
    }
    Decision::new(over, statuses)
}
