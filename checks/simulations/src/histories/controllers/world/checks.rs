//! The checks that hold at all times, and at the end.

use std::time::Duration;

use leaparray::Clock;
use leaparray::flow::circuit::CircuitState;
use leaparray::flow::watch::WatchedState;
use leaparray::flow::{Ask, Decision, Retry};

use super::World;
use super::asked::{Asked, plain};
use crate::histories::controllers::subject::{Base, Way};

impl World {
    pub(super) fn break_by(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    /// The head of a queue does not wait, for more than a tick, for what its limiter would give.
    pub(super) fn check_head(&mut self) {
        let Way::Queue { newest_first, grain, .. } = self.subject.way else { return };
        if let Base::Adaptive(_) = self.subject.base {
            // A limit that has risen wakes no request: the next permit that is given back does.
            return;
        }
        let mut waiting = self.waiters.iter();
        let head = if newest_first { waiting.next_back() } else { waiting.next() };
        let starved = head.filter(|(number, waiter)| {
            if **number <= self.before_step {
                return false;
            }
            let ask = Ask::at(self.clock.now()).many(waiter.request.weight).at_once();
            self.asked.peek(&ask.again(), 0).is_some_and(|it| it.is_admitted())
        });
        let starved = starved.map(|(&number, _)| match self.starved {
            Some((other, since)) if other == number => (number, since),
            _ => (number, self.now),
        });
        self.starved = starved;
        if let Some((_, since)) = starved {
            let waited = self.now.saturating_since(since);
            if waited > grain + Duration::from_micros(1) {
                self.break_by(|| format!("the head waits for {waited:?} for a free permit"));
            }
        }
    }

    /// No permit is lost or doubled.
    pub(super) fn check_books(&mut self) {
        let Base::Concurrency(limit) = self.subject.base else { return };
        let account = match &self.asked {
            Asked::Direct(limiter) => limiter.account(),
            Asked::Queue(queue) => queue.limiter().account(),
            Asked::Keys(_) => return,
        };
        let quota = account.quota(self.clock.now()).expect("a limit in flight");
        let in_flight = self.in_flight;
        if quota.limit != limit || quota.limit - quota.remaining != in_flight {
            self.break_by(|| format!("{in_flight} permits in flight: {quota:?}"));
        }
    }

    /// Lets all calls and all waiting requests end, and checks the end.
    pub(super) fn drain(&mut self) {
        if let (Some(circuit), true) = (&self.circuit, self.broken.is_none()) {
            let state = circuit.state();
            if state != CircuitState::Closed {
                self.break_by(|| format!("{state} in health"));
            }
        }
        if let Asked::Direct(limiter) = &self.asked
            && let WatchedState::Breaker { drop_probability, .. } =
                limiter.account().watched_at(self.clock.now())
            && drop_probability > 0.0
        {
            self.break_by(|| format!("{drop_probability} are dropped in health"));
        }
        while let Some(next) = self.next_event() {
            self.run_until(next);
        }
        let waiting = self.waiters.len();
        if waiting > 0 {
            self.break_by(|| format!("{waiting} requests wait for nothing"));
        }
        if let Asked::Queue(queue) = &self.asked {
            let listed = queue.waiting();
            if listed > 0 {
                self.break_by(|| format!("{listed} requests are listed in an empty queue"));
            }
        }
        self.check_books();
        self.check_retry();
    }

    /// A request that comes again when its refusal says so is admitted.
    fn check_retry(&mut self) {
        if let Asked::Keys(_) = self.asked {
            return;
        }
        let weight = 1;
        for can_wait in [false, true] {
            let ask = |now| {
                let ask = Ask::at(now).many(weight);
                if can_wait { ask } else { ask.at_once() }
            };
            let mut permits = Vec::new();
            for _ in 0..100_000 {
                match self.asked.decide(&ask(self.clock.now()), 0) {
                    Decision::Refused(refusal) => {
                        let Retry::At(retry) = refusal.retry() else { break };
                        let wait = retry.saturating_since(self.clock.now());
                        self.advance(self.now.saturating_add(wait));
                        let again = plain(&self.asked.decide(&ask(self.clock.now()), 0));
                        if again.is_refused() {
                            self.break_by(|| format!("{refusal:?}, and then {again:?}"));
                        }
                        break;
                    }
                    decision => permits.push(decision),
                }
            }
        }
    }
}
