//! Requests that wait in a queue, in virtual time.

mod bounded;
mod cancelled;
mod clocks;
mod late_timers;
mod nodes;
mod random;
mod releases;
mod simulation;
mod threads;
mod timeouts;
mod turns;

use std::cell::Cell;

use leaparray::Timestamp;
use leaparray::flow::{Account, Ask, Decision, Limiter, LimiterExt};

/// A limiter that counts the decisions, and tells in advance whether it would admit a request.
struct Counted<L> {
    limiter: L,
    /// Whether the limiter would admit a request at once. If not, a decision changes nothing.
    would_admit: fn(&L, Timestamp, u64) -> bool,
    can_tell: bool,
    decisions: Cell<u64>,
}

impl<L> Counted<L> {
    fn new(limiter: L, would_admit: fn(&L, Timestamp, u64) -> bool) -> Self {
        Self { limiter, would_admit, can_tell: true, decisions: Cell::new(0) }
    }

    fn without_peek(self) -> Self {
        Self { can_tell: false, ..self }
    }
}

impl<L: Limiter> Limiter for Counted<L> {
    type Permit = L::Permit;

    fn decide(&self, ask: &Ask<'_>) -> Decision<L::Permit> {
        self.decisions.set(self.decisions.get() + 1);
        self.limiter.decide(ask)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        if !self.can_tell {
            return None;
        }
        if (self.would_admit)(&self.limiter, ask.now(), ask.permits()) {
            return Some(Decision::Admitted(()));
        }
        let decision = self.limiter.ask(&ask.at_once()).map(drop);
        assert!(decision.is_refused());
        Some(decision)
    }

    fn account(&self) -> &dyn Account {
        self.limiter.account()
    }
}
