//! The order of the requests, and the decisions that they take.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use leaparray::flow::{
    ConcurrencyLimiter, FixedWindowLimiter, LeakyBucket, Limiter, LimiterExt, Reason, Refusal,
    Retry, TokenBucket, WaitQueue,
};
use leaparray::{Clock, ManualClock};

use super::Counted;
use super::simulation::{BEGIN, Simulation, Timers};
use crate::flow::{at, ms, rate};

fn tokens(per_second: u64, capacity: u64, clock: &ManualClock) -> TokenBucket<ManualClock> {
    TokenBucket::with_clock(rate(per_second, 1_000), capacity, clock.clone())
}

/// Lets 500 requests for one permit wait, of 100 a second. Returns the number of decisions.
fn decisions_of_500(can_tell: bool) -> u64 {
    let (timers, order) = (Timers::new(), RefCell::new(Vec::new()));
    let mut counted = Counted::new(tokens(100, 1, &timers.clock), |bucket, now, permits| {
        bucket.quota_at(now).unwrap().remaining >= permits
    });
    if !can_tell {
        counted = counted.without_peek();
    }
    let queue = WaitQueue::new(counted);
    let simulation = Simulation::new(&timers);
    for request in 0..500 {
        let (queue, order, sleep, timers) = (&queue, &order, timers.sleeper(), &timers);
        simulation.spawn(async move {
            queue.acquire_with(1, ms(60_000), sleep).await.unwrap();
            order.borrow_mut().push((request, timers.millis()));
        });
    }
    simulation.settle();
    assert_eq!(queue.waiting(), 499);
    simulation.run_until(5_000);
    assert!(order.borrow().iter().copied().eq((0..500).map(|request| (request, request * 10))));
    assert_eq!((queue.waiting(), simulation.unfinished()), (0, 0));
    queue.limiter().decisions.get()
}

#[test]
fn each_of_500_waiting_requests_takes_one_decision() {
    assert_eq!(decisions_of_500(true), 500);
}

/// The head has to ask in order to learn when it will be admitted.
#[test]
fn without_a_peek_each_request_takes_two_decisions() {
    assert_eq!(decisions_of_500(false), 500 + 499);
}

#[test]
fn request_for_five_gets_its_turn_beside_loops_of_one() {
    let timers = Timers::new();
    let queue = WaitQueue::new(tokens(10, 5, &timers.clock));
    let (granted, first_five) = (Cell::new(0), Cell::new(None));
    let simulation = Simulation::new(&timers);
    for _ in 0..3 {
        let (queue, granted, sleep) = (&queue, &granted, timers.sleeper());
        simulation.spawn(async move {
            loop {
                queue.acquire_with(1, ms(60_000), sleep.clone()).await.unwrap();
                granted.set(granted.get() + 1);
            }
        });
    }
    simulation.run_until(1_000);
    let before = granted.get();
    assert_eq!((before, queue.waiting()), (5 + 10, 3));
    let (queue, timers) = (&queue, &timers);
    let (granted, first_five) = (&granted, &first_five);
    let five = simulation.spawn(async move {
        queue.acquire_with(5, ms(3_000), timers.sleeper()).await.unwrap();
        first_five.set(Some((granted.get() - before, timers.millis())));
    });
    simulation.run_until(3_000);
    // The three requests that waited before, and then five tokens.
    assert_eq!(first_five.get(), Some((3, 1_000 + 800)));
    simulation.cancel(five);
}

/// The others give up after 10 ms, and come again 10 ms later. Each would find a token before there
/// are five.
#[test]
fn request_for_five_gets_its_turn_beside_requests_that_come_and_go() {
    let (timers, admitted) = (Timers::new(), Cell::new(None));
    let queue = WaitQueue::new(tokens(10, 5, &timers.clock));
    let simulation = Simulation::new(&timers);
    for _ in 0..3 {
        simulation.spawn(async {
            loop {
                let _ = queue.acquire_with(1, ms(10), timers.sleeper()).await;
                timers.sleep(ms(10)).await;
            }
        });
    }
    simulation.run_until(1_000);
    simulation.spawn(async {
        queue.acquire_with(5, ms(3_000), timers.sleeper()).await.unwrap();
        admitted.set(Some(timers.millis()));
    });
    simulation.run_until(3_000);
    // At 1,000 ms, a token is there or goes to one of the others.
    let admitted = admitted.get().expect("it was its turn");
    assert!((1_400..=1_500).contains(&admitted), "{admitted}");
}

