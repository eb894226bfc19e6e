//! The decision on a request by the fast path, and its entry.
#![expect(clippy::inline_always, reason = "out of line, the rules of a request go through memory")]

use std::mem;

use leaparray::flow::{Ask, Decision};
use leaparray::{Entry, Resource};

use crate::caller::Caller;
use crate::limiter::{RuleClock, RulePermits};
#[cfg(feature = "tower")]
use crate::plan::AtOnce;
use crate::plan::{FastPath, fast_path};
use crate::rules::{RuleEntry, Rules};

impl<C: RuleClock> Rules<C> {
    /// Writes the decision on a request into `result`, which has nothing to drop, unless it is
    /// admitted without a permit that has to end. Returns whether it is.
    #[inline(always)]
    pub(crate) fn is_admitted<A: Caller + ?Sized>(
        &self,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
        result: &mut Decision<RulePermits<C>>,
    ) -> bool {
        match self.decide(resource, caller, ask, result) {
            FastPath::Admitted => return true,
            FastPath::InFlight(permit) => {
                let admitted = Decision::Admitted(RulePermits::in_flight(permit));
                mem::forget(mem::replace(result, admitted));
            }
            FastPath::Written => {}
        }
        false
    }

    /// Decides on a request. Unless the path returns the decision, it is written into `result`,
    /// which has nothing to drop.
    #[inline(always)]
    pub(crate) fn decide<A: Caller + ?Sized>(
        &self,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
        result: &mut Decision<RulePermits<C>>,
    ) -> FastPath {
        fast_path::ask(&self.newest, || &self.shared.home, resource, caller, ask, result)
    }

    /// Decides on a request, for a layer that has to know which rules have decided: see
    /// [`fast_path::admit`].
    #[cfg(feature = "tower")]
    #[inline(always)]
    pub(crate) fn admit<A: Caller + ?Sized>(
        &self,
        resource: &Resource<C>,
        caller: &A,
        ask: &Ask<'_>,
        result: &mut Decision<RulePermits<C>>,
    ) -> AtOnce {
        fast_path::admit(&self.newest, resource, caller, ask, result)
    }
}

/// Enters a request into its resource that is admitted without a permit that has to end.
#[inline(always)]
pub(crate) fn enter<C: RuleClock>(resource: Resource<C>, ask: &Ask<'_>) -> RuleEntry<C> {
    Entry::without_permit(resource, ask.now(), ask.permits())
}

/// Enters a request into its resource, or counts it there, after a decision of any kind.
#[inline(never)]
pub(crate) fn enter_after<C: RuleClock>(
    decision: Decision<RulePermits<C>>,
    resource: Resource<C>,
    ask: &Ask<'_>,
) -> Decision<RuleEntry<C>> {
    decision.enter_many_at(resource, ask.now(), ask.permits())
}
