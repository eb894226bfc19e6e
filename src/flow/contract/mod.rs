//! The contract of a limiter: the ask, the decision, the refusal, and what a caller does with them.

mod account;
mod ask;
mod decision;
mod error;
mod ext;
mod forward;
mod lend;
mod limiter;
mod named;
mod passed;
mod quota;
mod rate;
mod refusal;
mod sleep;

pub use account::Account;
pub use ask::Ask;
pub use decision::{Decision, Delayed};
pub use error::{LimitError, RateError};
pub use ext::LimiterExt;
pub use forward::{BoxLimiter, BoxPermit};
pub(in crate::flow) use lend::lend;
pub use limiter::Limiter;
pub use named::Named;
pub use passed::Passed;
pub use quota::{Quota, QuotaUnit};
pub use rate::Rate;
pub use refusal::{Refusal, Retry};
