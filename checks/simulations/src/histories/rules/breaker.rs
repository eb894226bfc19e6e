//! Plain references of the breakers of rules.

use std::collections::VecDeque;

use leaparray::Outcome;

use super::limiter::Answer;

/// The time after which a half-open breaker opens again while its probe is in flight.
const TIME_OUT: u64 = 10_000;

/// A breaker of failures in a row, with one probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Breaker {
    generation: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Closed {
        failures: u64,
    },
    Open {
        until: u64,
    },
    /// With the time at which the probe was taken, while it is in flight.
    HalfOpen {
        probe: Option<u64>,
    },
}

impl Breaker {
    pub(super) const fn new() -> Self {
        Self { generation: 0, phase: Phase::Closed { failures: 0 } }
    }

    pub(super) fn answer(self, now: u64) -> Answer {
        match self.phase {
            Phase::Closed { .. } | Phase::HalfOpen { probe: None } => Answer::Admits,
            Phase::Open { until } if now >= until => Answer::Admits,
            Phase::HalfOpen { probe: Some(taken) } if now >= taken + TIME_OUT => Answer::Unknown,
            Phase::Open { .. } | Phase::HalfOpen { .. } => Answer::Refuses,
        }
    }

    /// Takes a request that is admitted. Returns the generation.
    pub(super) fn take(&mut self, now: u64) -> u64 {
        if let Phase::Open { .. } = self.phase {
            self.generation += 1;
        }
        if let Phase::Open { .. } | Phase::HalfOpen { .. } = self.phase {
            self.phase = Phase::HalfOpen { probe: Some(now) };
        }
        self.generation
    }

    /// Opens a half-open breaker whose probe has taken too long.
    pub(super) fn settle(&mut self, wait: u64, now: u64) {
        if let Phase::HalfOpen { probe: Some(taken) } = self.phase
            && now >= taken + TIME_OUT
        {
            self.generation += 1;
            self.phase = Phase::Open { until: taken + TIME_OUT + wait };
        }
    }

    /// Ends a request that was admitted in a generation.
    pub(super) fn end(&mut self, in_row: u64, wait: u64, of: u64, outcome: Outcome, now: u64) {
        if self.generation == of {
            self.settle(wait, now);
        }
        if self.generation != of {
            return;
        }
        let next = match (self.phase, outcome) {
            (Phase::Closed { failures }, Outcome::Exception) if failures + 1 < in_row => {
                Phase::Closed { failures: failures + 1 }
            }
            (Phase::HalfOpen { .. }, Outcome::Cancelled) => Phase::HalfOpen { probe: None },
            (_, Outcome::Exception) => Phase::Open { until: now + wait },
            (Phase::Closed { .. } | Phase::HalfOpen { .. }, Outcome::Success) => {
                Phase::Closed { failures: 0 }
            }
            (phase, _) => phase,
        };
        if std::mem::discriminant(&next) != std::mem::discriminant(&self.phase) {
            self.generation += 1;
        }
        self.phase = next;
    }
}

/// The window of an adaptive breaker, and a bucket more.
const WINDOW: u64 = 11_000;

/// At least the requests that an adaptive breaker counts, with whether they speak against the
/// backend: it has rejected them, or the breaker may have dropped them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attempts(VecDeque<(u64, bool)>);

impl Attempts {
    pub(super) fn advance(&mut self, now: u64) {
        while self.0.front().is_some_and(|(at, _)| at + WINDOW < now) {
            self.0.pop_front();
        }
    }

    /// Notes a request that asks. One that may be dropped counts as a request.
    pub(super) fn ask(&mut self, min_requests: u64, now: u64) {
        let may_be_dropped = !self.admit_all(min_requests);
        self.0.push_back((now, may_be_dropped));
    }

    /// Notes the end of a request.
    pub(super) fn end(&mut self, is_rejected: bool, now: u64) {
        self.0.push_back((now, is_rejected));
    }

    /// Returns whether each request is admitted: if the backend has accepted all, or if there are
    /// at most as many requests.
    pub(super) fn admit_all(&self, min_requests: u64) -> bool {
        let is_against = |(_, is_against): &(u64, bool)| *is_against;
        !self.0.iter().any(is_against) || self.0.len() as u64 <= min_requests
    }
}
