//! Waits and attempts, with clocks that are set by hand.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::flow::{LeakyBucket, Rate, Reason, Retry, TokenBucket};
use crate::time::{CachedClock, Clock, ManualClock};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn ten_a_second() -> Rate {
    Rate::new(10, ms(1_000)).unwrap()
}

/// The output of a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}

#[test]
fn decision_sleeps_for_its_wait() {
    let refusal = Refusal::new(Reason::LimitReached, Retry::Unknown);
    for (decision, expected, result) in [
        (Decision::Admitted(7), None, Ok(7)),
        (Decision::after(7, ms(3)), Some(ms(3)), Ok(7)),
        (Decision::Refused(refusal), None, Err(refusal)),
    ] {
        let mut slept = None;
        assert_eq!(decision.into_result().map(|it| it.sleep_by(|wait| slept = Some(wait))), result);
        assert_eq!(slept, expected);
        let mut slept = None;
        let sleep = |wait| {
            slept = Some(wait);
            std::future::ready(())
        };
        assert_eq!(now(decision.sleep_with(sleep)), result);
        assert_eq!(slept, expected);
    }
}

#[test]
fn permit_is_dropped_with_its_future() {
    let permit = std::sync::Arc::new(());
    let decision = Decision::after(permit.clone(), ms(3));
    let mut waiting = Box::pin(decision.sleep_with(|_| std::future::pending::<()>()));
    let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending() && std::sync::Arc::strong_count(&permit) == 2);
    drop(waiting);
    assert_eq!(std::sync::Arc::strong_count(&permit), 1);
}

#[test]
fn refused_request_sleeps_until_the_retry_time() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let bucket = TokenBucket::with_clock(ten_a_second(), 1, clock.clone());
    let mut slept = Vec::new();
    for _ in 0..3 {
        let sleep = |wait| {
            slept.push(wait);
            clock.advance(wait);
        };
        acquire_by(&bucket, 1, ms(100), sleep).unwrap();
    }
    assert_eq!(slept, [ms(100), ms(100)]);
    let sleep = |_| panic!("the timeout would pass");
    assert!(acquire_by(&bucket, 1, ms(99), sleep).is_err());
}

#[test]
fn admitted_request_sleeps_for_its_wait() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let bucket = LeakyBucket::with_clock(ten_a_second(), ms(1_000), clock);
    let mut slept = Vec::new();
    for _ in 0..3 {
        acquire_by(&bucket, 1, Duration::ZERO, |wait| slept.push(wait)).unwrap();
        let sleep = |wait| {
            slept.push(wait);
            std::future::ready(())
        };
        now(acquire_with(&bucket, 1, Duration::ZERO, sleep)).unwrap();
    }
    assert_eq!(slept, [100, 200, 300, 400, 500].map(ms));
}

/// A limiter that refuses each request, and asks for another attempt after `retry_in`.
struct Closed {
    clock: ManualClock,
    retry_in: Duration,
}

impl Closed {
    fn new(now: Timestamp, retry_in: Duration) -> Self {
        Self { clock: ManualClock::new(now), retry_in }
    }
}

impl Limiter for Closed {
    type Permit = ();

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn try_acquire_at(&self, now: Timestamp, _permits: u64) -> Decision {
        let retry_at = now.saturating_add(self.retry_in);
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::At(retry_at)))
    }
}

/// Calls `acquire_by` and then `acquire_with`, and returns the result and the waits, which must be the same for both.
fn acquire(
    limiter: impl Fn() -> Closed,
    timeout: Duration,
    sleep: impl Fn(&ManualClock, Duration),
) -> (Result<(), Refusal>, Vec<Duration>) {
    let (closed, mut slept) = (limiter(), Vec::new());
    let result = acquire_by(&closed, 1, timeout, |wait| {
        assert!(slept.len() < 100, "endless");
        slept.push(wait);
        sleep(&closed.clock, wait);
    });
    let (closed, mut also_slept) = (limiter(), Vec::new());
    let also = now(acquire_with(&closed, 1, timeout, |wait| {
        assert!(also_slept.len() < 100, "endless");
        also_slept.push(wait);
        sleep(&closed.clock, wait);
        std::future::ready(())
    }));
    assert_eq!((result, &slept), (also, &also_slept));
    (result, slept)
}