#[test]
fn permits_in_flight_are_passed_on_in_turn() {
    let (timers, order) = (Timers::new(), RefCell::new(Vec::new()));
    let limiter = ConcurrencyLimiter::new(3);
    let queue = WaitQueue::new(&limiter);
    let simulation = Simulation::new(&timers);
    for (request, permits) in [1, 2, 3, 1, 1, 2].into_iter().enumerate() {
        let (queue, order, timers) = (&queue, &order, &timers);
        simulation.spawn(async move {
            let permit = queue.acquire_with(permits, ms(1_000), timers.sleeper()).await.unwrap();
            assert_eq!(permit.permits(), permits);
            order.borrow_mut().push((request, timers.millis()));
            timers.sleep(ms(10)).await;
        });
    }
    simulation.run_until(1_000);
    assert_eq!(*order.borrow(), [(0, 0), (1, 0), (2, 10), (3, 20), (4, 20), (5, 30)]);
    assert_eq!((limiter.in_use(), simulation.unfinished()), (0, 0));
}

/// Each release lets the head look at the limiter. It decides only when it would be admitted.
#[test]
fn waiting_for_releases_takes_one_decision() {
    let timers = Timers::new();
    let limiter = ConcurrencyLimiter::new(4);
    let queue = WaitQueue::new(Counted::new(&limiter, |limiter, _, permits| {
        limiter.in_use() + permits <= limiter.limit()
    }));
    let mut held: Vec<_> =
        (0..4).map(|_| queue.acquire_by(1, ms(0), |_| panic!("it is free")).unwrap()).collect();
    let got = Cell::new(false);
    let simulation = Simulation::new(&timers);
    simulation.spawn(async {
        let _permit = queue.acquire_with(4, ms(1_000), timers.sleeper()).await.unwrap();
        got.set(true);
    });
    simulation.settle();
    while held.pop().is_some() {
        assert!(!got.get());
        simulation.settle();
    }
    assert!(got.get());
    assert_eq!(queue.limiter().decisions.get(), 4 + 1);
}

/// Runs 200 requests of 100 a second through a leaky bucket. Returns the time of the last one, in
/// milliseconds.
fn last_of_200(timers: &Timers) -> u64 {
    let (bucket, last) =
        (LeakyBucket::with_clock(rate(100, 1_000), ms(10_000), timers.clock.clone()), Cell::new(0));
    let queue = WaitQueue::new(bucket);
    let simulation = Simulation::new(timers);
    for _ in 0..200 {
        simulation.spawn(async {
            queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
            last.set(timers.millis());
        });
    }
    simulation.run_until(10_000);
    assert_eq!(simulation.unfinished(), 0);
    last.get()
}

/// Each timer is late by 3 ms. The requests go ahead at the times at which they were due.
#[test]
fn late_timers_do_not_lower_the_rate() {
    assert_eq!(last_of_200(&Timers::new()), 1_990);
    assert_eq!(last_of_200(&Timers::late_by(ms(3))), 1_993);
}

/// Returns how many requests `callers`, of which each asks again at once, get in two seconds
/// through a bucket of one token, whose timers have a grain. Checks the limit at each grant.
fn granted_in_two_seconds(per_second: u64, grain: Duration, callers: u64) -> u64 {
    let (timers, granted) = (Timers::with_grain(grain), Cell::new(0));
    let queue = WaitQueue::new(tokens(per_second, 1, &timers.clock));
    let simulation = Simulation::new(&timers);
    for _ in 0..callers {
        simulation.spawn(async {
            loop {
                queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
                granted.set(granted.get() + 1);
                let nanos = timers.clock.now().saturating_since(at(BEGIN)).as_nanos();
                let most = 1 + nanos * u128::from(per_second) / 1_000_000_000;
                assert!(u128::from(granted.get()) <= most, "{} of {most}", granted.get());
            }
        });
    }
    simulation.run_until(2_000);
    granted.get()
}

