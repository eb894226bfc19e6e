//! Requests that enter a node after their wait.

use std::cell::Cell;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leaparray::MetricEvent::{Block, Pass, Success};
use leaparray::flow::{ConcurrencyLimiter, Reason, SlidingWindowLimiter, TokenBucket, WaitQueue};
use leaparray::{Clock, ManualClock, NodeConfig, Outcome, ResourceNode, Timestamp, WindowConfig};

use super::simulation::{Simulation, Timers};
use crate::flow::{at, ms, rate};

fn node(clock: &ManualClock) -> ResourceNode<ManualClock> {
    ResourceNode::with_clock(NodeConfig::default(), clock.clone())
}

#[test]
fn waiting_request_enters_when_it_is_admitted() {
    let timers = Timers::new();
    let node = node(&timers.clock);
    let limiter = ConcurrencyLimiter::new(1);
    let queue = WaitQueue::new(&limiter).with_capacity(2);
    let simulation = Simulation::new(&timers);
    for timeout in [1_000, 1_000, 150, 1_000] {
        let (queue, node, timers) = (&queue, &node, &timers);
        simulation.spawn(async move {
            if let Ok(entry) = queue.enter_with(node, 1, ms(timeout), timers.sleeper()).await {
                timers.sleep(ms(200)).await;
                entry.success();
            }
        });
    }
    simulation.run_until(100);
    assert_eq!(
        (node.concurrency(), queue.waiting(), node.refusals()[Reason::QueueFull]),
        (1, 2, 1)
    );
    simulation.run_until(900);
    assert_eq!([Pass, Success, Block].map(|event| node.now().long().sum(event)), [2, 2, 2]);
    assert_eq!((node.refusals()[Reason::WaitTooLong], node.refusals().sum()), (1, 2));
    assert_eq!((node.now().short().totals().max_rt(), limiter.in_use()), (Some(ms(200)), 0));
}

/// The limiter of a window counts the passes that did not go through it.
#[test]
fn window_over_a_node_counts_direct_entries() {
    let clock = ManualClock::new(at(60_000));
    let node = node(&clock);
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let limiter = SlidingWindowLimiter::of_buckets_with_clock(config, 2, clock.clone()).unwrap();
    let queue = WaitQueue::new(limiter.with_node_passes());
    node.enter_at(at(60_000)).end_at(at(60_000), Outcome::Success);
    let entry =
        simulate(queue.enter_with(&node, 1, ms(0), |_| -> Ready<()> { panic!("one is left") }));
    entry.unwrap().success();
    let entry = simulate(queue.enter_with(&node, 1, ms(2_000), |wait| {
        clock.advance(wait);
        ready(())
    }));
    let entry = entry.unwrap();
    assert_eq!((entry.started(), clock.now()), (at(61_000), at(61_000)));
    entry.success();
    // Without a node, only its own permits count.
    clock.advance(ms(900));
    queue.acquire_by(1, ms(0), |_| panic!("one is left")).unwrap();
}

#[test]
fn given_time_is_that_of_the_first_question() {
    let clock = ManualClock::new(at(60_000));
    let node = node(&clock);
    let bucket = TokenBucket::with_clock(rate(10, 1_000), 1, clock.clone());
    let queue = WaitQueue::new(bucket);
    let mut waits = Vec::new();
    simulate(queue.acquire_with_at(at(60_050), 1, ms(0), |_| ready(()))).unwrap();
    let sleep = |wait| {
        waits.push(wait);
        ready(())
    };
    simulate(queue.acquire_with_at(at(60_070), 1, ms(100), sleep)).unwrap();
    assert_eq!(waits, [ms(80)]);
    let acquire = queue.enter_with_at(&node, at(60_200), 1, ms(100), |wait: Duration| {
        waits.push(wait);
        ready(())
    });
    let entry = simulate(acquire).unwrap();
    assert_eq!((entry.started(), waits), (at(60_250), vec![ms(80), ms(50)]));
    entry.end_at(at(60_250), Outcome::Success);
    let sleep = |_| std::future::pending::<()>();
    let refused = simulate(queue.enter_with_at(&node, at(60_260), 1, ms(10), sleep));
    assert_eq!(refused.map(drop).unwrap_err().reason, Reason::WaitTooLong);
    assert_eq!(node.now().long().sum(Block), 1);
}

/// A clock that counts its readings.
#[derive(Clone)]
struct Read<'a>(&'a Cell<u32>);

impl Clock for Read<'_> {
    fn now(&self) -> Timestamp {
        self.0.set(self.0.get() + 1);
        at(60_000)
    }
}

/// A clock that panicked after the decision would take the permit with it.
#[test]
fn admitted_request_reads_no_clock_after_its_decision() {
    let readings = Cell::new(0);
    let node = ResourceNode::with_clock(NodeConfig::default(), Read(&readings));
    let limiter = ConcurrencyLimiter::new(1);
    let queue = WaitQueue::new(&limiter);
    let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let never = |_| std::future::pending::<()>();
    let mut entry = pin!(queue.enter_with(&node, 1, Duration::MAX, never));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(entry.as_mut().poll(&mut cx).is_pending());
    drop(held);
    readings.set(0);
    let Poll::Ready(entered) = entry.as_mut().poll(&mut cx) else { panic!("it is free") };
    assert_eq!(readings.get(), 1);
    entered.unwrap().success();
}

/// The output of a future that never waits.
fn simulate<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}
