//! Queues with a bound, and queues that serve the newest request first.

use std::cell::RefCell;

use leaparray::flow::{
    ConcurrencyLimiter, Limiter, LimiterExt, Reason, Refusal, Retry, TokenBucket, WaitQueue,
};

use super::simulation::{Simulation, Timers};
use crate::flow::{ms, rate};

/// The result of a request: when it was admitted, or when it was refused and why.
type Outcome = (usize, u64, Result<(), Refusal>);

/// Lets `requests` requests for one permit arrive, 1 ms after each other. A request holds its
/// permit for 100 ms. Returns the outcomes in their order.
fn outcomes<L: Limiter>(queue: &WaitQueue<L>, timers: &Timers, requests: usize) -> Vec<Outcome> {
    let outcomes = RefCell::new(Vec::new());
    let simulation = Simulation::new(timers);
    for request in 0..requests {
        let outcomes = &outcomes;
        simulation.spawn(async move {
            timers.sleep(ms(request as u64)).await;
            let result = queue.acquire_with(1, ms(60_000), timers.sleeper()).await;
            let (result, permit) = match result {
                Ok(permit) => (Ok(()), Some(permit)),
                Err(refusal) => (Err(refusal), None),
            };
            outcomes.borrow_mut().push((request, timers.millis(), result));
            timers.sleep(ms(100)).await;
            drop(permit);
        });
    }
    simulation.run_until(60_000);
    assert_eq!((simulation.unfinished(), queue.waiting()), (0, 0));
    drop(simulation);
    outcomes.into_inner()
}

fn full() -> Result<(), Refusal> {
    Err(Refusal::new(Reason::QueueFull, Retry::Unknown))
}

#[test]
fn full_queue_refuses_the_newest() {
    let (timers, limiter) = (Timers::new(), ConcurrencyLimiter::new(1));
    let queue = WaitQueue::new(&limiter).with_capacity(2);
    let found = outcomes(&queue, &timers, 5);
    let expected =
        [(0, 0, Ok(())), (3, 3, full()), (4, 4, full()), (1, 100, Ok(())), (2, 200, Ok(()))];
    assert_eq!(found, expected);
}

#[test]
fn full_queue_of_the_newest_first_refuses_the_oldest() {
    let (timers, limiter) = (Timers::new(), ConcurrencyLimiter::new(1));
    let queue = WaitQueue::new(&limiter).with_capacity(2).newest_first();
    let found = outcomes(&queue, &timers, 5);
    let expected =
        [(0, 0, Ok(())), (1, 3, full()), (2, 4, full()), (4, 100, Ok(())), (3, 200, Ok(()))];
    assert_eq!(found, expected);
}

#[test]
fn newest_first_serves_the_newest_request() {
    let timers = Timers::new();
    let bucket = TokenBucket::with_clock(rate(10, 1_000), 1, timers.clock.clone());
    let queue = WaitQueue::new(&bucket).newest_first();
    let order = outcomes(&queue, &timers, 4);
    let expected = [(0, 0), (3, 100), (2, 200), (1, 300)];
    assert_eq!(order, expected.map(|(request, millis)| (request, millis, Ok(()))));
    assert!(format!("{queue:?}").ends_with("newest_first: true, waiting: 0, .. }"), "{queue:?}");
}

/// The request that arrives last asks at once, although another one waits: for more permits than
/// there are.
#[test]
fn newest_request_takes_what_the_others_cannot_use() {
    let (timers, limiter) = (Timers::new(), ConcurrencyLimiter::new(3));
    let queue = WaitQueue::new(&limiter).newest_first();
    let held = queue.acquire_by(2, ms(0), |_| ()).unwrap();
    let simulation = Simulation::new(&timers);
    simulation.spawn(async {
        drop(queue.acquire_with(2, ms(60_000), timers.sleeper()).await.unwrap());
    });
    simulation.settle();
    let newest = queue.acquire_by(1, ms(0), |_| panic!("one is free")).unwrap();
    assert!(queue.try_acquire().is_refused() && limiter.in_use() == 3);
    drop((newest, held));
    simulation.settle();
    assert_eq!(simulation.unfinished(), 0);
}

#[test]
fn queue_without_room_lets_no_request_wait() {
    for newest_first in [false, true] {
        let (timers, limiter) = (Timers::new(), ConcurrencyLimiter::new(1));
        let mut queue = WaitQueue::new(&limiter).with_capacity(0);
        if newest_first {
            queue = queue.newest_first();
        }
        assert_eq!(outcomes(&queue, &timers, 2), [(0, 0, Ok(())), (1, 1, full())]);
    }
}

/// The only waiting request is the head. Another one takes its place just after a permit was given
/// back, and gets it.
#[test]
fn request_that_displaces_the_head_takes_over_its_turn() {
    let (timers, limiter) = (Timers::new(), ConcurrencyLimiter::new(2));
    let queue = WaitQueue::new(&limiter).with_capacity(1).newest_first();
    let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let results = RefCell::new(Vec::new());
    let simulation = Simulation::new(&timers);
    for permits in [2, 2] {
        let (queue, results, timers) = (&queue, &results, &timers);
        simulation.spawn(async move {
            let result = queue.acquire_with(permits, ms(60_000), timers.sleeper()).await;
            results.borrow_mut().push(result.map(drop));
        });
    }
    simulation.settle();
    assert_eq!(*results.borrow(), [full()]);
    drop(held);
    simulation.settle();
    assert_eq!(*results.borrow(), [full(), Ok(())]);
}
