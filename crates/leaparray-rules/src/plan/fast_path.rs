//! The fast path: the decisions of the most frequent rules, by the version that the thread keeps.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leaparray::Resource;
use leaparray::flow::{Ask, ConcurrencyLimiter, ConcurrencyPermit, Decision, LimiterExt};

use super::version::Version;
use super::{Admission, Home, Kept, fast_list, kept};
use crate::caller::Caller;
use crate::limiter::{FastLimiter, RuleClock, RulePermits, is_admitted};

/// How the fast path ends.
pub(crate) enum FastPath {
    /// The request is admitted, without a permit that has to end.
    Admitted,
    /// The request is admitted with the permit of a limit in flight.
    InFlight(ConcurrencyPermit<Arc<ConcurrencyLimiter>>),
    /// The decision was written.
    Written,
}

/// How the fast path ends for a caller that has to know which rules have decided, unless they admit
/// the request at once.
#[cfg(feature = "tower")]
pub(crate) enum AtOnce {
    /// The request is admitted, without a permit that has to end.
    Admitted,
    /// The request is admitted with the permit of a limit in flight.
    InFlight(ConcurrencyPermit<Arc<ConcurrencyLimiter>>),
    /// The request is admitted with the permits that were written.
    Permits,
    /// No rule was asked.
    Unasked,
    /// The rules of the version have decided, which was written. It is not the decision that the
    /// request gets: see [`Admission::concluded`].
    Otherwise(Arc<Version>),
}

/// Decides on a request by the version that the thread keeps, if it is the newest one of the rules
/// with that counter, and if each rule has a limiter of the fast path. A decision that [`AtOnce`]
/// does not have is written into `result`, which has nothing to drop.
#[cfg(feature = "tower")]
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
pub(crate) fn admit<A: Caller + ?Sized, C: RuleClock>(
    newest: &AtomicU64,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) -> AtOnce {
    let Some(version) = kept::take_newest(newest) else { return AtOnce::Unasked };
    let word = resource.rule_place();
    let mut other = Decision::Admitted(());
    let is_admitted = if let Some(bucket) = version.bucket(word) {
        is_admitted(bucket.ask(ask), &mut other)
    } else {
        match version.alone(word) {
            Some(FastLimiter::Window(limiter)) => is_admitted(limiter.ask(ask), &mut other),
            Some(FastLimiter::Endless(limiter)) => limiter.admits(ask, &mut other),
            Some(FastLimiter::InFlight(limiter)) => match limiter.ask(ask) {
                Decision::Admitted(permit) if version.number.has_decided_beside(newest) => {
                    kept::keep(version);
                    return AtOnce::InFlight(permit);
                }
                decision => {
                    set(result, decision.map(RulePermits::in_flight));
                    return AtOnce::Otherwise(version);
                }
            },
            _ => return admit_rarely(version, word, caller, ask, result),
        }
    };
    if is_admitted && version.number.has_decided_beside(newest) {
        kept::keep(version);
        return AtOnce::Admitted;
    }
    set(result, other.map(|()| RulePermits::nothing()));
    AtOnce::Otherwise(version)
}

/// Like [`admit`], for a resource with one rule by keys or with several rules. Asks none if one of
/// them has a limiter that only the plan has.
#[cfg(feature = "tower")]
#[inline(never)]
fn admit_rarely<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    word: u64,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) -> AtOnce {
    let is_final = match version.alone(word) {
        Some(FastLimiter::Other(Some(keyed))) => caller.key(&keyed.source).map(|key| {
            let mut other = Decision::Admitted(());
            let is_admitted = keyed.limiters.admits(&key, ask, &mut other);
            set(result, other.map(|()| RulePermits::nothing()));
            is_admitted && version.number.has_decided()
        }),
        Some(_) => None,
        None => fast_list::take(&version, word, caller, ask, result),
    };
    match is_final {
        Some(false) => return AtOnce::Otherwise(version),
        Some(true) | None => kept::keep(version),
    }
    if is_final.is_some() { AtOnce::Permits } else { AtOnce::Unasked }
}

