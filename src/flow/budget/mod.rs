//! Budgets of retries and hedges: a share of the requests.
//!
//! A retry is a request more, made when the backend can serve fewer. If each of a thousand failing
//! requests is tried three times, the backend gets three thousand, and may not recover after the
//! cause is gone. A budget bounds the retries by the requests that they repeat: with a share of
//! 20 %, the backend gets at most 1.2 times its load.
//!
//! | | bounds | by |
//! |---|---|---|
//! | [`RetryBudget`] | the retries of a window | a share of its requests, plus a minimum |
//! | [`LiveBudget`] | the retries in flight | a share of the other requests in flight, or a minimum |
//!
//! Choose the window to bound the load that retries add, as finagle and tower do, and the requests
//! in flight to bound the work that they hold, as Envoy's `retry_budget` does. Both are
//! [limiters](super::Limiter) of retries, so an [`AllOf`](super::AllOf) asks both, and a
//! [`Keyed`](super::Keyed) limiter has a budget for each backend: deposit in the one that
//! [`Keyed::limiter_of`](super::Keyed::limiter_of) returns for it.
//!
//! # Hedges
//!
//! A *hedge* is a second attempt while the first one is still in flight. [`Hedges`] send it when
//! the first one takes longer than most do, within a budget of a few percent, which bounds the
//! hedges if all requests become slow.

mod error;
mod hedges;
mod live;
mod retries;

pub use error::BudgetError;
pub use hedges::{FirstAttempt, Hedges};
pub use live::{LiveBudget, LiveRequest, RetryPermit};
pub use retries::RetryBudget;

use super::share::{AtomicBudget, Share};
use crate::flow::contract::{Refusal, Retry};
use crate::node::Reason;

impl Reason {
    /// The reason of a refusal of a retry that is beyond its [budget](crate::flow::budget).
    pub const BUDGET_SPENT: Self = Self::Custom("the budget of retries is spent");
}

/// Returns the share, if it and the minimum are in range.
fn checked(share: f64, minimum: u64, max: u64) -> Result<Share, BudgetError> {
    if minimum > max {
        return Err(BudgetError::Minimum { minimum, max });
    }
    Share::new(share, 1_000.0).ok_or(BudgetError::Share { share })
}

/// Returns the refusal of retries. Requests may raise the budget at any time, so the time to ask
/// again is not known.
#[cold]
fn refuse(permits: u64, max: u64) -> Refusal {
    if permits > max {
        return Refusal::never();
    }
    Refusal::new(Reason::BUDGET_SPENT, Retry::Unknown)
}
