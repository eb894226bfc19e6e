//! Limits of a cost that is known only afterwards: reserve an estimate, then settle the actual
//! cost.
//!
//! A [`CostLimiter`] gives out a [`CostReservation`]. An [`AllOf`](crate::flow::AllOf) of several
//! gives out several, which are [settled](Settle) together. A [`Ledger`] keeps reservations under
//! numbers, for a time.
//!
//! ```
//! use leaparray::flow::settle::{CostLimiter, PerRequest, Settle};
//! use leaparray::flow::{AllOf, LimiterExt, SlidingWindowLimiter};
//! use leaparray::{ManualClock, Timestamp};
//! use std::time::Duration;
//!
//! let clock = ManualClock::new(Timestamp::from_secs(60));
//! let minute = Duration::from_secs(60);
//! let requests = SlidingWindowLimiter::with_clock(minute, 100, clock.clone())?;
//! let of_client = CostLimiter::with_clock(minute, 10_000, clock.clone())?;
//! let of_all = CostLimiter::with_clock(minute, 50_000, clock.clone())?;
//! let limit = AllOf::new((PerRequest::new(requests), &of_client, &of_all));
//! // The estimate: the tokens of the prompt, and the most that the answer may have.
//! let reserved = limit.try_acquire_many(3_000).at_once()?;
//! let now = Timestamp::from_secs(61);
//! let ((), of_client, _) = reserved.settle_at(now, 1_200);
//! assert_eq!(of_client.given_back, 1_800);
//! assert_eq!(of_all.books_at(now).charged, 1_200);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Outcomes of unusual numbers and times
//!
//! | what happens | outcome |
//! |---|---|
//! | an interval that no window has | an error of [`CostLimiter::new`] |
//! | a limit of 0 | each estimate of at least 1 is refused for ever, [`Retry::Never`](crate::flow::Retry::Never) |
//! | an estimate of 0 | always admitted, beside a debt as well, and takes nothing; the whole cost is an excess |
//! | an estimate above the limit | refused for ever, `Retry::Never` |
//! | a cost below the estimate | the rest is [given back](Settlement::given_back), if the window still has it |
//! | a cost above the estimate, up to `u64::MAX` | the [excess](Settlement::excess) is charged as far as there is room, and else is a debt, of up to 128 bits |
//! | settling twice | does not compile; by a number, [`LedgerError::Settled`] or, later, [`LedgerError::Forgotten`] |
//! | settling after the expiry | [`LedgerError::Expired`]; the caller can charge the cost by [`CostLimiter::charge_at`] |
//! | a number that was never given out | [`LedgerError::Unknown`] |
//! | a ledger that is full | the reservation is returned as the error, and nothing is lost |
//! | a reservation that is dropped | ends once by its [policy](Unsettled): the estimate stands for the cost by default, or is given back |

mod book;
mod ledger;
mod limiter;
mod per_request;
mod reservation;
mod settling;

use crate::time::Timestamp;
pub use book::Settlement;
pub use ledger::{Ledger, LedgerError, ReservationId};
pub use limiter::{CostBooks, CostLimiter, Unsettled};
pub use per_request::PerRequest;
pub use reservation::CostReservation;
pub use settling::Settling;

/// Permits that are settled with the actual cost of their request: a [`CostReservation`], or those
/// of several limits, as an [`AllOf`](crate::flow::AllOf) gives them out. A limit that charges no
/// cost, whose permit is `()`, has nothing to settle.
///
/// They are taken by value, so they are settled once.
pub trait Settle: Sized {
    /// The effect of the settlement: a [`Settlement`] for each limit.
    type Settled;

    /// Settles them at `now` with the actual cost.
    fn settle_at(self, now: Timestamp, cost: u64) -> Self::Settled;
}

impl Settle for () {
    type Settled = ();

    fn settle_at(self, _now: Timestamp, _cost: u64) {}
}

impl<P: Settle> Settle for Option<P> {
    type Settled = Option<P::Settled>;

    fn settle_at(self, now: Timestamp, cost: u64) -> Self::Settled {
        self.map(|permit| permit.settle_at(now, cost))
    }
}

impl<P: Settle> Settle for Vec<P> {
    type Settled = Vec<P::Settled>;

    fn settle_at(self, now: Timestamp, cost: u64) -> Self::Settled {
        self.into_iter().map(|permit| permit.settle_at(now, cost)).collect()
    }
}

macro_rules! tuple {
    ($($permit:ident $index:tt),*) => {
        impl<$($permit: Settle),*> Settle for ($($permit,)*) {
            type Settled = ($($permit::Settled,)*);

            fn settle_at(self, now: Timestamp, cost: u64) -> Self::Settled {
                ($( self.$index.settle_at(now, cost), )*)
            }
        }
    };
}

tuple!(P 0, Q 1);
tuple!(P 0, Q 1, R 2);
tuple!(P 0, Q 1, R 2, S 3);
