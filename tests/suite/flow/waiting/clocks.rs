//! Clocks that stand still, are slow, or go back while requests wait.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leaparray::flow::{
    Account, Ask, Decision, LeakyBucket, Limiter, LimiterExt, Rate, Reason, Refusal, Retry,
    TokenBucket, WaitQueue,
};
use leaparray::time::CachedClock;
use leaparray::{Clock, ManualClock, Timestamp};

use super::simulation::{BEGIN, Simulation, Timers};
use crate::flow::{at, ms, rate};

fn ten_a_second() -> Rate {
    rate(10, 1_000)
}

/// The output of a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
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
        WaitQueue::new(&bucket).acquire_by(1, ms(100), sleep).unwrap();
    }
    assert_eq!(slept, [ms(100), ms(100)]);
    let sleep = |_| panic!("the timeout would pass");
    assert!(WaitQueue::new(&bucket).acquire_by(1, ms(99), sleep).is_err());
}

/// The clock stands still while the requests wait, as if the sleeping thread refreshed it.
#[test]
fn paced_request_sleeps_until_it_is_due() {
    let clock = ManualClock::new(at(BEGIN));
    let queue = WaitQueue::new(LeakyBucket::with_clock(ten_a_second(), ms(1_000), clock));
    let mut slept = Vec::new();
    for _ in 0..3 {
        queue.acquire_by(1, ms(1_000), |wait| slept.push(wait)).unwrap();
        let sleep = |wait| {
            slept.push(wait);
            std::future::ready(())
        };
        now(queue.acquire_with(1, ms(1_000), sleep)).unwrap();
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

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        let now = ask.now();
        let retry_at = now.saturating_add(self.retry_in);
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::At(retry_at)))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Closed {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Calls `acquire_by` and then `acquire_with`, and returns the result and the waits, which must be
/// the same for both.
fn acquire(
    limiter: impl Fn() -> Closed,
    timeout: Duration,
    sleep: impl Fn(&ManualClock, Duration),
) -> (Result<(), Refusal>, Vec<Duration>) {
    let (closed, mut slept) = (limiter(), Vec::new());
    let result = WaitQueue::new(&closed).acquire_by(1, timeout, |wait| {
        assert!(slept.len() < 100, "endless");
        slept.push(wait);
        sleep(&closed.clock, wait);
    });
    let (closed, mut also_slept) = (limiter(), Vec::new());
    let also = now(WaitQueue::new(&closed).acquire_with(1, timeout, |wait| {
        assert!(also_slept.len() < 100, "endless");
        also_slept.push(wait);
        sleep(&closed.clock, wait);
        std::future::ready(())
    }));
    let (result, also) = (result.map(drop), also.map(drop));
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
    assert_eq!(result, Err(Refusal::new(Reason::WaitTooLong, retry)));
}

#[test]
fn time_that_passes_beyond_the_wait_counts_for_the_timeout() {
    let closed = || Closed::new(Timestamp::from_secs(60), ms(10));
    let (result, slept) = acquire(closed, ms(35), |clock, wait| clock.advance(wait * 2));
    assert_eq!(slept, [ms(10); 2]);
    let retry = Retry::At(Timestamp::from_millis(60_050));
    assert_eq!(result, Err(Refusal::new(Reason::WaitTooLong, retry)));
}

/// The clock stands still for longer than the lead of the limiter. The attempts go on at the pace
/// of the limiter's waits.
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
    assert!(WaitQueue::new(&bucket).acquire_by(1, Duration::MAX, sleep).is_err());
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
    WaitQueue::new(&bucket).acquire_by(1, Duration::MAX, sleep).unwrap();
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
        WaitQueue::new(&bucket).acquire_by(1, ms(1_000), sleep).unwrap();
    }
    let sleep = |wait| {
        assert!(slept.len() < 100, "endless");
        slept.push(wait);
        source.advance(wait);
        std::future::ready(())
    };
    now(WaitQueue::new(&bucket).acquire_with(1, ms(1_000), sleep)).unwrap();
    assert_eq!(clock.now(), Timestamp::from_secs(60), "not refreshed");
    assert_eq!(slept, [100, 200].map(ms));
}

/// The clock goes back by an hour while two requests wait. Each counts from the time of its
/// arrival, and sleeps no longer than for its token: the second begins to sleep after 100 ms.
#[test]
fn clock_that_goes_back_delays_no_waiting_request_by_more_than_its_sleep() {
    let timers = Timers::new();
    let clock = ManualClock::new(at(3_660_000));
    let queue = WaitQueue::new(TokenBucket::with_clock(ten_a_second(), 1, clock.clone()));
    let results = std::cell::RefCell::new(Vec::new());
    let simulation = Simulation::new(&timers);
    for _ in 0..3 {
        simulation.spawn(async {
            let result = queue.acquire_with(1, ms(1_000), timers.sleeper()).await;
            results.borrow_mut().push((timers.millis(), result.is_ok()));
        });
    }
    simulation.settle();
    clock.set(at(60_000));
    simulation.run_until(5_000);
    assert_eq!(*results.borrow(), [(0, true), (100, true), (300, true)]);
    assert_eq!(simulation.unfinished(), 0);
}

/// The other requests are not the head, and the clock does not show how long they wait. Their
/// timers do.
#[test]
fn request_under_a_clock_that_stands_still_is_refused_at_its_timeout() {
    let timers = Timers::new();
    let clock = ManualClock::new(at(60_000));
    let queue = WaitQueue::new(TokenBucket::with_clock(ten_a_second(), 1, clock));
    let results = std::cell::RefCell::new(Vec::new());
    let simulation = Simulation::new(&timers);
    for _ in 0..5 {
        simulation.spawn(async {
            let result = queue.acquire_with(1, ms(250), timers.sleeper()).await;
            results.borrow_mut().push((timers.millis(), result.is_ok()));
        });
    }
    simulation.run_until(5_000);
    // The third would sleep for 200 ms, by the clock that it sees. The fourth has become the head
    // when its timeout passes, and its token is there by then.
    let expected = [(0, true), (100, true), (250, false), (250, true), (250, false)];
    assert_eq!(*results.borrow(), expected);
}

/// Admits each third request.
struct Third<'a>(ManualClock, &'a std::cell::Cell<u32>);

impl Limiter for Third<'_> {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        let now = ask.now();
        self.1.set(self.1.get() + 1);
        if self.1.get().is_multiple_of(3) {
            return Decision::Admitted(());
        }
        let retry = Retry::At(now.saturating_add(ms(5)));
        Decision::Refused(Refusal::new(Reason::Custom("not the third"), retry))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Third<'_> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// A limiter that decides at random is asked at its retry time, and not before.
#[test]
fn limiter_that_cannot_tell_is_asked_at_its_retry_times() {
    let opening = std::cell::Cell::new(0);
    let clock = ManualClock::new(at(60_000));
    let queue = WaitQueue::new(Third(clock.clone(), &opening));
    queue.acquire_by(1, ms(100), |wait| clock.advance(wait)).unwrap();
    assert_eq!((opening.get(), clock.now()), (3, at(60_010)));
}
