//! The limiters, each of which decides by one rule.

mod concurrency;
mod fixed_window_limiter;
mod leaky_bucket;
mod sliding_window_limiter;
mod token_bucket;
mod warm_up;

pub(in crate::flow) use concurrency::CountedPermits;
pub use concurrency::{ConcurrencyLimiter, ConcurrencyPermit};
pub use fixed_window_limiter::FixedWindowLimiter;
pub use leaky_bucket::LeakyBucket;
pub use sliding_window_limiter::SlidingWindowLimiter;
pub use token_bucket::TokenBucket;
pub(in crate::flow) use token_bucket::{Fill, SATURATED};
pub use warm_up::{WarmUp, WarmUpConfig, WarmUpError};
