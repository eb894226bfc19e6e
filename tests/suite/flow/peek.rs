//! A peek returns the decision that a request would get, and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{
    AdaptiveBreaker, ConcurrencyLimiter, Decision, FixedWindowLimiter, LeakyBucket, Limiter,
    LimiterExt, Rate, SlidingWindowLimiter, TokenBucket,
};
use leaparray::{ManualClock, Timestamp, WindowConfig};
use proptest::prelude::*;

use crate::flow::{at, ms};

type Any = Box<dyn Limiter<Permit = ()>>;

/// Each kind of limiter with the permit `()`, with a lead of a second or without a bound.
fn limiters(clock: &ManualClock, lead: Duration, permits: u64, limit: u64) -> Vec<Any> {
    let rate = Rate::new(permits, Duration::from_nanos(999_999_999)).unwrap();
    let window = WindowConfig::new(4, ms(1_000)).unwrap();
    let clock = || clock.clone();
    vec![
        Box::new(
            FixedWindowLimiter::with_clock(ms(700), limit, clock()).unwrap().with_max_lead(lead),
        ),
        Box::new(
            SlidingWindowLimiter::of_buckets_with_clock(window, limit, clock())
                .unwrap()
                .with_max_lead(lead),
        ),
        Box::new(TokenBucket::with_clock(rate, limit, clock()).with_max_lead(lead)),
        Box::new(LeakyBucket::with_clock(rate, ms(300), clock()).with_max_lead(lead)),
    ]
}

proptest! {
    /// The times go forward by less than two windows, back, and ahead of the clock by up to an
    /// hour.
    #[test]
    fn peek_is_the_decision_that_a_request_gets(
        permits in 1..50_u64, limit in 0..9_u64, is_bounded: bool,
        steps in proptest::collection::vec(
            (prop_oneof![8 => 0..400_i64, 2 => -300..0_i64, 1 => 400..2_000_i64], 0..6_u64, 0..12_u8),
            1..40,
        ),
    ) {
        let clock = ManualClock::new(at(60_000));
        let lead = if is_bounded { ms(1_000) } else { Duration::MAX };
        for limiter in limiters(&clock, lead, permits, limit) {
            let mut time = 60_000_u64;
            for &(step, asked, kind) in &steps {
                time = time.saturating_add_signed(step);
                clock.set(at(time));
                let now = at(if kind == 0 { time + 3_600_000 } else { time });
                let quota = limiter.quota_at(now);
                let peek = limiter.peek_at(now, asked).expect("each of these can tell");
                prop_assert_eq!(limiter.peek_at(now, asked), Some(peek), "a peek changes nothing");
                prop_assert_eq!(limiter.quota_at(now), quota);
                if kind != 1 {
                    prop_assert_eq!(limiter.try_acquire_at(now, asked), peek);
                }
            }
        }
    }
}

#[test]
fn peek_closes_no_bucket() {
    let limiter =
        SlidingWindowLimiter::of_buckets(WindowConfig::new(2, ms(1_000)).unwrap(), 3).unwrap();
    assert!(limiter.try_acquire_at(at(60_000), 3).is_admitted());
    assert_eq!(limiter.peek_at(at(61_000), 3), Some(Decision::Admitted(())));
    // If the peek had opened the bucket of 61 s, a stale request would count there, and be
    // admitted.
    assert!(limiter.try_acquire_at(at(60_000), 1).is_refused());
}

#[test]
fn peek_of_a_concurrency_limiter_takes_nothing() {
    let limit = Arc::new(ConcurrencyLimiter::new(2));
    let peek = |permits| {
        let peeks = [(*limit).peek_at(at(0), permits), limit.peek_at(at(0), permits)];
        assert_eq!(peeks[0], peeks[1], "through either reference");
        peeks[0].unwrap()
    };
    let asked = |permits| limit.try_acquire_many(permits).map(drop);
    assert_eq!(peek(2), Decision::Admitted(()));
    let held = limit.try_acquire().at_once().unwrap();
    for permits in 0..4 {
        assert_eq!(peek(permits), asked(permits));
    }
    drop(held);
    assert_eq!((peek(2), limit.in_use()), (Decision::Admitted(()), 0));
}

#[test]
fn limiter_that_cannot_tell_says_so() {
    let breaker = AdaptiveBreaker::new(AdaptiveBreakerConfig::default());
    assert_eq!(breaker.peek_at(Timestamp::MIN, 1), None);
    let boxed =
        [Arc::new(breaker).boxed(), TokenBucket::new(Rate::per_second(1).unwrap(), 0).boxed()];
    assert_eq!(boxed[0].peek_at(at(0), 1), None);
    assert!(boxed[1].peek_at(at(0), 1).is_some_and(|decision| decision.is_refused()));
}
