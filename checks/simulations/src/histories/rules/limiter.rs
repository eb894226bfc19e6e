//! Plain references of the limiters of rules. None has an atomic, a rounded number, or a bound of
//! memory. Times are in milliseconds.

use std::collections::VecDeque;

use leaparray::Outcome;

use super::file::Limit;

/// The number of keys: two clients, and the requests without one.
pub(super) const KEYS: usize = 3;

/// The parts of a token: each interval between two tokens is a divisor of them.
const PARTS: u64 = 320;

/// The time after which a half-open breaker opens again while its probe is in flight.
const TIME_OUT: u64 = 10_000;

/// A limiter, for each key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limiter {
    pub(super) limit: Limit,
    keys: [State; KEYS],
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// The permits that were charged, with their times.
    Window(VecDeque<(u64, u64)>),
    /// The parts of tokens at a time.
    Bucket {
        level: u64,
        at: u64,
    },
    InFlight {
        in_use: u64,
    },
    Breaker {
        generation: u64,
        phase: Phase,
    },
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

/// The answer of a limiter, before it takes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Admits,
    Refuses,
    /// It is a breaker whose probe has taken too long, which it finds when it is asked in earnest.
    Unknown,
}

/// The start of the window at a time.
fn window_start(now: u64, interval: u64, buckets: Option<u64>) -> u64 {
    // A permit counts for any interval by buckets of a fiftieth, and one more.
    let (count, length) = buckets.map_or((51, interval / 50), |it| (it, interval / it));
    ((now / length + 1).saturating_sub(count)) * length
}

impl Limiter {
    pub(super) fn new(limit: Limit, now: u64) -> Self {
        let state = match limit {
            Limit::Window { .. } => State::Window(VecDeque::new()),
            Limit::Bucket { burst, .. } => State::Bucket { level: burst * PARTS, at: now },
            Limit::InFlight { .. } => State::InFlight { in_use: 0 },
            Limit::Breaker { .. } => {
                State::Breaker { generation: 0, phase: Phase::Closed { failures: 0 } }
            }
        };
        Self { limit, keys: [(); KEYS].map(|()| state.clone()) }
    }

    /// Advances the states to a time.
    fn advance(&mut self, now: u64) {
        for state in &mut self.keys {
            match (self.limit, state) {
                (Limit::Window { interval, buckets, .. }, State::Window(log)) => {
                    let start = window_start(now, interval, buckets);
                    while log.front().is_some_and(|(at, _)| *at < start) {
                        log.pop_front();
                    }
                }
                (Limit::Bucket { interval, burst }, State::Bucket { level, at }) => {
                    *level = (*level + (now - *at) * (PARTS / interval)).min(burst * PARTS);
                    *at = now;
                }
                _ => {}
            }
        }
    }

    /// Changes the numbers. Nothing that was charged is forgotten.
    pub(super) fn set(&mut self, limit: Limit, now: u64) {
        self.advance(now);
        self.limit = limit;
        // A bucket keeps its tokens, as far as they fit.
        self.advance(now);
    }

    pub(super) fn answer(&mut self, key: usize, permits: u64, now: u64) -> Answer {
        self.advance(now);
        let admits = match (self.limit, &self.keys[key]) {
            (Limit::Window { count, .. }, State::Window(log)) => {
                log.iter().map(|(_, permits)| permits).sum::<u64>() + permits <= count
            }
            (_, State::Bucket { level, .. }) => permits * PARTS <= *level,
            (Limit::InFlight { limit }, State::InFlight { in_use }) => in_use + permits <= limit,
            (_, State::Breaker { phase, .. }) => match *phase {
                Phase::Closed { .. } | Phase::HalfOpen { probe: None } => true,
                Phase::Open { until } => now >= until,
                Phase::HalfOpen { probe: Some(taken) } if now >= taken + TIME_OUT => {
                    return Answer::Unknown;
                }
                Phase::HalfOpen { .. } => false,
            },
            _ => unreachable!("a state is of its limit"),
        };
        if admits { Answer::Admits } else { Answer::Refuses }
    }

    /// Takes the permits of a request that is admitted. Returns the generation of a breaker.
    pub(super) fn take(&mut self, key: usize, permits: u64, now: u64) -> u64 {
        match &mut self.keys[key] {
            State::Window(log) => log.push_back((now, permits)),
            State::Bucket { level, .. } => *level -= permits * PARTS,
            State::InFlight { in_use } => *in_use += permits,
            State::Breaker { generation, phase } => {
                if let Phase::Open { .. } = phase {
                    *generation += 1;
                }
                if let Phase::Open { .. } | Phase::HalfOpen { .. } = phase {
                    *phase = Phase::HalfOpen { probe: Some(now) };
                }
                return *generation;
            }
        }
        0
    }

    /// Opens a half-open breaker whose probe has taken too long.
    pub(super) fn settle(&mut self, key: usize, now: u64) {
        let Limit::Breaker { wait, .. } = self.limit else { return };
        let State::Breaker { generation, phase } = &mut self.keys[key] else { return };
        if let Phase::HalfOpen { probe: Some(taken) } = *phase
            && now >= taken + TIME_OUT
        {
            *generation += 1;
            *phase = Phase::Open { until: taken + TIME_OUT + wait };
        }
    }

    /// Ends a request that was admitted in a generation.
    pub(super) fn end(&mut self, key: usize, permits: u64, of: u64, outcome: Outcome, now: u64) {
        if let State::InFlight { in_use } = &mut self.keys[key] {
            *in_use -= permits;
        }
        let Limit::Breaker { in_row, wait } = self.limit else { return };
        let is_present =
            |state: &State| matches!(state, State::Breaker { generation, .. } if *generation == of);
        if is_present(&self.keys[key]) {
            self.settle(key, now);
        }
        if !is_present(&self.keys[key]) {
            return;
        }
        let State::Breaker { generation, phase } = &mut self.keys[key] else { return };
        let next = match (*phase, outcome) {
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
        if std::mem::discriminant(&next) != std::mem::discriminant(phase) {
            *generation += 1;
        }
        *phase = next;
    }

    /// Returns the permits that all requests together have charged at a time.
    pub(super) fn charged(&mut self, now: u64) -> u64 {
        self.advance(now);
        match (self.limit, &self.keys[0]) {
            (_, State::Window(log)) => log.iter().map(|(_, permits)| permits).sum(),
            (Limit::Bucket { burst, .. }, State::Bucket { level, .. }) => burst - level / PARTS,
            _ => 0,
        }
    }

    /// Returns how many of these permits are left to all requests together at a time.
    pub(super) fn left(&mut self, permits: u64, now: u64) -> u64 {
        let charged = self.charged(now);
        match self.limit {
            Limit::Window { count: limit, .. } | Limit::Bucket { burst: limit, .. } => {
                permits.min(limit.saturating_sub(charged))
            }
            _ => permits,
        }
    }

    /// Charges permits at a time: those of a bucket as far as it has tokens.
    pub(super) fn charge(&mut self, permits: u64, now: u64) {
        self.advance(now);
        match &mut self.keys[0] {
            State::Window(log) => log.push_back((now, permits)),
            State::Bucket { level, .. } => *level -= permits.min(*level / PARTS) * PARTS,
            _ => {}
        }
    }
}
