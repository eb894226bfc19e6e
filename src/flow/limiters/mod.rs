//! The limiters, each of which decides by one rule.

mod concurrency;
mod fixed_window_limiter;
mod leaky_bucket;
mod sliding_window_limiter;
mod token_bucket;
mod warm_up;

pub use concurrency::{ConcurrencyLimiter, ConcurrencyPermit};
pub(in crate::flow) use concurrency::{CountedPermits, PermitCount};
pub use fixed_window_limiter::FixedWindowLimiter;
pub(in crate::flow) use fixed_window_limiter::Interval;
pub use leaky_bucket::LeakyBucket;
pub(in crate::flow) use leaky_bucket::Pace;
pub use sliding_window_limiter::SlidingWindowLimiter;
pub(in crate::flow) use sliding_window_limiter::window_of_any;
pub(in crate::flow) use token_bucket::Fill;
pub use token_bucket::TokenBucket;
pub use warm_up::{WarmUp, WarmUpConfig, WarmUpError};
