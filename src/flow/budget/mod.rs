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
//! | [`LiveBudget`] | the retries in flight | a share of the requests in flight, or a minimum |
//!
//! Choose the window to bound the load that retries add, as finagle and tower do, and the requests
//! in flight to bound the work that they hold, as Envoy's `retry_budget` does. Both are
//! [limiters](super::Limiter) of retries, so an [`AllOf`](super::AllOf) asks both, and a
//! [`Keyed`](super::Keyed) limiter has a budget for each backend.
//!
//! # Hedges
//!
//! A *hedge* is a second attempt while the first one is still in flight. It is sent when the first
//! one takes longer than most requests do: after a quantile of the response times, which the window
//! of a node has. A budget of 5 % bounds the hedges if all requests become slow, when each of them
//! takes longer than that quantile.
//!
//! ```
//! use leaparray::flow::LimiterExt;
//! use leaparray::flow::budget::RetryBudget;
//! use leaparray::histogram::HistogramConfig;
//! use leaparray::{ManualClock, NodeConfig, Timeline, Timestamp, WindowConfig};
//! use std::time::Duration;
//!
//! let timeline = Timeline::with_clock(ManualClock::new(Timestamp::from_secs(60)));
//! let node = timeline.node(NodeConfig::default().with_histogram(HistogramConfig::default()));
//! let window = WindowConfig::new(10, Duration::from_secs(10))?;
//! let hedges = RetryBudget::with_clock(window, 0.05, 0, timeline.clock().clone())?;
//! for millis in 1..=100 {
//!     hedges.deposit();
//!     let entry = node.enter();
//!     timeline.clock().advance(Duration::from_millis(millis));
//!     entry.success();
//! }
//! // A request waits as long as 95 of 100 take, and then asks for a hedge.
//! let patience = node.now().long().quantile(0.95).expect("100 response times");
//! assert!((94..=96).contains(&patience.as_millis()));
//! assert!(hedges.try_acquire().is_admitted());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod error;
mod live;
mod retries;

pub use error::BudgetError;
pub use live::{LiveBudget, LiveRequest, RetryPermit};
pub use retries::RetryBudget;

use super::share::Share;
use crate::flow::contract::{Refusal, Retry};
use crate::node::Reason;

impl Reason {
    /// The reason of a refusal of a retry that is beyond its [budget](crate::flow::budget).
    pub const BUDGET_SPENT: Self = Self::Custom("the budget of retries is spent");
}

fn share(share: f64) -> Result<Share, BudgetError> {
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