#[test]
fn bucket_of_one_token_keeps_its_rate_whatever_the_grain_of_the_timers() {
    for grain in [Duration::from_micros(50), ms(1), Duration::from_micros(1_300), ms(16)] {
        for per_second in [10, 100, 500, 1_000, 2_000, 3_333, 10_000] {
            for callers in [1, 2, 40] {
                let granted = granted_in_two_seconds(per_second, grain, callers);
                let due = 2 * per_second;
                assert!(
                    granted * 100 >= due * 97,
                    "{granted} of {due}: {grain:?}, {callers} callers"
                );
            }
        }
    }
}

/// A pause between the requests saves nothing up for a burst.
#[test]
fn late_timer_saves_up_no_burst() {
    let (timers, granted) = (Timers::with_grain(ms(16)), Cell::new(0));
    let queue = WaitQueue::new(tokens(1_000, 1, &timers.clock));
    let simulation = Simulation::new(&timers);
    let one = || async {
        queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
        granted.set(granted.get() + 1);
    };
    simulation.spawn(one());
    simulation.spawn(one());
    simulation.run_until(16);
    assert_eq!(granted.get(), 2, "the second was due at 1 ms, and is late by 15 ms");
    simulation.run_until(47);
    for _ in 0..30 {
        simulation.spawn(one());
    }
    simulation.settle();
    assert_eq!(granted.get(), 3);
}

/// The timers are late by more than the bucket lets a request wait.
#[test]
fn timers_later_than_the_longest_wait_do_not_lower_the_rate() {
    let (timers, admitted) = (Timers::late_by(ms(50)), RefCell::new(Vec::new()));
    let bucket = LeakyBucket::with_clock(rate(10, 1_000), ms(30), timers.clock.clone());
    let queue = WaitQueue::new(bucket);
    let simulation = Simulation::new(&timers);
    for _ in 0..4 {
        simulation.spawn(async {
            queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
            admitted.borrow_mut().push(timers.millis());
        });
    }
    simulation.run_until(1_000);
    // Due at 100, 200 and 300 ms.
    assert_eq!(*admitted.borrow(), [0, 150, 250, 350]);
}

/// After a pause in which no request was due, none is made up for.
#[test]
fn request_that_was_due_long_ago_does_not_hasten_the_next_ones() {
    let (timers, admitted) = (Timers::late_by(ms(100)), RefCell::new(Vec::new()));
    let bucket = LeakyBucket::with_clock(rate(100, 1_000), ms(10_000), timers.clock.clone());
    let queue = WaitQueue::new(bucket);
    let simulation = Simulation::new(&timers);
    for _ in 0..4 {
        simulation.spawn(async {
            queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
            admitted.borrow_mut().push(timers.millis());
        });
    }
    simulation.run_until(1_000);
    // The second was due at 10 ms and goes ahead at 110 ms, the third at once, and the fourth is
    // due at 120 ms.
    assert_eq!(*admitted.borrow(), [0, 110, 110, 220]);
}

#[test]
fn request_for_nothing_waits_for_no_other() {
    let timers = Timers::new();
    let queue = WaitQueue::new(tokens(1, 1, &timers.clock));
    let simulation = Simulation::new(&timers);
    for _ in 0..3 {
        simulation.spawn(async {
            queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
        });
    }
    simulation.settle();
    assert_eq!(queue.waiting(), 2);
    queue.acquire_by(0, ms(0), |_| panic!("it asks for nothing")).unwrap();
    assert!(queue.try_acquire_many(0).is_admitted());
    simulation.run_until(2_000);
    assert_eq!(simulation.unfinished(), 0);
}

/// The limiter itself still admits direct requests. The queue, as a limiter, does not while
/// requests wait.
#[test]
fn request_that_does_not_wait_is_refused_behind_others() {
    let timers = Timers::new();
    let queue = WaitQueue::new(tokens(1, 3, &timers.clock));
    assert_eq!(queue.account().now(), timers.clock.now());
    let _ = queue.try_acquire_many(2).at_once().unwrap();
    let simulation = Simulation::new(&timers);
    simulation.spawn(async {
        queue.acquire_with(2, ms(60_000), timers.sleeper()).await.unwrap();
    });
    simulation.settle();
    let refusal = Refusal::new(Reason::LimitReached, Retry::Unknown);
    assert_eq!(queue.try_acquire().refusal(), Some(refusal));
    assert_eq!(queue.peek_at(at(BEGIN), 1).map(|it| it.refusal()), Some(Some(refusal)));
    let sleep = |_| panic!("the timeout is zero");
    let late = Refusal::new(Reason::WaitTooLong, Retry::Unknown);
    assert_eq!(queue.acquire_by(1, ms(0), sleep).unwrap_err(), late);
    assert!(queue.limiter().try_acquire().is_admitted(), "the third token");
    simulation.run_until(2_000);
    assert_eq!(simulation.unfinished(), 0);
    assert!(queue.try_acquire().is_refused(), "no token is left");
    timers.clock.advance(ms(1_000));
    assert!(queue.try_acquire().is_admitted());
}

