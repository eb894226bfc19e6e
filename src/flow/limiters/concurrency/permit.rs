//! The permit of a limiter of the requests in flight.

use std::fmt;
use std::ops::Deref;

use super::ConcurrencyLimiter;
use super::held::Held;
use crate::flow::contract::{Ask, Decision};
use crate::node::{Outcome, Permit};
use crate::time::Timestamp;

/// The permits of a request. Dropping this value gives them back.
///
/// It can be sent to another thread. `L` is the type of the reference to the limiter:
/// `&ConcurrencyLimiter` or [`Arc`](std::sync::Arc).
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct ConcurrencyPermit<L: Deref<Target = ConcurrencyLimiter>> {
    pub(super) limit: L,
    pub(super) held: Held,
}

impl<L: Deref<Target = ConcurrencyLimiter>> ConcurrencyPermit<L> {
    /// Asks a limiter through any reference to it, such as an [`Rc`](std::rc::Rc) or a guard.
    #[inline]
    pub fn ask(limit: L, ask: &Ask<'_>) -> Decision<Self> {
        match limit.admit(ask) {
            Ok(held) => Decision::Admitted(Self { limit, held }),
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    #[inline]
    pub(super) const fn of(limit: L, held: Held) -> Self {
        Self { limit, held }
    }

    /// Returns the number of permits.
    pub const fn permits(&self) -> u64 {
        self.held.permits()
    }
}

impl<L: Deref<Target = ConcurrencyLimiter>> Permit for ConcurrencyPermit<L> {
    /// Does nothing: the permit is given back when it is dropped, whatever the outcome.
    #[inline]
    fn end_at(&mut self, _now: Timestamp, _outcome: Outcome) {}
}

impl<L: Deref<Target = ConcurrencyLimiter>> Drop for ConcurrencyPermit<L> {
    #[inline]
    fn drop(&mut self) {
        self.limit.give_back(self.held);
    }
}

impl<L: Deref<Target = ConcurrencyLimiter>> fmt::Debug for ConcurrencyPermit<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrencyPermit")
            .field("permits", &self.permits())
            .finish_non_exhaustive()
    }
}
