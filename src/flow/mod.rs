//! Decisions on time and on what has passed: limiters, pacing, warm-up, a breaker.
//!
//! Each answers a [`Decision`]: admitted, admitted after a [wait](Decision::Wait), or
//! [refused](Decision::Refused) with a [reason](Reason) and the earliest time at which it can make sense
//! to ask again. To ask and to take is one step: of those who race for the last permit one gets it, and
//! nothing is taken first and given back after. Nothing sleeps in here. [`Decision::sleep`] and
//! [`acquire_blocking`] do, and [`Decision::sleep_with`] and [`acquire_with`] leave it to any runtime.
//!
//! | to | there is |
//! |---|---|
//! | space requests evenly | [`LeakyBucket`] |
//! | admit at a rate, and bursts up to a size | [`TokenBucket`] |
//! | drop what a failing backend would reject | [`AdaptiveBreaker`] |
//! | keep values of your own, bucket by bucket | [`RollingWindow`] |
//!
//! Every time is a [`Timestamp`](crate::Timestamp) of one clock, and every operation has a form that
//! takes it. A limiter takes a `now` that is older than what it decided on last for that: none of its
//! decisions goes back.

mod acquire;
mod breaker;
mod decision;
mod error;
mod leaky_bucket;
mod limiter;
mod rate;
mod rolling_window;
mod token_bucket;

pub use acquire::{acquire_blocking, acquire_with};
pub use breaker::{
    AdaptiveBreaker, BreakerConfig, Promise, RandomSource, SeededRandom, ThreadRandom,
};
pub use decision::{Decision, Reason, Refusal};
pub use error::{BreakerConfigError, RateError};
pub use leaky_bucket::LeakyBucket;
pub use limiter::Limiter;
pub use rate::Rate;
pub use rolling_window::{Number, RolledBucket, Rolling, RollingWindow, Sum, SumBucket};
pub use token_bucket::TokenBucket;
