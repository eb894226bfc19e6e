//! The fast path: the decisions of the most frequent rules, by the version that the thread keeps.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leaparray::Resource;
use leaparray::flow::{Ask, ConcurrencyLimiter, ConcurrencyPermit, Decision, LimiterExt};

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
// Inlined with the decision of a rule alone. The result is a reference: a caller that gets it by
// value moves it, of whatever kind it is.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
pub(crate) fn ask<A: Caller + ?Sized, C: RuleClock>(
    newest: &AtomicU64,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) -> FastPath {
    let Some(version) = kept::take_newest(newest) else { return FastPath::NotTaken };
    let word = resource.rule_place();
    let path = match version.alone(word) {
        Some((rule, FastLimiter::Endless(limiter))) => {
            let mut other = Decision::Admitted(());
            let is_admitted = limiter.admits(ask, &mut other);
            if is_admitted && version.number.has_decided_beside(newest) {
                FastPath::Admitted
            } else {
                conclude(&version, rule, resource, caller, ask, other, result)
            }
        }
        Some((rule, FastLimiter::InFlight(limiter))) => match limiter.ask(ask) {
            Decision::Admitted(permit) if version.number.has_decided_beside(newest) => {
                set(result, Decision::Admitted(RulePermits::in_flight(permit)));
                FastPath::Written
            }
            decision => conclude_in_flight(&version, rule, resource, caller, ask, decision, result),
        },
        Some(_) => FastPath::NotTaken,
        None => ask_list(&version, word, resource, caller, ask, result),
    };
    kept::keep(version);
    path
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
    let mut other = Decision::Admitted(());
    let Some((rule, is_admitted)) = ask_by_key(version, word, caller, ask, &mut other) else {
        let path = fast_list::ask(version, word, resource, caller, ask, result);
        if path != FastPath::NotTaken {
            return path;
        }
        let Some(place) = version.place(word) else { return FastPath::NotTaken };
        Admission::ask_at(version, place, resource, caller, ask, result);
        return FastPath::Written;
    };
    if is_admitted && version.number.has_decided() {
        return FastPath::Admitted;
    }
    conclude(version, rule, resource, caller, ask, other, result)
}

/// Decides by a rule with a key, which the caller has. Returns whether the request is admitted at
/// once, and writes another decision into `other`.
#[inline]
fn ask_by_key<A: Caller + ?Sized>(
    version: &Version,
    word: u64,
    caller: &A,
    ask: &Ask<'_>,
    other: &mut Decision,
) -> Option<(usize, bool)> {
    let (rule, FastLimiter::ByKey(limiter), source) = version.alone_by_key(word)? else {
        return None;
    };
    if source.is_of_handle() {
        return None;
    }
    Some((rule, limiter.admits(&caller.key(source)?, ask, other)))
}

/// Writes the decision of a limit in flight that does not admit the request, or beside a change.
#[cold]
#[inline(never)]
fn conclude_in_flight<A: Caller + ?Sized, C: RuleClock>(
    version: &Arc<Version>,
    rule: usize,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    decision: Decision<ConcurrencyPermit<Arc<ConcurrencyLimiter>>>,
    result: &mut Decision<RulePermits<C>>,
) -> FastPath {
    let decision = decision.map(RulePermits::in_flight);
    *result = Admission::conclude(version, rule, resource, caller, ask, decision);
    FastPath::Written
}

/// Writes a decision by one rule that does not admit the request at once, or beside a change.
#[cold]
#[inline(never)]
fn conclude<A: Caller + ?Sized, C: RuleClock>(
    version: &Arc<Version>,
    rule: usize,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    decision: Decision,
    result: &mut Decision<RulePermits<C>>,
) -> FastPath {
    let decision = decision.map(|()| RulePermits::nothing());
    *result = Admission::conclude(version, rule, resource, caller, ask, decision);
    FastPath::Written
}
