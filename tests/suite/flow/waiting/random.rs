//! Random arrivals, cancellations and timeouts, against a plain queue.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use leaparray::flow::{ConcurrencyLimiter, Reason, Refusal, Retry, WaitQueue};
use proptest::prelude::*;

use super::simulation::{BEGIN, Simulation, Timers};
use crate::flow::at;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request for that number of permits, with a timeout in milliseconds.
    Arrive(u64, u64),
    /// Drops the future, or the permit, of one of the requests.
    Drop(usize),
    /// That number of milliseconds passes.
    Pass(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    Holds,
    Refused(Refusal),
    Dropped,
}

/// The queue as a list, without wake-ups: each change is followed through at once.
struct Plain {
    limit: u64,
    capacity: usize,
    newest_first: bool,
    in_use: u64,
    /// The number of the request, its permits, and its last time in microseconds.
    queue: Vec<(usize, u64, u64)>,
    permits: BTreeMap<usize, u64>,
    states: Vec<State>,
    micros: u64,
}

fn refused(reason: Reason) -> State {
    let retry = if reason == Reason::MoreThanLimit { Retry::Never } else { Retry::Unknown };
    State::Refused(Refusal::new(reason, retry))
}

impl Plain {
    fn take(&mut self, request: usize, permits: u64) -> bool {
        let fits = self.in_use + permits <= self.limit;
        if fits {
            self.in_use += permits;
            self.permits.insert(request, permits);
            self.states[request] = State::Holds;
        }
        fits
    }

    fn arrive(&mut self, permits: u64, timeout: u64) {
        let request = self.states.len();
        self.states.push(State::Waits);
        let is_head = permits == 0 || self.newest_first || self.queue.is_empty();
        if is_head && self.take(request, permits) {
            return;
        }
        if permits > self.limit {
            self.states[request] = refused(Reason::MoreThanLimit);
            return;
        }
        if self.queue.len() >= self.capacity {
            if !self.newest_first || self.capacity == 0 {
                self.states[request] = refused(Reason::QueueFull);
                return;
            }
            let (oldest, ..) = self.queue.remove(0);
            self.states[oldest] = refused(Reason::QueueFull);
        }
        self.queue.push((request, permits, self.micros + timeout));
    }

    /// Lets the head take its permits, again and again.
    fn serve(&mut self) {
        while let Some(head) = self.head() {
            let (request, permits, _) = self.queue[head];
            if permits > self.limit {
                self.states[request] = refused(Reason::MoreThanLimit);
            } else if !self.take(request, permits) {
                return;
            }
            self.queue.remove(head);
        }
    }

    fn head(&self) -> Option<usize> {
        if self.newest_first {
            self.queue.len().checked_sub(1)
        } else {
            (!self.queue.is_empty()).then_some(0)
        }
    }

    fn drop(&mut self, request: usize) {
        self.in_use -= self.permits.remove(&request).unwrap_or(0);
        self.queue.retain(|&(waiting, ..)| waiting != request);
        if matches!(self.states[request], State::Waits | State::Holds) {
            self.states[request] = State::Dropped;
        }
        self.serve();
    }

    fn pass(&mut self, micros: u64) {
        self.micros += micros;
        while let Some(next) = self.queue.iter().copied().min_by_key(|&(.., until)| until) {
            if next.2 > self.micros {
                return;
            }
            self.queue.retain(|&it| it != next);
            self.states[next.0] = refused(Reason::WaitTooLong);
            self.serve();
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5_u64, 1..30_u64).prop_map(|(permits, timeout)| Step::Arrive(permits, timeout)),
        3 => any::<usize>().prop_map(Step::Drop),
        2 => (0..15_u64).prop_map(Step::Pass),
    ]
}

/// Runs the steps on a queue, and on the list. Both have the same outcomes after each step.
fn check(limit: u64, capacity: usize, newest_first: bool, steps: &[Step]) {
    let timers = Timers::new();
    let limiter = ConcurrencyLimiter::new(limit);
    let mut queue = WaitQueue::new(&limiter).with_capacity(capacity);
    if newest_first {
        queue = queue.newest_first();
    }
    let states = Rc::new(RefCell::new(Vec::new()));
    let (queue, timers) = (&queue, &timers);
    let simulation = Simulation::new(timers);
    let mut plain = Plain {
        limit,
        capacity,
        newest_first,
        in_use: 0,
        queue: Vec::new(),
        permits: BTreeMap::new(),
        states: Vec::new(),
        micros: 0,
    };
    for &step in steps {
        match step {
            Step::Arrive(permits, timeout) => {
                // No two requests have the same last time.
                let request = plain.states.len();
                let timeout = timeout * 1_000 + request as u64;
                plain.arrive(permits, timeout);
                states.borrow_mut().push(State::Waits);
                let states = states.clone();
                simulation.spawn(async move {
                    let timeout = Duration::from_micros(timeout);
                    let result = queue.acquire_with(permits, timeout, timers.sleeper()).await;
                    let set = |state| states.borrow_mut()[request] = state;
                    match result {
                        Ok(_permit) => {
                            set(State::Holds);
                            std::future::pending::<()>().await;
                        }
                        Err(refusal) => set(State::Refused(refusal)),
                    }
                });
            }
            Step::Drop(request) if !plain.states.is_empty() => {
                let request = request % plain.states.len();
                plain.drop(request);
                simulation.cancel(request);
                let state = &mut states.borrow_mut()[request];
                if matches!(state, State::Waits | State::Holds) {
                    *state = State::Dropped;
                }
            }
            Step::Drop(_) => {}
            Step::Pass(millis) => {
                // Between the last times of the requests.
                plain.pass(millis * 1_000);
                simulation.run_until((at(plain.micros / 1_000)).as_millis());
            }
        }
        simulation.settle();
        assert_eq!(*states.borrow(), plain.states, "after {step:?}");
        let found = (queue.waiting(), limiter.in_use(), timers.clock_micros());
        assert_eq!(found, (plain.queue.len(), plain.in_use, plain.micros));
    }
}

impl Timers {
    fn clock_micros(&self) -> u64 {
        use leaparray::Clock;
        self.clock.now().as_micros() - at(BEGIN).as_micros()
    }
}

proptest! {
    #[test]
    fn queue_does_as_a_plain_list(
        limit in 0..5_u64,
        capacity in prop_oneof![Just(usize::MAX), 0..4_usize],
        newest_first: bool,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        check(limit, capacity, newest_first, &steps);
    }
}
