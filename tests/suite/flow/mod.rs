//! The limiters, the breaker and the rolling window, with given times or a manual clock.

mod all_of;
mod bad_input;
mod breaker;
mod budget;
mod changes;
mod clock_steps;
mod decisions;
mod edges;
mod keyed;
mod limiters;
mod own;
mod peek;
mod priority;
mod rates;
mod refund;
mod rolling_window;
mod settle;
mod settling;
mod shadow;
mod shares;
mod shares_model;
mod sliding_window;
mod tiers;
mod waiting;
mod warm_up;
mod worked_examples;
mod wrappers;

use std::time::Duration;

use leaparray::Timestamp;
use leaparray::flow::{Limiter, Rate};

/// Returns the permits that remain at the time of the limiter's clock.
fn remaining<L: Limiter + ?Sized>(limiter: &L) -> u64 {
    let account = limiter.account();
    account.quota(account.now()).unwrap().remaining
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn rate(permits: u64, millis: u64) -> Rate {
    Rate::new(permits, ms(millis)).unwrap()
}
