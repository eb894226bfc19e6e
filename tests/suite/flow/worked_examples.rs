//! Worked examples of the limiters, with times in milliseconds.

use std::time::Duration;

use leaparray::flow::{
    Decision, FixedWindowLimiter, LeakyBucket, Limiter, LimiterExt, Rate, Reason,
    SlidingWindowLimiter, TokenBucket,
};
use leaparray::{Timestamp, WindowConfig};

use crate::flow::{at, ms};

fn second(millis: u64) -> Timestamp {
    at(60_000 * 1_000 + millis)
}

/// Spreads requests evenly over the half minute that starts at `begin`. Returns how many are
/// admitted.
fn half_minute(limiter: &impl Limiter, begin: u64, requests: u64) -> u64 {
    let times = (0..requests).map(|request| second(begin + request * 30_000 / requests));
    times.map(|now| u64::from(limiter.try_acquire_at(now, 1).is_admitted())).sum()
}

#[test]
fn fixed_window_admits_twice_its_limit_across_an_edge() {
    let limiter = FixedWindowLimiter::new(ms(60_000), 100).unwrap();
    let halves = [(0, 10), (30_000, 90), (60_000, 90), (90_000, 10)];
    let admitted = halves.map(|(begin, requests)| half_minute(&limiter, begin, requests));
    assert_eq!(admitted, [10, 90, 90, 10]);
}

#[test]
fn sliding_window_refuses_what_is_too_much_across_that_edge() {
    let config = WindowConfig::new(6, ms(60_000)).unwrap();
    let limiter = SlidingWindowLimiter::of_buckets(config, 100).unwrap();
    assert_eq!(half_minute(&limiter, 0, 10), 10);
    assert_eq!(half_minute(&limiter, 30_000, 90), 90);
    assert_eq!(half_minute(&limiter, 60_000, 90), 10, "80 are refused");
}

#[test]
fn request_lands_in_the_bucket_of_its_ten_seconds() {
    let config = WindowConfig::new(6, ms(60_000)).unwrap();
    let limiter = SlidingWindowLimiter::of_buckets(config, 1).unwrap();
    assert!(limiter.try_acquire_at(second(35_000), 1).is_admitted());
    // The bucket from 0:30 to 0:40 leaves the window a minute after its start.
    let refusal = limiter.try_acquire_at(second(89_999), 1).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry_at()), (Reason::LimitReached, Some(second(90_000))));
    assert!(limiter.try_acquire_at(second(90_000), 1).is_admitted());
}

fn ten_a_second(max_wait: Duration) -> LeakyBucket {
    let bucket = LeakyBucket::new(Rate::new(10, ms(1_000)).unwrap(), max_wait);
    assert_eq!(bucket.try_acquire_at(at(300), 1), Decision::Admitted(()));
    bucket
}

#[test]
fn leaky_bucket_lets_pass_what_is_due() {
    let bucket = ten_a_second(ms(0));
    assert_eq!(bucket.try_acquire_at(at(450), 1), Decision::Admitted(()));
    // The next request is due 100 ms after that.
    let refusal = bucket.try_acquire_at(at(549), 1).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry_at()), (Reason::WaitTooLong, Some(at(550))));
    assert_eq!(bucket.try_acquire_at(at(550), 1), Decision::Admitted(()));
}

#[test]
fn leaky_bucket_delays_early_request() {
    let bucket = ten_a_second(ms(100));
    assert_eq!(bucket.try_acquire_at(at(350), 1), Decision::after((), ms(50)));
    // A request that would wait too long is refused, and changes nothing.
    let refusal = bucket.try_acquire_at(at(399), 1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(400)));
    assert_eq!(bucket.try_acquire_at(at(400), 1), Decision::after((), ms(100)));
}

#[test]
fn token_bucket_admits_a_burst_and_then_its_rate() {
    let bucket = TokenBucket::new(Rate::new(10, ms(1_000)).unwrap(), 5);
    assert!(bucket.try_acquire_at(at(300), 5).is_admitted());
    let refusal = bucket.try_acquire_at(at(350), 1).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry_at()), (Reason::LimitReached, Some(at(400))));
    assert!(bucket.try_acquire_at(at(400), 1).is_admitted());
    assert!(bucket.try_acquire_at(at(400), 1).is_refused());
    assert!(bucket.try_acquire_at(at(900), 5).is_admitted());
}