/// A request that can never be admitted, or not in time, is refused without waiting for its turn.
#[test]
fn hopeless_request_is_refused_at_once_behind_others() {
    let timers = Timers::new();
    let counted = Counted::new(tokens(1, 3, &timers.clock), |bucket, now, permits| {
        bucket.quota_at(now).unwrap().remaining >= permits
    });
    let queue = WaitQueue::new(counted);
    assert!(queue.try_acquire_many(3).is_admitted());
    let simulation = Simulation::new(&timers);
    simulation.spawn(async {
        queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
    });
    simulation.settle();
    let sleep = |_| panic!("it is hopeless");
    let never = queue.acquire_by(4, ms(60_000), sleep).unwrap_err();
    assert_eq!(never, Refusal::new(Reason::MoreThanLimit, Retry::Never));
    let late = queue.acquire_by(3, ms(2_999), sleep).unwrap_err();
    assert_eq!(late, Refusal::new(Reason::WaitTooLong, Retry::At(at(BEGIN + 3_000))));
    assert_eq!(queue.limiter().decisions.get(), 1);
}

#[test]
fn raised_limit_is_seen_after_a_recheck() {
    let timers = Timers::new();
    let in_flight = ConcurrencyLimiter::new(1);
    let permit = in_flight.try_acquire().at_once().unwrap();
    let queue = WaitQueue::new(&in_flight);
    let interval = FixedWindowLimiter::with_clock(ms(60_000), 1, timers.clock.clone()).unwrap();
    let windows = WaitQueue::new(&interval);
    let simulation = Simulation::new(&timers);
    for _ in 0..2 {
        simulation.spawn(async {
            let _permit = queue.acquire_with(1, ms(90_000), timers.sleeper()).await.unwrap();
            timers.sleep(ms(1_000)).await;
        });
        simulation.spawn(async {
            windows.acquire_with(1, ms(90_000), timers.sleeper()).await.unwrap();
        });
    }
    simulation.run_until(1);
    assert_eq!((queue.waiting(), windows.waiting()), (2, 1));
    in_flight.reconfigure(2);
    interval.reconfigure(2).unwrap();
    simulation.run_until(2);
    assert_eq!((queue.waiting(), windows.waiting()), (2, 1), "they do not know");
    queue.recheck();
    windows.recheck();
    simulation.run_until(3);
    assert_eq!((queue.waiting(), windows.waiting()), (1, 0));
    // The permit that was taken directly wakes no request either.
    drop(permit);
    simulation.run_until(4);
    assert_eq!(queue.waiting(), 1);
    queue.recheck();
    simulation.settle();
    assert_eq!((queue.waiting(), in_flight.in_use()), (0, 2));
}

/// A limit that falls below a waiting request refuses it when it asks again.
#[test]
fn lowered_limit_refuses_a_request_for_more() {
    let timers = Timers::new();
    let limiter = ConcurrencyLimiter::new(3);
    let queue = WaitQueue::new(&limiter);
    let held = queue.acquire_by(2, ms(0), |_| ()).unwrap();
    let result = RefCell::new(None);
    let simulation = Simulation::new(&timers);
    simulation.spawn(async {
        let refused = queue.acquire_with(3, ms(9_000), timers.sleeper()).await.map(drop);
        result.replace(Some(refused));
    });
    simulation.settle();
    limiter.reconfigure(2);
    drop(held);
    simulation.settle();
    let never = Refusal::new(Reason::MoreThanLimit, Retry::Never);
    assert_eq!(*result.borrow(), Some(Err(never)));
}
