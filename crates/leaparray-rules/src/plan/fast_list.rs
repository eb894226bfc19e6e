//! The fast path of several rules that all admit a request at once.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{Ask, Decision};
use leaparray::{Permit, Resource};

use super::fast_path::{FastPath, set};
use super::index::Member;
use super::version::Version;
use super::{Admission, together};
use crate::caller::Caller;
use crate::limiter::{RuleClock, RulePermits};

/// Decides by the rules of a resource, if each has a limiter of the fast path, at most the last one
/// has a key, and all of them admit the request without a wait. Otherwise, nothing is taken.
///
/// The rules decide as [`together`](super::together) does: by a peek at each, and then by the
/// decision of each. What they return is not moved: a decision is a tag that is compared.
#[inline(never)]
pub(super) fn ask<A: Caller + ?Sized, C: RuleClock>(
    version: &Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
    result: &mut Decision<RulePermits<C>>,
) -> FastPath {
    let mut permits = RulePermits::nothing();
    if take_all(version, word, caller, ask, &mut permits).is_none() {
        return FastPath::NotTaken;
    }
    if version.number.has_decided() {
        if permits.is_nothing() {
            return FastPath::Admitted;
        }
        set(result, Decision::Admitted(permits));
        return FastPath::Written;
    }
    let decision = Decision::Admitted(permits);
    // No rule has refused.
    *result = Admission::conclude(version, 0, resource, caller, ask, decision);
    FastPath::Written
}

/// Adds the permits of all rules to `permits`, which are none before; `None` if nothing was taken.
#[inline]
fn take_all<A: Caller + ?Sized, C: RuleClock>(
    version: &Version,
    word: u64,
    caller: &A,
    ask: &Ask<'_>,
    permits: &mut RulePermits<C>,
) -> Option<()> {
    let list = version.list(word)?;
    let members = &*list.members;
    if members.len() > together::MOST || !list.is_keyed_last() {
        return None;
    }
    let found = match list.sources.first() {
        Some(source) if source.is_of_handle() => return None,
        // A request without the key is counted.
        Some(source) => Some(caller.key(source)?),
        None => None,
    };
    let key = found.as_deref().unwrap_or_default();
    if !members.iter().all(|it| version.limiter(it.rule).would_admit(key, ask)) {
        return None;
    }
    let ask = ask.again();
    let mut taken = Taken { version, members, key, ask: &ask, given: 0, permits };
    for member in members {
        if !version.limiter(member.rule).take(key, &ask, taken.permits) {
            // Another request was faster. The drop gives back what was taken.
            return None;
        }
        taken.given += 1;
    }
    taken.given = 0;
    Some(())
}

/// The permits that rules have given for a request, until all have given theirs. Its drop gives
/// them back: another rule has not, or has panicked.
struct Taken<'a, C: RuleClock> {
    version: &'a Version,
    members: &'a [Member],
    key: &'a str,
    ask: &'a Ask<'a>,
    /// The number of members that have given theirs.
    given: usize,
    permits: &'a mut RulePermits<C>,
}

impl<C: RuleClock> Taken<'_, C> {
    #[cold]
    fn give_back(&mut self) {
        let Self { version, members, key, ask, given, permits } = self;
        for member in &members[..*given] {
            version.limiter(member.rule).give_back(key, ask, Duration::ZERO);
        }
        permits.withdraw_at(ask.now());
        **permits = RulePermits::nothing();
    }
}

impl<C: RuleClock> Drop for Taken<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.given != 0 {
            self.give_back();
        }
    }
}
