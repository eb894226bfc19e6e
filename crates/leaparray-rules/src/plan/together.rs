//! The decision of several rules.

use std::ops::Deref;
use std::time::Duration;

use leaparray::Permit;
use leaparray::flow::{Ask, Decision, Limiter, Outlook, Refusal};
use smallvec::SmallVec;

use super::concerned::Concerned;
use super::index::Member;
use crate::limiter::{RuleClock, RulePermits};

/// The most rules that decide together: each has a bit of a `u32`. More rules decide as an
/// [`AllOf`](leaparray::flow::AllOf).
pub(super) const MOST: usize = 32;

/// Decides on a request by several rules, as an [`AllOf`](leaparray::flow::AllOf) of them does: by
/// a peek at each, and then by the decision of each, those first that cannot tell in advance.
/// Nothing is taken unless each gives its permits.
///
/// An `AllOf` moves the permit of each limiter with its wait, whatever kind it is. Here, a rule
/// whose permits have no end leaves a bit.
#[inline(never)]
pub(super) fn decide<K: Deref<Target = str>, C: RuleClock>(
    concerned: Concerned<'_, K, C>,
    members: &[Member],
    ask: &Ask<'_>,
    permits: &mut RulePermits<C>,
) -> Decision {
    let (mut outlook, mut unknown) = (Outlook::default(), 0_u32);
    for (bit, member) in bits(members) {
        let (key, part) = (concerned.key(*member), concerned.part(*member));
        match concerned.rule(member).foretell(key, part, ask) {
            // Most often. The rest moves the decision.
            Some(Decision::Admitted(())) => {}
            peek => {
                if !outlook.add(peek) {
                    unknown |= bit;
                }
            }
        }
    }
    if let Some(refusal) = outlook.refusal() {
        return Decision::Refused(refusal);
    }
    let mut all = Provisional::nothing(concerned, members, ask.again(), permits);
    let result = if unknown == 0 { Ok(()) } else { all.ask(unknown) };
    let result = result.and_then(|()| all.ask(!unknown));
    all.end(result)
}

/// Decides as [`decide`] does, after a peek at each member, and after the members before a place
/// have admitted the request at once, and that member has decided otherwise. `permits` are those of
/// the former members that have an end.
#[cold]
pub(super) fn decide_from<K: Deref<Target = str>, C: RuleClock>(
    concerned: Concerned<'_, K, C>,
    members: &[Member],
    (place, decision): (usize, Decision),
    ask: &Ask<'_>,
    permits: &mut RulePermits<C>,
) -> Decision {
    let mut all = Provisional::nothing(concerned, members, ask.again(), permits);
    let bit = 1 << place;
    all.given = bit - 1;
    let decision = match decision {
        Decision::Refused(refusal) => {
            Decision::Refused(concerned.rule(&members[place]).named(ask, refusal))
        }
        decision => decision,
    };
    let result = all.note(bit, decision).and_then(|()| all.ask(!(bit | (bit - 1))));
    all.end(result)
}

/// Returns the members, each with a bit of its own.
fn bits(members: &[Member]) -> impl Iterator<Item = (u32, &Member)> {
    members.iter().enumerate().map(|(place, member)| (1 << place, member))
}

/// Returns the refusal of several rules, of which one refuses.
#[cold]
fn of_combination(refusal: Refusal) -> Refusal {
    let mut outlook = Outlook::default();
    outlook.add(Some(Decision::Refused(refusal)));
    outlook.refusal().unwrap_or(refusal)
}

/// The permits that rules have given for a request, until all have given theirs. Its drop gives
/// them back: another rule has refused, or has panicked.
struct Provisional<'a, K: Deref<Target = str>, C: RuleClock> {
    concerned: Concerned<'a, K, C>,
    members: &'a [Member],
    ask: Ask<'a>,
    /// The bits of the members that have given theirs.
    given: u32,
    permits: &'a mut RulePermits<C>,
    /// The waits of the members that make the request wait, by their bits.
    waits: SmallVec<[(u32, Duration); 4]>,
}

impl<'a, K: Deref<Target = str>, C: RuleClock> Provisional<'a, K, C> {
    #[inline]
    fn nothing(
        concerned: Concerned<'a, K, C>,
        members: &'a [Member],
        ask: Ask<'a>,
        permits: &'a mut RulePermits<C>,
    ) -> Self {
        let waits = SmallVec::new();
        Self { concerned, members, ask, given: 0, permits, waits }
    }

    /// Asks the members of which the bit is among these.
    #[inline]
    fn ask(&mut self, asked: u32) -> Result<(), Refusal> {
        let Self { concerned, members, ask, given, permits, waits } = self;
        for (bit, member) in bits(members) {
            if bit & asked == 0 {
                continue;
            }
            let (key, part) = (concerned.key(*member), concerned.part(*member));
            match concerned.rule(member).decide_into(key, part, ask, permits) {
                Decision::Admitted(()) => {}
                Decision::Wait(delayed) => waits.push((bit, delayed.wait())),
                Decision::Refused(refusal) => return Err(refusal),
            }
            *given |= bit;
        }
        Ok(())
    }

    /// Notes the decision of a member that was asked elsewhere.
    fn note(&mut self, bit: u32, decision: Decision) -> Result<(), Refusal> {
        match decision {
            Decision::Admitted(()) => {}
            Decision::Wait(delayed) => self.waits.push((bit, delayed.wait())),
            Decision::Refused(refusal) => return Err(refusal),
        }
        self.given |= bit;
        Ok(())
    }

    /// Returns the decision. If a member has refused, its drop gives back what the others have
    /// given.
    #[inline]
    fn end(mut self, result: Result<(), Refusal>) -> Decision {
        match result {
            Ok(()) => self.keep(),
            Err(refusal) => Decision::Refused(of_combination(refusal)),
        }
    }

    /// Returns the decision of all members, which have given their permits.
    #[inline]
    fn keep(&mut self) -> Decision {
        self.given = 0;
        let longest = self.waits.iter().map(|(_, wait)| *wait).max();
        longest.map_or(Decision::Admitted(()), |wait| Decision::after((), wait))
    }

    /// Gives the permits back, by a refund and by their withdrawal. One of the two has no effect,
    /// or both concern different parts of a limiter. The wait is the wait of the member, not the
    /// longest one.
    #[cold]
    fn give_back(&mut self) {
        let Self { concerned, members, ask, given, permits, waits } = self;
        for (bit, member) in bits(members).filter(|(bit, _)| bit & *given != 0) {
            let wait = waits.iter().find(|(of, _)| *of == bit).map(|(_, wait)| *wait);
            concerned.asked(*member).account().refund(ask, wait.unwrap_or_default());
        }
        permits.withdraw_at(ask.now());
        **permits = RulePermits::nothing();
    }
}

impl<K: Deref<Target = str>, C: RuleClock> Drop for Provisional<'_, K, C> {
    #[inline]
    fn drop(&mut self) {
        if self.given != 0 {
            self.give_back();
        }
    }
}
