//! Futures that are dropped, at each point at which they can be.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leaparray::ManualClock;
use leaparray::flow::{
    ConcurrencyLimiter, LeakyBucket, Limiter, QueuePermit, Refusal, TokenBucket, WaitQueue,
};

use super::simulation::{Simulation, Timers};
use crate::flow::{at, ms, rate};

type Taken<'a, P> = Pin<Box<dyn Future<Output = Result<QueuePermit<P>, Refusal>> + 'a>>;

/// Starts a request whose timers never end.
fn acquire<L: Limiter>(queue: &WaitQueue<L>) -> Taken<'_, L::Permit> {
    Box::pin(queue.acquire_with(1, Duration::MAX, |_| std::future::pending::<()>()))
}

fn poll<P>(taken: &mut Taken<'_, P>) -> Poll<Result<QueuePermit<P>, Refusal>> {
    taken.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn is_admitted<P>(taken: &mut Taken<'_, P>) -> bool {
    match poll(taken) {
        Poll::Ready(result) => {
            drop(result.unwrap());
            true
        }
        Poll::Pending => false,
    }
}

/// Each of three waiting requests is dropped before and after the permit is given back. The others
/// are served in turn.
#[test]
fn request_that_is_dropped_while_it_waits_keeps_no_other_from_its_turn() {
    for dropped in 0..3 {
        for after_the_release in [false, true] {
            let limiter = ConcurrencyLimiter::new(1);
            let queue = WaitQueue::new(&limiter);
            let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
            let mut waiting: Vec<_> = (0..3).map(|_| acquire(&queue)).collect();
            for taken in &mut waiting {
                assert!(poll(taken).is_pending());
            }
            if after_the_release {
                drop(held);
                drop(waiting.remove(dropped));
            } else {
                drop(waiting.remove(dropped));
                drop(held);
            }
            assert_eq!(queue.waiting(), 2);
            let [first, second] = &mut waiting[..] else { panic!("two are left") };
            assert!(poll(second).is_pending(), "it is not its turn");
            assert!(is_admitted(first) && is_admitted(second));
            assert_eq!((limiter.in_use(), queue.waiting()), (0, 0));
        }
    }
}

/// A request that was woken, and is dropped before it is polled, wakes the next one.
#[test]
fn woken_request_that_is_dropped_passes_its_turn_on() {
    let (timers, got) = (Timers::new(), Cell::new(0));
    let limiter = ConcurrencyLimiter::new(1);
    let queue = WaitQueue::new(&limiter);
    let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let simulation = Simulation::new(&timers);
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            simulation.spawn(async {
                let _permit = queue.acquire_with(1, Duration::MAX, timers.sleeper()).await.unwrap();
                got.set(got.get() + 1);
                std::future::pending::<()>().await;
            })
        })
        .collect();
    simulation.settle();
    drop(held);
    simulation.cancel(tasks[0]);
    simulation.settle();
    assert_eq!((got.get(), limiter.in_use(), queue.waiting()), (1, 1, 1));
    // The second has its permit. Its future gives it back.
    simulation.cancel(tasks[1]);
    simulation.settle();
    assert_eq!((got.get(), limiter.in_use(), queue.waiting()), (2, 1, 0));
    simulation.cancel(tasks[2]);
    assert_eq!(limiter.in_use(), 0);
}

/// The head of a queue for tokens is dropped while it sleeps. The next request takes the token that
/// it slept for.
#[test]
fn sleeping_head_that_is_dropped_leaves_its_token() {
    let (timers, got) = (Timers::new(), RefCell::new(Vec::new()));
    let bucket = TokenBucket::with_clock(rate(10, 1_000), 1, timers.clock.clone());
    let queue = WaitQueue::new(bucket);
    let simulation = Simulation::new(&timers);
    let tasks: Vec<_> = (0..4)
        .map(|request| {
            let (queue, got, timers) = (&queue, &got, &timers);
            simulation.spawn(async move {
                queue.acquire_with(1, ms(60_000), timers.sleeper()).await.unwrap();
                got.borrow_mut().push((request, timers.millis()));
            })
        })
        .collect();
    simulation.run_until(50);
    simulation.cancel(tasks[1]);
    simulation.run_until(1_000);
    assert_eq!(*got.borrow(), [(0, 0), (2, 100), (3, 200)]);
}

/// 500 requests of a leaky bucket of 100 a second give up after 5 ms, and come again 4 ms later. A
/// permit goes ahead whenever one is due, however many requests give up.
#[test]
fn requests_that_give_up_cost_no_permit() {
    let (timers, admitted) = (Timers::new(), Cell::new(0_u64));
    let bucket = LeakyBucket::with_clock(rate(100, 1_000), ms(10_000), timers.clock.clone());
    let queue = WaitQueue::new(bucket);
    let simulation = Simulation::new(&timers);
    for _ in 0..500 {
        simulation.spawn(async {
            loop {
                let taken = queue.acquire_with(1, ms(5), timers.sleeper()).await;
                admitted.set(admitted.get() + u64::from(taken.is_ok()));
                timers.sleep(ms(4)).await;
            }
        });
    }
    simulation.run_until(1_999);
    assert_eq!(admitted.get(), 200);
}

#[test]
fn request_whose_sleep_panics_passes_its_turn_on() {
    let clock = ManualClock::new(at(60_000));
    let queue = WaitQueue::new(TokenBucket::with_clock(rate(10, 1_000), 1, clock.clone()));
    queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let panics = || queue.acquire_by(1, ms(1_000), |_| panic!("it cannot sleep")).map(drop);
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(queue.waiting(), 0);
    queue.acquire_by(1, ms(1_000), |wait| clock.advance(wait)).unwrap();
}

/// Uses the queue when it is woken, and when it is dropped.
struct Nested(Weak<WaitQueue<Arc<ConcurrencyLimiter>>>);

impl Wake for Nested {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Nested {
    fn drop(&mut self) {
        if let Some(queue) = self.0.upgrade() {
            queue.recheck();
            assert!(queue.acquire_by(1, ms(0), |_| ()).map(drop).is_err() || queue.waiting() == 0);
        }
    }
}

/// If it were dropped under the lock, this test would not end.
#[test]
fn wakers_are_dropped_without_the_lock() {
    let queue = Arc::new(WaitQueue::new(Arc::new(ConcurrencyLimiter::new(1))).with_capacity(2));
    let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| acquire(&*queue)).collect();
    for _ in 0..3 {
        for taken in &mut waiting {
            let waker = Waker::from(Arc::new(Nested(Arc::downgrade(&queue))));
            assert!(taken.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    drop(waiting.pop());
    drop(held);
    assert!(is_admitted(&mut waiting[0]));
}

#[test]
fn futures_can_be_sent() {
    fn is_send<T: Send>(it: T) -> T {
        it
    }
    let node = leaparray::ResourceNode::new(leaparray::NodeConfig::default());
    let queue = WaitQueue::new(Arc::new(ConcurrencyLimiter::new(1)));
    drop(is_send(queue.acquire_with(1, ms(1), tokio::time::sleep)));
    drop(is_send(queue.enter_with(&node, 1, ms(1), tokio::time::sleep)));
    drop(is_send(queue));
}
