//! The limits of keys beside the limiters that they are named after.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::keyed::OfKey;
use leaparray::flow::{
    Ask, Decision, FixedWindowLimiter, Keyed, LeakyBucket, LimitError, Limiter, LimiterExt, Reason,
    Retry, TokenBucket, WaitQueue,
};
use leaparray::{ManualClock, Timestamp};

use super::keyed;
use crate::flow::{at, ms, rate};

#[test]
fn leaky_bucket_delays_a_request_by_its_permits() {
    let limiter = keyed!(LeakyBucket::new(rate(1, 100), ms(250)), 10, Duration::ZERO);
    let ask = |now, permits| limiter.try_acquire_at(&1, at(now), permits);
    assert_eq!(ask(60_000, 3), Decision::Admitted(()), "the first request");
    assert_eq!(ask(60_000, 3).refusal().unwrap().retry_at(), Some(at(60_050)));
    assert_eq!(ask(60_050, 3), Decision::after((), ms(250)));
    assert_eq!(limiter.of_key(&1).peek_at(at(60_300), 2), Some(Decision::after((), ms(200))));
    let at_once = |now| limiter.of_key(&1).ask(&Ask::at(at(now)).at_once());
    assert_eq!(at_once(60_399).refusal().unwrap().retry_at(), Some(at(60_400)));
    assert_eq!(at_once(60_400), Decision::Admitted(()));
    assert_eq!([60_499, 60_500].map(|now| limiter.evict_at(at(now), 9)), [0, 1]);
}

/// An evicted bucket was idle for an interval. A request for three permits of that bucket would
/// have been due two intervals later.
#[test]
fn large_request_of_an_evicted_leaky_bucket_is_due_as_before() {
    let limiter = keyed!(LeakyBucket::new(rate(1, 100), ms(250)), 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, at(60_000), 1).is_admitted());
    assert_eq!([60_099, 60_100].map(|now| limiter.evict_at(at(now), 9)), [0, 1]);
    let peek = |permits| limiter.of_key(&1).peek_at(at(60_100), permits);
    assert_eq!(peek(1), Some(Decision::Admitted(())));
    assert_eq!(peek(3), Some(Decision::after((), ms(200))));
}

#[test]
fn limits_hold_at_the_end_of_time() {
    let limit = LeakyBucket::new(rate(1, 100), Duration::MAX);
    let limiter = keyed!(limit, 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, Timestamp::MAX, 1).is_admitted(), "the first request");
    let refusal = limiter.try_acquire_at(&1, Timestamp::MAX, 1).refusal().unwrap();
    assert_eq!(refusal.retry(), Retry::Never);
    let limiter = keyed!(TokenBucket::new(rate(1, 100), 5), 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, Timestamp::MAX, 1).is_admitted(), "the last token");
    assert_eq!(limiter.evict_at(Timestamp::MAX, 10), 0, "it has no token for ever");
    assert!(limiter.try_acquire_at(&1, Timestamp::MAX, 1).is_refused());
    let limiter = keyed!(FixedWindowLimiter::new(ms(100), 5).unwrap(), 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, Timestamp::MAX, 5).is_admitted());
    assert_eq!(limiter.evict_at(Timestamp::MAX, 10), 0);
    let refusal = limiter.try_acquire_at(&1, Timestamp::MAX, 1).refusal().unwrap();
    assert_eq!(refusal.retry(), Retry::Never);
}

#[test]
fn request_for_more_than_the_limit_is_refused_for_ever() {
    let limiter = keyed!(FixedWindowLimiter::new(ms(100), 5).unwrap(), 10, Duration::ZERO);
    let refusal = limiter.try_acquire_at(&1, at(60_000), 6).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::MoreThanLimit, Retry::Never));
    assert!(matches!(FixedWindowLimiter::new(ms(1), u64::MAX), Err(LimitError::TooHigh { .. })));
    assert!(matches!(FixedWindowLimiter::new(ms(0), 1), Err(LimitError::NoWindow(_))));
    let quota = limiter.of_key(&1).quota_at(at(60_000)).unwrap();
    assert_eq!((quota.limit, quota.remaining, quota.reset), (5, 5, Some(at(60_000))));
}

#[test]
fn time_ahead_of_the_clock_is_bounded_by_the_lead() {
    let clock = ManualClock::new(at(60_000));
    let limit = TokenBucket::with_clock(rate(1, 100), 1, clock.clone());
    let limiter = Keyed::new(limit, 10).unwrap();
    let limiter = limiter.with_max_lead(ms(500)).with_keep(Duration::ZERO);
    assert!(limiter.try_acquire_at(&1_u64, at(3_600_000), 1).is_admitted(), "at 60.5 s");
    let refusal = limiter.try_acquire(&1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(60_600)));
    assert_eq!(limiter.evict_at(at(3_600_000), 1_000), 0, "at 60.5 s as well");
    clock.advance(ms(100));
    assert_eq!(limiter.evict_at(at(3_600_000), 1_000), 1, "at 60.6 s");
}

#[test]
fn key_waits_in_a_queue() {
    let clock = ManualClock::new(at(60_000));
    let limit = TokenBucket::with_clock(rate(1, 100), 1, clock);
    let limiter = Keyed::<String, _>::new(limit, 10).unwrap();
    let limiter = Arc::new(limiter);
    let ann = OfKey::new(Arc::clone(&limiter), Box::new("ann".to_owned()));
    let queue = WaitQueue::new(ann);
    assert!(queue.try_acquire().is_admitted());
    assert!(queue.try_acquire().is_refused());
    assert_eq!(limiter.refusals("ann"), Some(1));
}

/// A limiter that panics for 13 permits.
struct Panicking(TokenBucket);

impl Limiter for Panicking {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        assert!(ask.permits() != 13, "a limiter of a user may panic");
        self.0.decide(ask)
    }
}

#[test]
fn panic_of_a_limit_takes_no_place_and_locks_no_key() {
    let bucket = || TokenBucket::new(rate(1, 100), 5).with_max_lead(Duration::MAX);
    let limit = || Panicking(bucket());
    let limiter = keyed!(limit, 2, Duration::MAX);
    for key in [1, 2, 1] {
        let ask = AssertUnwindSafe(|| limiter.try_acquire_at(&key, at(60_000), 13));
        assert!(catch_unwind(ask).is_err());
        assert!(limiter.is_empty());
    }
    assert!([1, 2].iter().all(|key| limiter.try_acquire_at(key, at(60_000), 5).is_admitted()));
    assert!(limiter.try_acquire_at(&3, at(60_000), 1).is_refused());
}
