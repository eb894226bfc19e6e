//! The decisions of the most frequent rules.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leaparray::Resource;
use leaparray::flow::{Ask, Decision, LimiterExt};

use super::version::Version;
use super::{Admission, RulePermits, kept};
use crate::caller::Caller;
use crate::limiter::{RuleClock, Short};
use crate::rule::KeySource;

/// Whether a request is decided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brief {
    /// It is admitted, without a permit that has to end.
    Admitted,
    /// The decision was written.
    Written,
    /// It is not: the thread does not have the newest version, or the resource its rules in it, or
    /// the only rule has no [short](Short) form.
    No,
}

/// Decides by the version that the thread keeps. Writes a decision into `result` which does not
/// admit the request without a permit.
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
) -> Brief {
    let brief = kept::with_newest(newest, |version| {
        let word = resource.rule_place();
        let Some((rule, short)) = version.alone(word) else {
            return ask_list(version, word, resource, caller, ask, result);
        };
        let decision = match short {
            Short::Endless(limiter) => {
                let decision = limiter.ask(ask);
                if decision.is_admitted() && version.number.has_decided() {
                    return Brief::Admitted;
                }
                decision.map(|()| RulePermits::nothing())
            }
            Short::InFlight(limiter) => match limiter.ask(ask) {
                Decision::Admitted(permit) if version.number.has_decided() => {
                    *result = Decision::Admitted(RulePermits::of(permit));
                    return Brief::Written;
                }
                decision => decision.map(RulePermits::of),
            },
            _ => return Brief::No,
        };
        conclude(version, rule, resource, caller, ask, decision, result)
    });
    brief.unwrap_or(Brief::No)
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
) -> Brief {
    let Some((rule, decision)) = ask_by_key(version, word, caller, ask) else {
        let Some(place) = version.place(word) else { return Brief::No };
        Admission::ask_at(version, place, resource, caller, ask, result);
        return Brief::Written;
    };
    if decision.is_admitted() && version.number.has_decided() {
        return Brief::Admitted;
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
    let (rule, Short::ByKey(limiter), source) = version.alone_by_key(word)? else { return None };
    if *source == KeySource::Resource {
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
) -> Brief {
    *result = Admission::conclude(version, rule, resource, caller, ask, decision);
    Brief::Written
}
