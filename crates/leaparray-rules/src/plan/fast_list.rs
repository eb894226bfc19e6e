//! The fast path of several rules that all admit a request at once.

use std::mem;
use std::sync::Arc;

use leaparray::flow::{Ask, Decision};
use leaparray::{Permit, Resource};

use super::concerned::Concerned;
use super::index::Member;
use super::version::Version;
use super::{Admission, together};
use crate::caller::{Caller, KeyValues};
use crate::limiter::{RuleClock, RulePermits};

/// Decides by the rules of a resource, if each has a limiter of the fast path, at most the last one
/// has a key, and a peek at each tells that it would admit the request without a wait. Otherwise,
/// nothing is taken.
///
/// The rules decide as [`together`](super::together) does: by a peek at each, and then by the
/// decision of each. Their decisions are not moved: of each, a tag is compared. If one
/// does not admit the request at once after all, `together` goes on from there: the permits of a
/// key and of a warm-up cannot be given back, so no rule is asked for a second decision.
#[inline(never)]
pub(super) fn ask<A: Caller + ?Sized, C: RuleClock>(
    version: &Arc<Version>,
    word: u64,
    resource: &Resource<C>,
    caller: &A,
    ask: &Ask<'_>,
) -> Option<Decision<RulePermits<C>>> {
    let (decision, is_final) = take(version, word, caller, ask)?;
    if is_final {
        return Some(decision);
    }
    Some(Admission::validated(version, resource, caller, ask, decision))
}

/// Returns the decision of the rules, and whether the request gets it: it is admitted at once, and
/// by no number of a newer version. `None` if no rule was asked.
#[inline(always)]
#[expect(clippy::inline_always, reason = "out of line, the permits are moved once more")]
pub(super) fn take<A: Caller + ?Sized, C: RuleClock>(
    version: &Version,
    word: u64,
    caller: &A,
    ask: &Ask<'_>,
) -> Option<(Decision<RulePermits<C>>, bool)> {
    let mut permits = RulePermits::nothing();
    Some(match take_all(version, word, caller, ask, &mut permits)? {
        Taking::AtOnce => (Decision::Admitted(permits), version.number.has_decided()),
        Taking::Otherwise(decision) => (decision.map(|()| permits), false),
    })
}

/// The decision of all rules.
enum Taking {
    /// Their permits are given without a wait.
    AtOnce,
    /// A wait or a refusal.
    Otherwise(Decision),
}

/// Adds the permits of all rules to `permits`, which are none before. Returns the decision; `None`
/// if no rule was asked for one.
#[inline]
fn take_all<A: Caller + ?Sized, C: RuleClock>(
    version: &Version,
    word: u64,
    caller: &A,
    ask: &Ask<'_>,
    permits: &mut RulePermits<C>,
) -> Option<Taking> {
    let list = version.list(word)?;
    let members = &*list.members;
    if members.len() > together::MOST || !list.is_keyed_last {
        return None;
    }
    let found = match list.sources.first() {
        // A request without the key is counted.
        Some(source) => Some(caller.key(source)?),
        None => None,
    };
    let key = found.as_deref().unwrap_or_default();
    if !members.iter().all(|it| version.limiter(it.rule).would_admit(key, ask)) {
        return None;
    }
    let later = ask.again();
    let mut taken = Taken { version, members, key, ask: &later, given: 0, permits };
    for member in members {
        if let Some(decision) = version.limiter(member.rule).take(key, &later, taken.permits) {
            // Another request was faster.
            let place = version.place(word)?;
            let keys = found.clone().map(KeyValues::One);
            let concerned = Concerned { plan: version.plan(), place, keys: keys.as_slice() };
            let decided = (mem::take(&mut taken.given), decision);
            let decision =
                together::decide_from(concerned, members, decided, ask, &mut *taken.permits);
            concerned.count_if_refused(ask, &decision);
            return Some(Taking::Otherwise(decision));
        }
        taken.given += 1;
    }
    taken.given = 0;
    Some(Taking::AtOnce)
}

/// The permits that rules have given for a request, until each has decided. Its drop gives them
/// back: another rule has panicked.
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
            version.limiter(member.rule).give_back(key, ask);
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
