//! The fast path: the decisions of the most frequent rules, by the version that the thread keeps.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leaparray::Resource;
use leaparray::flow::{Ask, Decision, LimiterExt};
#[cfg(feature = "tower")]
use leaparray::flow::{ConcurrencyLimiter, ConcurrencyPermit};

use super::version::Version;
use super::{Admission, Home, Kept, fast_list, kept};
use crate::caller::Caller;
use crate::limiter::{FastLimiter, RuleClock, RulePermits, is_admitted};

/// Decides on a request.
///
/// The version that the thread keeps decides, if it is the newest one of the rules with that
/// counter. Otherwise, `home` returns their home, where it is loaded.
//
// Inlined with the decision of a bucket with a number, which is the most frequent one. Its
// compare-exchange waits for each store before it. So it writes nothing to memory that another path
// needs: these paths get a copy of the question, and return their decision.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
pub(crate) fn ask<'a, A: Caller + ?Sized, C: RuleClock>(
    newest: &AtomicU64,
    home: impl FnOnce() -> &'a Home<C>,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
) -> Decision<RulePermits<C>> {
    let Some(version) = kept::take_newest(newest) else {
        return ask_newest(home(), resource, caller, *ask);
    };
    let word = resource.rule_place();
    let Some(bucket) = version.bucket(word) else {
        return ask_other(version, word, resource, caller, *ask);
    };
    let decision = bucket.ask(ask);
    if decision.is_admitted() && version.number.has_decided_beside(newest) {
        kept::keep_alone(version);
        return Decision::Admitted(RulePermits::nothing());
    }
    // In memory of its own: the decision above stays in registers.
    let mut other = Decision::Admitted(());
    set(&mut other, decision);
    conclude(version, word, resource, caller, *ask, other)
}

/// Sets a decision that has nothing to drop yet.
#[inline]
fn set(decision: &mut Decision, value: Decision) {
    *decision = value;
}

/// How the rules of a version decide for a caller that has to know which ones have decided, unless
/// they admit the request at once.
#[cfg(feature = "tower")]
pub(crate) enum AtOnce<C: RuleClock> {
    /// The request is admitted, without a permit that has to end.
    Admitted,
    /// The request is admitted with the permit of a limit in flight.
    InFlight(ConcurrencyPermit<Arc<ConcurrencyLimiter>>),
    /// The request is admitted with these permits.
    Permits(RulePermits<C>),
    /// No rule was asked.
    Unasked,
    /// The decision of the rules of a version, and the word by which they were found. It is not the
    /// decision that the request gets: see [`Admission::concluded`].
    Otherwise(Arc<Version>, u64, Decision<RulePermits<C>>),
}

/// Decides on a request by the version that the thread keeps, if it is the newest one of the rules
/// with that counter, and if each rule has a limiter of the fast path.
#[cfg(feature = "tower")]
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
pub(crate) fn admit<A: Caller + ?Sized, C: RuleClock>(
    newest: &AtomicU64,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
) -> AtOnce<C> {
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
                    kept::keep_alone(version);
                    return AtOnce::InFlight(permit);
                }
                decision => {
                    return AtOnce::Otherwise(version, word, decision.map(RulePermits::in_flight));
                }
            },
            _ => return admit_rarely(version, word, caller, ask),
        }
    };
    if is_admitted && version.number.has_decided_beside(newest) {
        kept::keep(version);
        return AtOnce::Admitted;
    }
    AtOnce::Otherwise(version, word, other.map(|()| RulePermits::nothing()))
}

/// As [`admit`], for a resource with one rule by keys or with several rules. Asks none if one of
/// them has a limiter that only the plan has.
#[cfg(feature = "tower")]
#[inline(never)]
fn admit_rarely<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    word: u64,
    caller: &A,
    ask: &Ask<'_>,
) -> AtOnce<C> {
    let decided = match version.alone(word) {
        Some(FastLimiter::Other(Some(keyed))) => caller.key(&keyed.source).map(|key| {
            let mut other = Decision::Admitted(());
            let is_admitted = keyed.limiters.admits(&key, ask, &mut other);
            let is_final = is_admitted && version.number.has_decided();
            (other.map(|()| RulePermits::nothing()), is_final)
        }),
        Some(_) => None,
        None => fast_list::take(&version, word, caller, ask),
    };
    match decided {
        Some((Decision::Admitted(permits), true)) => {
            kept::keep(version);
            AtOnce::Permits(permits)
        }
        Some((decision, _)) => AtOnce::Otherwise(version, word, decision),
        None => {
            kept::keep(version);
            AtOnce::Unasked
        }
    }
}

