//! Decisions on time and on what has passed: limiters, pacing, warm-up, a breaker.
//!
//! Each controller answers a [`Decision`]: admitted, admitted after a [wait](Decision::Wait), or
//! [refused](Decision::Refused) with a [reason](Reason) and the earliest time at which it can make sense
//! to ask again. To ask and to take is one step: of those who race for the last permit one gets it, and
//! nothing is taken first and given back after. Nothing sleeps in here. [`Decision::sleep`] and
//! [`acquire_blocking`] do, and [`Decision::sleep_with`] and [`acquire_with`] leave it to any runtime.
//!
//! | to | there is |
//! |---|---|
//! | admit at most so many in each interval | [`FixedWindowLimiter`] |
//! | admit at most so many in any window of n buckets | [`SlidingWindowLimiter`] |
//! | space requests evenly | [`LeakyBucket`] |
//! | admit at a rate, and bursts up to a size | [`TokenBucket`] |
//! | let a cold service warm up | [`WarmUp`] |
//! | admit at most so many at once | [`ConcurrencyLimiter`] |
//! | drop what a failing backend would reject | [`AdaptiveBreaker`] |
//! | keep values of your own, bucket by bucket | [`RollingWindow`] |
//!
//! Every time is a [`Timestamp`](crate::Timestamp) of one clock, and every operation has a form that
//! takes it. A request may come with an older `now` than others, because it was held up. A limit on a window
//! decides on it in the newest bucket that anybody has come with. A bucket that leaks or fills holds it against
//! the time that it keeps, which is then further off. A breaker takes its `now` for what it is.

mod acquire;
mod breaker;
mod concurrency_limiter;
mod decision;
mod error;
mod fixed_window_limiter;
mod leaky_bucket;
mod limiter;
mod permit_window;
mod rate;
mod rolling_window;
mod sliding_window_limiter;
mod token_bucket;
mod warm_up;
mod word;

pub use acquire::{acquire_blocking, acquire_with};
pub use breaker::{
    AdaptiveBreaker, BreakerConfig, BreakerPermit, RandomSource, SeededRandom, ThreadRandom,
};
pub use concurrency_limiter::{ConcurrencyLimiter, ConcurrencyPermit};
pub use decision::{Decision, Reason, Refusal};
pub use error::{BreakerConfigError, LimitError, RateError, WarmUpError};
pub use fixed_window_limiter::FixedWindowLimiter;
pub use leaky_bucket::LeakyBucket;
pub use limiter::Limiter;
pub use rate::Rate;
pub use rolling_window::{Number, Rolling, RollingBucket, RollingWindow, Sum, SumBucket};
pub use sliding_window_limiter::SlidingWindowLimiter;
pub use token_bucket::TokenBucket;
pub use warm_up::{WarmUp, WarmUpConfig};
