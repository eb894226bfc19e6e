//! The reservation of a request.

use std::fmt;
use std::ops::Deref;

use super::Settle;
use super::book::Settlement;
use super::limiter::Unsettled;
use crate::flow::contract::{Ask, Decision, Refusal};
use crate::node::{Outcome, Permit};
use crate::time::Timestamp;
use sealed::Costs;

pub(super) mod sealed {
    use super::{Ask, Refusal, Settlement, Unsettled};
    use crate::time::Timestamp;

    /// A limiter of costs, of any kind.
    pub trait Costs {
        /// The place of an estimate in the books.
        type Mark: Copy;

        fn clock_now(&self) -> Timestamp;
        fn unsettled(&self) -> Unsettled;
        fn reserve(&self, ask: &Ask<'_>) -> Result<Self::Mark, Refusal>;
        fn estimate(mark: &Self::Mark) -> u64;
        fn settle(&self, now: Timestamp, mark: Self::Mark, cost: u64) -> Settlement;
    }
}

/// The estimate that a [`CostLimiter`] or a [`Settling`](super::Settling) has reserved for a
/// request. It is settled once, by value; if it is dropped before, its
/// [policy](super::CostLimiter::with_unsettled) applies.
///
/// It can be sent to another thread. `L` is the type of the reference to the limiter:
/// `&CostLimiter` or [`Arc`](std::sync::Arc).
///
/// [`CostLimiter`]: super::CostLimiter
///
/// As the permit of an [entry](crate::Entry), it ends with the entry, by its policy. To settle it,
/// reserve beside the entry, and keep the reservation until the cost is known.
#[must_use = "a reservation that is dropped at once ends by its policy"]
pub struct CostReservation<L>
where
    L: Deref,
    L::Target: Costs,
{
    limiter: L,
    mark: <L::Target as Costs>::Mark,
    unsettled: Unsettled,
    is_open: bool,
}

impl<L> CostReservation<L>
where
    L: Deref,
    L::Target: Costs,
{
    /// Asks a limiter through any reference to it, such as an [`Rc`](std::rc::Rc) or a guard.
    pub fn ask(limiter: L, ask: &Ask<'_>) -> Decision<Self> {
        match limiter.reserve(ask) {
            Ok(mark) => Decision::Admitted(Self::of(limiter, mark)),
            Err(refusal) => Decision::Refused(refusal),
        }
    }

    pub(super) fn of(limiter: L, mark: <L::Target as Costs>::Mark) -> Self {
        let unsettled = limiter.unsettled();
        Self { limiter, mark, unsettled, is_open: true }
    }

    /// Returns the estimate.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        <L::Target as Costs>::estimate(&self.mark)
    }

    /// Sets the policy for this reservation if it is not settled, instead of the
    /// [policy](super::CostLimiter::with_unsettled) of the limiter. For example, an estimate is
    /// given back until the request is sent, and stands from then on.
    pub const fn if_unsettled(mut self, policy: Unsettled) -> Self {
        self.unsettled = policy;
        self
    }

    /// Settles the reservation now, with the actual cost. A cost of 0 gives all of it back.
    pub fn settle(mut self, cost: u64) -> Settlement {
        // Before the clock is read: if that panics, the drop does not read it again.
        self.is_open = false;
        self.limiter.settle(self.limiter.clock_now(), self.mark, cost)
    }

    /// Ends a reservation that is open.
    fn end(&mut self, now: impl FnOnce(&L::Target) -> Timestamp, cost: u64) {
        if std::mem::replace(&mut self.is_open, false) {
            self.limiter.settle(now(&self.limiter), self.mark, cost);
        }
    }

    fn cost_if_unsettled(&self) -> u64 {
        match self.unsettled {
            Unsettled::Stands => self.estimate(),
            Unsettled::GivenBack => 0,
        }
    }
}

impl<L> Settle for CostReservation<L>
where
    L: Deref,
    L::Target: Costs,
{
    type Settled = Settlement;

    fn settle_at(mut self, now: Timestamp, cost: u64) -> Settlement {
        self.is_open = false;
        self.limiter.settle(now, self.mark, cost)
    }
}

impl<L> Permit for CostReservation<L>
where
    L: Deref,
    L::Target: Costs,
{
    /// Ends the reservation by its policy, whatever the outcome: the cost is not known.
    fn end_at(&mut self, now: Timestamp, _outcome: Outcome) {
        self.end(|_| now, self.cost_if_unsettled());
    }

    /// Gives the estimate back.
    fn withdraw_at(&mut self, now: Timestamp) {
        self.end(|_| now, 0);
    }
}

impl<L> Drop for CostReservation<L>
where
    L: Deref,
    L::Target: Costs,
{
    fn drop(&mut self) {
        self.end(Costs::clock_now, self.cost_if_unsettled());
    }
}

impl<L> fmt::Debug for CostReservation<L>
where
    L: Deref,
    L::Target: Costs,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CostReservation")
            .field("estimate", &self.estimate())
            .field("unsettled", &self.unsettled)
            .finish_non_exhaustive()
    }
}