#[test]
fn limiter_is_not_asked_without_a_pause() {
    let hasty = || Closed::new(Timestamp::from_secs(60), Duration::ZERO);
    let (result, slept) = acquire(hasty, Duration::from_nanos(3), ManualClock::advance);
    assert!(result.is_err());
    assert_eq!(slept, [Duration::from_nanos(1); 3]);
}

#[test]
fn acquire_ends_at_the_end_of_time() {
    let hasty = || Closed::new(Timestamp::MAX, Duration::ZERO);
    let (result, slept) = acquire(hasty, Duration::MAX, ManualClock::advance);
    assert!(result.is_err() && slept.is_empty(), "{slept:?}");
}

#[test]
fn acquire_under_a_clock_that_stands_still_is_refused_at_the_timeout() {
    let closed = || Closed::new(Timestamp::from_secs(60), ms(10));
    let (result, slept) = acquire(closed, ms(35), |_, _| ());
    assert_eq!(slept, [ms(10); 3]);
    let retry = Retry::At(Timestamp::from_millis(60_040));
    assert_eq!(result, Err(Refusal::new(Reason::LimitReached, retry)));
}

#[test]
fn time_that_passes_beyond_the_wait_counts_for_the_timeout() {
    let closed = || Closed::new(Timestamp::from_secs(60), ms(10));
    let (result, slept) = acquire(closed, ms(35), |clock, wait| clock.advance(wait * 2));
    assert_eq!(slept, [ms(10); 2]);
    let retry = Retry::At(Timestamp::from_millis(60_050));
    assert_eq!(result, Err(Refusal::new(Reason::LimitReached, retry)));
}

/// The clock stands still for longer than the lead of the limiter. The attempts go on at the pace of the limiter's waits.
#[test]
fn acquire_under_a_clock_that_stands_still_for_longer_than_the_lead_ends() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let rate = Rate::new(1, ms(10_000)).unwrap();
    let bucket = TokenBucket::with_clock(rate, 1, clock.clone());
    assert!(bucket.try_acquire_many(1).is_admitted());
    let mut slept = Vec::new();
    let sleep = |wait| {
        assert!(slept.len() < 100, "endless");
        slept.push(wait);
    };
    assert!(acquire_by(&bucket, 1, Duration::MAX, sleep).is_err());
    assert_eq!(slept, [ms(10_000)]);
}

#[test]
fn acquire_under_a_slow_clock_waits_for_what_the_clock_lacks() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let bucket = TokenBucket::with_clock(Rate::new(1, ms(10_000)).unwrap(), 1, clock.clone());
    assert!(bucket.try_acquire_many(1).is_admitted());
    let mut slept = Vec::new();
    let sleep = |wait| {
        assert!(slept.len() < 100, "endless");
        slept.push(wait);
        clock.advance(ms(1_000));
    };
    acquire_by(&bucket, 1, Duration::MAX, sleep).unwrap();
    // The lead is a second, so the token is there when the clock shows 69 s.
    assert_eq!(slept, (2..=10).rev().map(|secs| ms(1_000 * secs)).collect::<Vec<_>>());
}

#[test]
fn acquire_under_a_clock_that_stands_still_is_admitted_after_its_wait() {
    let source = ManualClock::new(Timestamp::from_secs(60));
    // This thread would refresh the clock between two requests.
    let clock = CachedClock::new(source.clone());
    let bucket = TokenBucket::with_clock(ten_a_second(), 1, clock.clone());
    let mut slept = Vec::new();
    for _ in 0..2 {
        let sleep = |wait| {
            assert!(slept.len() < 100, "endless");
            slept.push(wait);
            source.advance(wait);
        };
        acquire_by(&bucket, 1, ms(1_000), sleep).unwrap();
    }
    let sleep = |wait| {
        assert!(slept.len() < 100, "endless");
        slept.push(wait);
        source.advance(wait);
        std::future::ready(())
    };
    now(acquire_with(&bucket, 1, ms(1_000), sleep)).unwrap();
    assert_eq!(clock.now(), Timestamp::from_secs(60), "not refreshed");
    assert_eq!(slept, [100, 200].map(ms));
}
