//! The fast path: the decisions of the most frequent rules, by the version that the thread keeps.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leaparray::Resource;
use leaparray::flow::{Ask, Decision, LimiterExt};

use super::version::Version;
use super::{Admission, fast_list, kept};
use crate::caller::Caller;
use crate::limiter::{FastLimiter, RuleClock, RulePermits};

/// How the fast path ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FastPath {
    /// The request is admitted, without a permit that has to end.
    Admitted,
    /// The decision was written.
    Written,
    /// The request is not decided: the thread does not keep the newest version, or the resource has
    /// no place in it, or its only rule has no [`FastLimiter`].
    NotTaken,
}

/// Decides by the version that the thread keeps. A decision other than [`FastPath::Admitted`] is
/// written into `result`.
//
// Not inlined, and with a reference to the result: a caller that gets it by value moves it, of
// whatever kind it is.
#[inline(never)]
pub(crate) fn ask<A: Caller + ?Sized, C: RuleClock>(
    newest: &Arc<AtomicU64>,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) -> FastPath {
    let path = kept::with_newest(newest, |version| {
        let word = resource.rule_place();
        let Some((rule, limiter)) = version.alone(word) else {
            return ask_list(version, word, resource, caller, ask, result);
        };
        let decision = match limiter {
            FastLimiter::Endless(limiter) => {
                let decision = limiter.ask(ask);
                if decision.is_admitted() && version.number.has_decided() {
                    return FastPath::Admitted;
                }
                decision.map(|()| RulePermits::nothing())
            }
            FastLimiter::InFlight(limiter) => match limiter.ask(ask) {
                Decision::Admitted(permit) if version.number.has_decided() => {
                    set(result, Decision::Admitted(RulePermits::in_flight(permit)));
                    return FastPath::Written;
                }
                decision => decision.map(RulePermits::in_flight),
            },
            _ => return FastPath::NotTaken,
        };
        conclude(version, rule, resource, caller, ask, decision, result)
    });
    path.unwrap_or(FastPath::NotTaken)
}

/// Sets a result that has nothing to drop yet.
#[inline]
pub(super) fn set<T>(result: &mut T, value: T) {
    mem::forget(mem::replace(result, value));
}

/// Decides by a list of rules.
#[inline(never)]
fn ask_list<A: Caller + ?Sized, C: RuleClock>(
    version: &Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) -> FastPath {
    let Some((rule, decision)) = ask_by_key(version, word, caller, ask) else {
        let path = fast_list::ask(version, word, resource, caller, ask, result);
        if path != FastPath::NotTaken {
            return path;
        }
        let Some(place) = version.place(word) else { return FastPath::NotTaken };
        Admission::ask_at(version, place, resource, caller, ask, result);
        return FastPath::Written;
    };
    if decision.is_admitted() && version.number.has_decided() {
        return FastPath::Admitted;
    }
    let decision = decision.map(|()| RulePermits::nothing());
    conclude(version, rule, resource, caller, ask, decision, result)
}

/// Decides by a rule with a key, which the caller has.
#[inline]
fn ask_by_key<A: Caller + ?Sized>(
    version: &Version,
    word: u64,
    caller: &A,
    ask: &Ask<'_>,
) -> Option<(usize, Decision)> {
    let (rule, FastLimiter::ByKey(limiter), source) = version.alone_by_key(word)? else {
        return None;
    };
    if source.is_of_handle() {
        return None;
    }
    Some((rule, limiter.decide(&caller.key(source)?, ask)))
}

/// Writes a decision by one rule that does not admit the request at once, or beside a change.
#[cold]
fn conclude<A: Caller + ?Sized, C: RuleClock>(
    version: &Arc<Version>,
    rule: usize,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    decision: Decision<RulePermits<C>>,
    result: &mut Decision<RulePermits<C>>,
) -> FastPath {
    *result = Admission::conclude(version, rule, resource, caller, ask, decision);
    FastPath::Written
}
