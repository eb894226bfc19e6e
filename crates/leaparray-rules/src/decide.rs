//! The entry of a request after the decision on it.
#![expect(clippy::inline_always, reason = "out of line, the rules of a request go through memory")]

use leaparray::flow::{Ask, Decision};
use leaparray::{Entry, Resource};

use crate::limiter::{RuleClock, RulePermits};
use crate::rules::RuleEntry;

/// Returns whether a request is admitted without a permit that has to end. By reference: otherwise
/// the permits would be moved as a whole.
#[inline(always)]
pub(crate) fn is_nothing<C: RuleClock>(decision: &Decision<RulePermits<C>>) -> bool {
    matches!(decision, Decision::Admitted(permits) if permits.is_nothing())
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
    ask: Ask<'_>,
) -> Decision<RuleEntry<C>> {
    decision.enter_many_at(resource, ask.now(), ask.permits())
}
