//! A head whose timer ends late.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::circuit::{CircuitState, RatioLimit};
use leaparray::flow::{
    AllOf, CircuitBreaker, CircuitConfig, FixedWindowLimiter, Keyed, LeakyBucket, Limiter,
    LimiterExt, SlidingWindowLimiter, TokenBucket, WaitQueue,
};
use leaparray::{Clock, ManualClock, Timestamp};

use crate::flow::{at, ms, rate, remaining};

const MINUTE: Duration = Duration::from_secs(60);

/// Waits for permits with a timer that ends late.
fn acquire<L: Limiter>(queue: &WaitQueue<L>, permits: u64, clock: &ManualClock, late: Duration) {
    drop(queue.acquire_by(permits, MINUTE, |wait| clock.advance(wait + late)).unwrap());
}

/// The permits of an interval are counted at the times at which their requests go ahead, and not
/// when a bucket beside the window had them.
#[test]
fn window_beside_a_bucket_counts_requests_when_they_go_ahead() {
    let clock = ManualClock::new(at(60_000));
    let second = || SlidingWindowLimiter::with_clock(ms(1_000), 5, clock.clone()).unwrap();
    let bucket = TokenBucket::with_clock(rate(1, 1_000), 5, clock.clone());
    let queue = WaitQueue::new(AllOf::new((bucket, second())));
    let (bucket, window) = queue.limiter().limiters();
    assert!(bucket.try_acquire_many(5).is_admitted());
    acquire(&queue, 5, &clock, ms(3_000));
    assert_eq!(remaining(window), 0);

    let pace = LeakyBucket::with_clock(rate(1, 1_000), ms(0), clock.clone());
    let queue = WaitQueue::new(AllOf::new((pace, second())));
    let (pace, window) = queue.limiter().limiters();
    assert!(pace.try_acquire().is_admitted());
    acquire(&queue, 5, &clock, ms(3_000));
    assert_eq!(remaining(window), 0);
}

#[test]
fn interval_beside_a_bucket_counts_requests_when_they_go_ahead() {
    let clock = ManualClock::new(at(60_500));
    let bucket = TokenBucket::with_clock(rate(1, 400), 1, clock.clone());
    let second = FixedWindowLimiter::with_clock(ms(1_000), 1, clock.clone()).unwrap();
    let queue = WaitQueue::new(AllOf::new((bucket, second)));
    assert!(queue.limiter().limiters().0.try_acquire().is_admitted());
    acquire(&queue, 1, &clock, ms(110));
    assert_eq!((clock.now(), remaining(&queue.limiter().limiters().1)), (at(61_010), 0));
}

/// The lateness of a timer is no part of the response time of a call.
#[test]
fn breaker_beside_a_bucket_measures_calls_from_when_they_go_ahead() {
    let clock = ManualClock::new(at(60_000));
    let bucket = TokenBucket::with_clock(rate(1, 100), 1, clock.clone());
    let config = CircuitConfig::default().min_calls(1);
    let config = config.slow_ratio(RatioLimit::at_least(0.5).unwrap(), ms(20));
    let breaker = Arc::new(CircuitBreaker::with_clock(config, clock.clone()));
    let queue = WaitQueue::new(AllOf::new((bucket, Arc::clone(&breaker))));
    for _ in 0..3 {
        let permit = queue.acquire_by(1, MINUTE, |wait| clock.advance(wait + ms(30))).unwrap();
        clock.advance(ms(1));
        permit.into_inner().1.accept();
    }
    assert_eq!(breaker.at(clock.now()).state, CircuitState::Closed);
}

/// A bucket that fills while the timer of the head is late is not full again once the head has its
/// permits.
#[test]
fn bucket_gives_no_second_burst_beside_a_late_head() {
    let clock = ManualClock::new(at(60_000));
    let queue = WaitQueue::new(TokenBucket::with_clock(rate(1, 100), 5, clock.clone()));
    assert!(queue.limiter().try_acquire_many(5).is_admitted());
    acquire(&queue, 5, &clock, ms(1_000));
    assert_eq!((clock.now(), remaining(&queue.limiter())), (at(61_500), 0));
}

#[test]
fn queue_over_a_key_keeps_the_rate_of_its_bucket() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let bucket = TokenBucket::with_clock(rate(1, 1), 1, clock.clone());
    let keyed = Keyed::<u64, _>::new(bucket, 10).unwrap();
    let queue = WaitQueue::new(keyed.of_key(&1));
    for _ in 0..1_000 {
        acquire(&queue, 1, &clock, ms(1));
    }
    assert!(clock.now() <= at(61_005), "{}", clock.now());
}