/// Decides by rules whose limiters are not one bucket with a number.
#[inline(never)]
fn ask_other<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: Ask<'_>,
) -> Decision<RulePermits<C>> {
    let Some(limiter) = version.alone(word) else {
        return ask_list(version, word, resource, caller, ask);
    };
    let mut other = Decision::Admitted(());
    let is_admitted = match limiter {
        FastLimiter::Endless(limiter) => limiter.admits(&ask, &mut other),
        FastLimiter::Window(limiter) => is_admitted(limiter.ask(&ask), &mut other),
        FastLimiter::InFlight(limiter) => {
            let decision = limiter.ask(&ask);
            let has_decided = version.number.has_decided();
            let decision = match decision {
                Decision::Admitted(permit) if has_decided => {
                    kept::keep_alone(version);
                    return Decision::Admitted(RulePermits::in_flight(permit));
                }
                decision => decision.map(RulePermits::in_flight),
            };
            return conclude_with(version, word, resource, caller, ask, decision);
        }
        // A bucket without a number.
        FastLimiter::Bucket(_) => return ask_by_plan(version, resource, caller, ask),
        FastLimiter::Other(keyed) => {
            let key = keyed.as_ref().and_then(|it| Some((it, caller.key(&it.source)?)));
            let Some((keyed, key)) = key else {
                return ask_by_plan(version, resource, caller, ask);
            };
            keyed.limiters.admits(&key, &ask, &mut other)
        }
    };
    if is_admitted && version.number.has_decided() {
        kept::keep(version);
        return Decision::Admitted(RulePermits::nothing());
    }
    conclude(version, word, resource, caller, ask, other)
}

/// Decides by the newest version, which the thread does not keep.
#[cold]
#[inline(never)]
fn ask_newest<A: Caller + ?Sized, C: RuleClock>(
    home: &Home<C>,
    resource: &Resource<C>,
    caller: &A,
    ask: Ask<'_>,
) -> Decision<RulePermits<C>> {
    let kept = Kept::newest(home);
    Admission::ask(kept.plan().version(), resource, caller, &ask)
}

/// Decides by a list of rules.
#[inline(never)]
fn ask_list<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: Ask<'_>,
) -> Decision<RulePermits<C>> {
    let Some(decision) = fast_list::ask(&version, word, resource, caller, &ask) else {
        return ask_by_plan(version, resource, caller, ask);
    };
    kept::keep(version);
    decision
}

/// Decides by the plan of a version.
#[inline(never)]
fn ask_by_plan<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    resource: &Resource<C>,
    caller: &A,
    ask: Ask<'_>,
) -> Decision<RulePermits<C>> {
    let decision = Admission::ask(&version, resource, caller, &ask);
    kept::keep(version);
    decision
}

/// As [`conclude_with`], of a decision whose permit has no end.
#[cold]
#[inline(never)]
fn conclude<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: Ask<'_>,
    decision: Decision,
) -> Decision<RulePermits<C>> {
    let decision = decision.map(|()| RulePermits::nothing());
    conclude_with(version, word, resource, caller, ask, decision)
}

/// Replaces a decision by one rule that does not admit the request at once, or beside a change, by
/// the one that the request gets.
#[cold]
#[inline(never)]
fn conclude_with<A: Caller + ?Sized, C: RuleClock>(
    version: Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: Ask<'_>,
    decision: Decision<RulePermits<C>>,
) -> Decision<RulePermits<C>> {
    let rule = version.rule_alone(word).expect("the word of a rule alone");
    let decision = Admission::conclude(&version, rule, resource, caller, &ask, decision);
    kept::keep(version);
    decision
}