/// Decides on a request. A decision that [`FastPath`] does not have is written into `result`, which
/// has nothing to drop.
///
/// The version that the thread keeps decides, if it is the newest one of the rules with that
/// counter. Otherwise, `home` returns their home, where it is loaded.
//
// Inlined with the decisions of a rule alone. The most frequent ones are returned, and not written:
// a decision that was written is moved, of whatever kind it is.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
pub(crate) fn ask<'a, A: Caller + ?Sized, C: RuleClock>(
    newest: &AtomicU64,
    home: impl FnOnce() -> &'a Home<C>,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) -> FastPath {
    let Some(version) = kept::take_newest(newest) else {
        ask_newest(home(), resource, caller, ask, result);
        return FastPath::Written;
    };
    let word = resource.rule_place();
    let mut other = Decision::Admitted(());
    if let Some(bucket) = version.bucket(word) {
        let is_admitted = is_admitted(bucket.ask(ask), &mut other);
        if is_admitted && version.number.has_decided_beside(newest) {
            kept::keep(version);
            return FastPath::Admitted;
        }
        set(result, other.map(|()| RulePermits::nothing()));
        conclude(version, word, resource, caller, ask, result);
        return FastPath::Written;
    }
    let Some(limiter) = version.alone(word) else {
        return written(ask_list(version, word, resource, caller, ask, result));
    };
    let is_admitted = match limiter {
        FastLimiter::Window(limiter) => is_admitted(limiter.ask(ask), &mut other),
        FastLimiter::Endless(limiter) => limiter.admits(ask, &mut other),
        FastLimiter::InFlight(limiter) => {
            let decision = limiter.ask(ask);
            let has_decided = version.number.has_decided_beside(newest);
            match decision {
                Decision::Admitted(permit) if has_decided => {
                    kept::keep(version);
                    return FastPath::InFlight(permit);
                }
                decision => set(result, decision.map(RulePermits::in_flight)),
            }
            conclude(version, word, resource, caller, ask, result);
            return FastPath::Written;
        }
        // A bucket without a number.
        FastLimiter::Bucket(_) => {
            ask_by_plan(version, resource, caller, ask, result);
            return FastPath::Written;
        }
        FastLimiter::Other(keyed) => {
            let key = keyed.as_ref().and_then(|it| Some((it, caller.key(&it.source)?)));
            let Some((keyed, key)) = key else {
                ask_by_plan(version, resource, caller, ask, result);
                return FastPath::Written;
            };
            keyed.limiters.admits(&key, ask, &mut other)
        }
    };
    if is_admitted && version.number.has_decided_beside(newest) {
        kept::keep(version);
        return FastPath::Admitted;
    }
    set(result, other.map(|()| RulePermits::nothing()));
    conclude(version, word, resource, caller, ask, result);
    FastPath::Written
}

/// Returns how the fast path ends if the decision was written, unless the request is admitted
/// without a permit that has to end.
#[inline]
const fn written(is_admitted: bool) -> FastPath {
    if is_admitted { FastPath::Admitted } else { FastPath::Written }
}

/// Sets a result that has nothing to drop yet.
#[inline]
fn set<T>(result: &mut T, value: T) {
    mem::forget(mem::replace(result, value));
}

/// Decides by the newest version, which the thread does not keep.
#[cold]
#[inline(never)]
fn ask_newest<A: Caller + ?Sized, C: RuleClock>(
    home: &Home<C>,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) {
    let kept = Kept::newest(home);
    Admission::ask(kept.plan().version(), resource, caller, ask, result);
}

/// Decides by a list of rules. Returns whether the request is admitted without a permit that has to
/// end.
#[inline(never)]
fn ask_list<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) -> bool {
    let Some(is_admitted) = fast_list::ask(&version, word, resource, caller, ask, result) else {
        ask_by_plan(version, resource, caller, ask, result);
        return false;
    };
    kept::keep(version);
    is_admitted
}

/// Decides by the plan of a version.
#[inline(never)]
fn ask_by_plan<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) {
    Admission::ask(&version, resource, caller, ask, result);
    kept::keep(version);
}

/// Replaces a decision by one rule that does not admit the request at once, or beside a change, by
/// the one that the request gets.
#[cold]
#[inline(never)]
fn conclude<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) {
    let rule = version.rule_alone(word).expect("the word of a rule alone");
    let decision = mem::replace(result, Decision::Admitted(RulePermits::nothing()));
    *result = Admission::conclude(&version, rule, resource, caller, ask, decision);
    kept::keep(version);
}
