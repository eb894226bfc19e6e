//! Each request is answered by its timeout.

use std::cell::RefCell;
use std::time::Duration;

use leaparray::flow::{
    ConcurrencyLimiter, LeakyBucket, Limiter, LimiterExt, Reason, Refusal, Retry, TokenBucket,
    WaitQueue,
};

use super::simulation::{BEGIN, Simulation, Timers};
use crate::flow::{at, ms, rate};

/// Lets a request for one permit wait behind two with a long timeout. Returns its refusal, and the
/// time of it in milliseconds.
fn refused_behind_two<L: Limiter>(
    queue: &WaitQueue<L>,
    timers: &Timers,
    timeout: Duration,
) -> (Refusal, u64) {
    let refused = RefCell::new(None);
    let simulation = Simulation::new(timers);
    for _ in 0..2 {
        simulation.spawn(async {
            let permit = queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
            timers.sleep(ms(20_000)).await;
            drop(permit);
        });
    }
    simulation.settle();
    simulation.spawn(async {
        let result = queue.acquire_with(1, timeout, timers.sleeper()).await;
        *refused.borrow_mut() = Some((result.map(drop).unwrap_err(), timers.millis()));
    });
    simulation.run_until(5_000);
    drop(simulation);
    refused.into_inner().expect("it was answered")
}

/// The bucket itself would let the request wait for up to 10 s.
#[test]
fn paced_request_with_ten_ms_is_answered_in_ten_ms() {
    let timers = Timers::new();
    let bucket = LeakyBucket::with_clock(rate(1, 1_000), ms(10_000), timers.clock.clone());
    assert!(bucket.try_acquire().is_admitted());
    let queue = WaitQueue::new(bucket);
    let (refusal, millis) = refused_behind_two(&queue, &timers, ms(10));
    assert_eq!(refusal.reason, Reason::WaitTooLong);
    assert!(millis <= 10, "{millis}");
}

#[test]
fn request_behind_others_is_refused_at_its_timeout() {
    let timers = Timers::new();
    let bucket = TokenBucket::with_clock(rate(1, 1_000), 1, timers.clock.clone());
    assert!(bucket.try_acquire().is_admitted());
    let queue = WaitQueue::new(bucket);
    // Two requests are before it, so it would be admitted after 3 s.
    let (refusal, millis) = refused_behind_two(&queue, &timers, ms(2_900));
    assert_eq!(refusal, Refusal::new(Reason::WaitTooLong, Retry::At(at(BEGIN + 3_000))));
    assert_eq!(millis, 2_000, "as soon as it is the head");

    let timers = Timers::new();
    let limiter = ConcurrencyLimiter::new(1);
    let queue = WaitQueue::new(&limiter);
    let (refusal, millis) = refused_behind_two(&queue, &timers, ms(300));
    assert_eq!(refusal, Refusal::new(Reason::WaitTooLong, Retry::Unknown));
    assert_eq!(millis, 300);
}

/// Nothing tells the head when a permit is given back that was taken directly. It is refused at its
/// timeout, and the next request at its own.
#[test]
fn head_that_waits_for_a_release_is_refused_at_its_timeout() {
    let (timers, refused) = (Timers::new(), RefCell::new(Vec::new()));
    let limiter = ConcurrencyLimiter::new(1);
    let _permit = limiter.try_acquire().at_once().unwrap();
    let queue = WaitQueue::new(&limiter);
    let simulation = Simulation::new(&timers);
    for timeout in [50, 20, 70] {
        let (queue, refused, timers) = (&queue, &refused, &timers);
        simulation.spawn(async move {
            let result = queue.acquire_with(1, ms(timeout), timers.sleeper()).await;
            refused.borrow_mut().push((timers.millis(), result.map(drop).unwrap_err()));
        });
    }
    simulation.run_until(1_000);
    let refusal = Refusal::new(Reason::WaitTooLong, Retry::Unknown);
    assert_eq!(*refused.borrow(), [20, 50, 70].map(|millis| (millis, refusal)));
    let sleep = |_| panic!("the timeout is zero");
    assert_eq!(queue.acquire_by(1, ms(0), sleep).unwrap_err(), refusal);
}

/// A permit that is given back at the timeout of the head goes to it, if it is woken by then.
#[test]
fn permit_is_granted_at_the_timeout() {
    let (timers, granted) = (Timers::new(), RefCell::new(None));
    let limiter = ConcurrencyLimiter::new(1);
    let queue = WaitQueue::new(&limiter);
    let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let simulation = Simulation::new(&timers);
    let gives_back_at = timers.sleep(ms(50));
    simulation.spawn(async {
        gives_back_at.await;
        drop(held);
    });
    simulation.spawn(async {
        let permit = queue.acquire_with(1, ms(50), timers.sleeper()).await;
        *granted.borrow_mut() = Some((timers.millis(), permit.is_ok()));
    });
    simulation.run_until(1_000);
    assert_eq!(*granted.borrow(), Some((50, true)));
}

/// Without a timeout, a request needs no timer while it waits for others.
#[test]
fn longest_timeout_takes_no_timer() {
    let timers = Timers::new();
    let limiter = ConcurrencyLimiter::new(1);
    let queue = WaitQueue::new(&limiter);
    let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let simulation = Simulation::new(&timers);
    for _ in 0..2 {
        simulation.spawn(async {
            let sleep = |_| -> std::future::Ready<()> { panic!("nothing ends the wait") };
            drop(queue.acquire_with(1, Duration::MAX, sleep).await.unwrap());
        });
    }
    simulation.settle();
    drop(held);
    simulation.settle();
    assert_eq!(simulation.unfinished(), 0);
}

/// A synchronous sleep cannot be woken. After it, the request asks once more if it has become the
/// first.
#[test]
fn synchronous_request_asks_once_more_at_its_timeout() {
    let limiter = ConcurrencyLimiter::new(1);
    let queue = WaitQueue::new(&limiter);
    let mut held = Some(queue.acquire_by(1, ms(0), |_| ()).unwrap());
    let mut slept = Vec::new();
    let permit = queue.acquire_by(1, ms(50), |wait| {
        slept.push(wait);
        held = None;
    });
    assert!(permit.is_ok() && slept == [ms(50)], "{slept:?}");
    let mut slept = Vec::new();
    assert!(queue.acquire_by(1, Duration::MAX, |wait| slept.push(wait)).is_err());
    assert_eq!(slept, [Duration::from_nanos(u64::MAX)], "until the end of time");
}
