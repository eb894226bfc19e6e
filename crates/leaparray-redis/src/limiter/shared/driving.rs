//! What the driver does with the state.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leaparray::{Clock, Timestamp};

use super::Shared;
use super::report::report_taken;
use crate::lease::{Answer, Ask, Epoch, Node};
use crate::limiter::state::LeaseState;
use crate::random;

/// A step of the driver.
#[derive(Debug)]
pub(in crate::limiter) enum Step {
    /// Send this ask.
    Send(Ask),
    /// Wait until this time, or until woken.
    Wait(Option<Timestamp>),
}

impl<C: Clock> Shared<C> {
    /// Returns what the driver has to do at `now`.
    pub(in crate::limiter) fn step(&self, now: Timestamp) -> Step {
        if self.is_stalled.swap(false, Ordering::Relaxed) {
            self.set_state(LeaseState::Connecting);
        }
        // Before the demand is taken: a request that comes later makes the driver due again.
        self.due.store(Timestamp::MAX.as_nanos(), Ordering::Relaxed);
        let step = self.next_step(now);
        self.notify_begun();
        let due = match &step {
            Step::Send(_) => Some(now.saturating_add(self.answer_timeout)),
            Step::Wait(until) => *until,
        };
        self.due.fetch_min(due.unwrap_or(Timestamp::MAX).as_nanos(), Ordering::Relaxed);
        step
    }

    fn next_step(&self, now: Timestamp) -> Step {
        let mut node = self.lock();
        self.with_node(&mut node, now, |node, now| {
            if let Some(ask) = node.poll(now) {
                return Step::Send(ask);
            }
            // Permits are taken from the hand, and the node learns of it only here.
            let holdings = node.holdings();
            let has_permits = holdings.in_hand(now) > 0 || holdings.unreported() > 0;
            let check = has_permits.then(|| node.next_check(now));
            let begins = holdings.next_start(now);
            let next = node.next_poll(now).into_iter().chain(check).chain(begins).min();
            Step::Wait(next.map(Timestamp::from_micros))
        })
    }

    /// Returns the time from which on permits that were granted ahead may be used.
    pub(in crate::limiter) fn begins(&self) -> Timestamp {
        Timestamp::from_nanos(self.begins.load(Ordering::Relaxed))
    }

    /// Opens a hand with the permits that may be used from `now` on, and wakes the requests that
    /// wait.
    pub(in crate::limiter) fn begin(&self, now: Timestamp) {
        self.with_node(&mut self.lock(), now, |_, _| ());
        self.notify_begun();
    }

    fn notify_begun(&self) {
        if self.has_begun.swap(false, Ordering::Relaxed) {
            self.notify_answered();
        }
    }

    /// Returns the ask that gives all permits back, if there are any.
    pub(in crate::limiter) fn last_ask(&self, now: Timestamp) -> Option<Ask> {
        self.with_node(&mut self.lock(), now, Node::leave)
    }

    pub(in crate::limiter) fn on_answer(&self, now: Timestamp, answer: &Answer) {
        let (before, round_trip, config) = self.with_node(&mut self.lock(), now, |node, now| {
            let before: Option<Epoch> = node.holdings().epoch();
            if node.on_answer(now, answer) && answer.is_taken {
                self.rename(node);
            }
            (before, Duration::from_micros(node.round_trip()), *node.holdings().config())
        });
        self.counts.answers.fetch_add(1, Ordering::Relaxed);
        let ahead: u64 = answer.ahead.iter().map(|it| it.count).sum();
        self.counts.granted.fetch_add(answer.granted + ahead, Ordering::Relaxed);
        if before.is_some_and(|it| it != answer.epoch) {
            self.counts.new_epochs.fetch_add(1, Ordering::Relaxed);
        }
        let lease = config.bucket_len() * config.validity();
        let is_same_quarantine = before == Some(answer.epoch)
            && matches!(*self.state.borrow(), LeaseState::Quarantine { .. });
        if answer.open_in == 0 {
            self.set_state(if round_trip >= lease {
                LeaseState::TooSlow { round_trip, lease }
            } else if answer.behind >= config.bucket_micros() {
                self.standstill(now.saturating_add(Duration::from_micros(answer.behind)), lease)
            } else {
                LeaseState::Leasing
            });
        } else if !is_same_quarantine {
            let until = now.saturating_add(Duration::from_micros(answer.open_in));
            self.set_state(LeaseState::Quarantine { until });
        }
        self.notify_answered();
    }

    /// Returns the state of a standstill, with the end that was told before if that is about the
    /// same.
    fn standstill(&self, until: Timestamp, about: Duration) -> LeaseState {
        match *self.state.borrow() {
            LeaseState::Standstill { until: known }
                if until.saturating_since(known) < about
                    && known.saturating_since(until) < about =>
            {
                LeaseState::Standstill { until: known }
            }
            _ => LeaseState::Standstill { until },
        }
    }

    /// Gives the node another number, since another process has its number.
    fn rename(&self, node: &mut Node) {
        self.counts.taken.fetch_add(1, Ordering::Relaxed);
        report_taken(&self.keys);
        // Without a number, each ask is told the same, and is granted nothing.
        if let Ok(number) = random::exact() {
            node.rename(number);
        }
    }

    /// Gives up the ask in flight. The next one is not sent before `retry_at`.
    pub(in crate::limiter) fn on_lost(&self, now: Timestamp, retry_at: Timestamp, error: String) {
        self.with_node(&mut self.lock(), now, |node, now| {
            node.on_lost(now);
            node.postpone(retry_at.as_micros());
        });
        self.counts.losses.fetch_add(1, Ordering::Relaxed);
        let since = match &*self.state.borrow() {
            LeaseState::Away { since, .. } => *since,
            _ => now,
        };
        self.set_state(LeaseState::Away { since, error });
        self.notify_answered();
    }
}
