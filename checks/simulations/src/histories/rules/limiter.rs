//! Plain references of the limiters of rules. None has an atomic, a rounded number (but for a
//! warm-up), or a bound of memory. Times are in milliseconds.

use std::collections::VecDeque;

use leaparray::Outcome;

use super::breaker::{Attempts, Breaker};
use super::file::{Limit, Rule};
use super::pace::Pace;
use super::tenants::{May, OfTenant, Tenants};
use super::warm_up::{Curve, WarmUp};

/// The number of keys: two clients or contexts, and the requests without one.
pub(super) const KEYS: usize = 3;

/// The parts of a token: each interval between two tokens is a divisor of them.
const PARTS: u64 = 320;

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
    WarmUp(WarmUp),
    Pace(Pace),
    InFlight {
        in_use: u64,
    },
    /// Of all tenants together, in the place of the first key.
    Tenants(Tenants),
    Breaker(Breaker),
    AdaptiveBreaker(Attempts),
}

/// The question of a request to a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) key: usize,
    pub(super) permits: u64,
    /// The share of the limit that the request may use, in percent, if the rule has shares.
    pub(super) share: Option<u64>,
    /// The weight of its tenant, which is the key, if the rule has tenants.
    pub(super) weight: Option<u64>,
    pub(super) can_wait: bool,
}

/// The answer of a limiter, before it takes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Admits,
    /// Admits the request after a wait.
    Waits(u64),
    Refuses,
    /// It adapts itself: its documentation says neither.
    Either,
    /// It is a breaker whose probe has taken too long, which it finds when it is asked in earnest.
    Unknown,
}

impl Answer {
    fn of(admits: bool) -> Self {
        if admits { Self::Admits } else { Self::Refuses }
    }
}

/// The start of the window at a time.
fn window_start(now: u64, interval: u64, buckets: Option<u64>) -> u64 {
    // A permit counts for any interval by buckets of a fiftieth, and one more.
    let (count, length) = buckets.map_or((51, interval / 50), |it| (it, interval / it));
    ((now / length + 1).saturating_sub(count)) * length
}

/// Returns the part of a limit that a request may use: rounded down, and at least one permit.
fn part(limit: u64, share: Option<u64>) -> u64 {
    share.map_or(limit, |share| (limit * share / 100).max(1).min(limit))
}

/// Returns the lowest and the highest limit in flight.
fn limits_in_flight(limit: Limit) -> (u64, u64) {
    match limit {
        Limit::Adaptive { min, max } => (min, max),
        Limit::InFlight { limit } => (limit, limit),
        _ => unreachable!("a state is of its limit"),
    }
}

/// Returns whether a limit in flight is not known.
fn adapts(limit: Limit) -> bool {
    matches!(limit, Limit::Adaptive { min, max } if min < max)
}

fn of_tenant(Asked { key, permits, weight, .. }: Asked) -> OfTenant {
    OfTenant { tenant: key, weight: weight.unwrap_or(1), permits }
}

/// The numbers of a warm-up.
fn curve(limit: Limit) -> Curve {
    let Limit::WarmUp { count, interval, period, cold_factor } = limit else {
        unreachable!("a state is of its limit")
    };
    Curve { count, bucket: interval / 10, period, cold_factor }
}

impl Limiter {
    pub(super) fn new(rule: &Rule, now: u64) -> Self {
        let limit = rule.limit;
        let state = match limit {
            limit if rule.weights.is_some() => State::Tenants(Tenants::new(adapts(limit))),
            Limit::Window { .. } => State::Window(VecDeque::new()),
            Limit::Bucket { burst, .. } => State::Bucket { level: burst * PARTS, at: now },
            Limit::WarmUp { .. } => State::WarmUp(WarmUp::new()),
            Limit::Pace { .. } => State::Pace(Pace::default()),
            Limit::InFlight { .. } | Limit::Adaptive { .. } => State::InFlight { in_use: 0 },
            Limit::Breaker { .. } => State::Breaker(Breaker::new()),
            Limit::AdaptiveBreaker { .. } => State::AdaptiveBreaker(Attempts::default()),
        };
        Self { limit, keys: [(); KEYS].map(|()| state.clone()) }
    }

    /// Returns the state by which a key is decided. Tenants share one state.
    fn state(&mut self, key: usize) -> &mut State {
        let is_of_all = matches!(self.keys[0], State::Tenants(_));
        &mut self.keys[if is_of_all { 0 } else { key }]
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
                (limit, State::WarmUp(state)) => state.advance(curve(limit), now),
                (_, State::AdaptiveBreaker(attempts)) => attempts.advance(now),
                _ => {}
            }
        }
    }

    /// Changes the numbers. Nothing that was charged is forgotten.
    pub(super) fn set(&mut self, limit: Limit, now: u64) {
        self.advance(now);
        for state in &mut self.keys {
            if let State::WarmUp(state) = state {
                state.change(curve(self.limit), curve(limit));
            }
        }
        self.limit = limit;
        if let State::Tenants(tenants) = &mut self.keys[0]
            && adapts(limit)
        {
            tenants.forget();
        }
        // A bucket keeps its tokens, as far as they fit.
        self.advance(now);
    }

    pub(super) fn answer(&mut self, asked: Asked, now: u64) -> Answer {
        self.advance(now);
        let Asked { key, permits, share, can_wait, .. } = asked;
        match (self.limit, &*self.state(key)) {
            (limit, State::Tenants(tenants)) => {
                match tenants.may(limits_in_flight(limit), of_tenant(asked)) {
                    May { refuse: false, .. } => Answer::Admits,
                    May { admit: false, .. } => Answer::Refuses,
                    May { .. } => Answer::Either,
                }
            }
            (Limit::Window { count, .. }, State::Window(log)) => {
                Answer::of(log.iter().map(|(_, permits)| permits).sum::<u64>() + permits <= count)
            }
            (_, State::Bucket { level, .. }) => Answer::of(permits * PARTS <= *level),
            (limit, State::WarmUp(state)) => Answer::of(state.admits(curve(limit), permits)),
            (Limit::Pace { interval, max_wait }, State::Pace(pace)) => {
                match pace.wait(interval, permits, now) {
                    0 => Answer::Admits,
                    wait if can_wait && wait <= max_wait => Answer::Waits(wait),
                    _ => Answer::Refuses,
                }
            }
            (Limit::InFlight { limit }, State::InFlight { in_use }) => {
                Answer::of(in_use + permits <= part(limit, share))
            }
            (Limit::Adaptive { min, max }, State::InFlight { in_use }) => {
                // A call for more than the limit is admitted alone, unless its class has less.
                let is_alone = *in_use == 0 && share.is_none() && permits <= max;
                if is_alone || in_use + permits <= part(min, share) {
                    Answer::Admits
                } else if in_use + permits > part(max, share) {
                    Answer::Refuses
                } else {
                    Answer::Either
                }
            }
            (_, State::Breaker(breaker)) => breaker.answer(now),
            (Limit::AdaptiveBreaker { min_requests }, State::AdaptiveBreaker(attempts)) => {
                if attempts.admit_all(min_requests) {
                    Answer::Admits
                } else {
                    Answer::Either
                }
            }
            _ => unreachable!("a state is of its limit"),
        }
    }

    /// Takes the permits of a request that is admitted. Returns the generation of a breaker.
    pub(super) fn take(&mut self, asked: Asked, now: u64) -> u64 {
        let Asked { key, permits, .. } = asked;
        match (self.limit, self.state(key)) {
            (limit, State::Tenants(tenants)) => {
                tenants.take(limits_in_flight(limit).0, of_tenant(asked));
            }
            (_, State::Window(log)) => log.push_back((now, permits)),
            (_, State::Bucket { level, .. }) => *level -= permits * PARTS,
            (_, State::WarmUp(state)) => state.take(permits),
            (Limit::Pace { interval, .. }, State::Pace(pace)) => pace.take(interval, permits, now),
            (_, State::InFlight { in_use }) => *in_use += permits,
            (_, State::Breaker(breaker)) => return breaker.take(now),
            _ => {}
        }
        0
    }

    /// Gives the time of a pace back.
    pub(super) fn give_back(&mut self, asked: Asked) {
        if let (Limit::Pace { interval, .. }, State::Pace(pace)) =
            (self.limit, self.state(asked.key))
        {
            pace.give_back(interval, asked.permits);
        }
    }

    /// Notes a request that was asked for, whatever becomes of it.
    pub(super) fn note_asked(&mut self, asked: Asked, now: u64) {
        if let (Limit::AdaptiveBreaker { min_requests }, State::AdaptiveBreaker(attempts)) =
            (self.limit, self.state(asked.key))
        {
            attempts.ask(min_requests, now);
        }
    }

    /// Notes a refusal by a decision, which is demand at a warm-up.
    pub(super) fn note_refused(&mut self, asked: Asked, now: u64) {
        self.advance(now);
        let limit = self.limit;
        if let State::WarmUp(state) = self.state(asked.key) {
            state.refuse(curve(limit), asked.permits);
        }
    }

    /// Notes the answer to a tenant: a decision, or the peek before it. The permits are taken apart
    /// from it.
    pub(super) fn note_answer(&mut self, asked: Asked, answer: Answer) {
        let limit = self.limit;
        if let State::Tenants(tenants) = self.state(asked.key) {
            let (limit, of) = (limits_in_flight(limit).0, of_tenant(asked));
            match answer {
                Answer::Refuses => tenants.refuse(limit, of),
                Answer::Either => tenants.answer(limit, of),
                _ => {}
            }
        }
    }

    /// Takes the state of the tenants from another state of this limiter.
    pub(super) fn keep_tenants(&mut self, from: &Self) {
        if let [State::Tenants(_), ..] = from.keys {
            self.keys.clone_from(&from.keys);
        }
    }

    /// Notes that a tenant may have been answered, and its permits taken back, by a number between
    /// the limit and another one.
    pub(super) fn may_have_asked(&mut self, other: Limit, asked: Asked) {
        let limit = self.limit;
        if let State::Tenants(tenants) = self.state(asked.key) {
            let (one, other) = (limits_in_flight(limit), limits_in_flight(other));
            tenants.may_have_asked((one.0.min(other.0), one.1.max(other.1)), of_tenant(asked));
        }
    }

    /// Opens a half-open breaker whose probe has taken too long.
    pub(super) fn settle(&mut self, key: usize, now: u64) {
        let Limit::Breaker { wait, .. } = self.limit else { return };
        if let State::Breaker(breaker) = self.state(key) {
            breaker.settle(wait, now);
        }
    }

    /// Ends a request that was admitted in a generation.
    pub(super) fn end(&mut self, key: usize, permits: u64, of: u64, outcome: Outcome, now: u64) {
        match (self.limit, self.state(key)) {
            (_, State::InFlight { in_use }) => *in_use -= permits,
            (limit, State::Tenants(tenants)) => {
                tenants.end(limits_in_flight(limit).0, key, permits);
            }
            (Limit::Breaker { in_row, wait }, State::Breaker(breaker)) => {
                breaker.end(in_row, wait, of, outcome, now);
            }
            (_, State::AdaptiveBreaker(attempts)) => {
                attempts.end(outcome == Outcome::Exception, now);
            }
            _ => {}
        }
    }

    /// Returns whether the state of a key of a warm-up is as new, so that it may be evicted: that
    /// takes its credit.
    pub(super) fn may_be_evicted(&mut self, key: usize, now: u64) -> bool {
        self.advance(now);
        matches!(&self.keys[key], State::WarmUp(state) if state.is_as_new())
    }

    /// Makes the state of a key of a warm-up anew.
    pub(super) fn evict(&mut self, key: usize) {
        self.keys[key] = State::WarmUp(WarmUp::new());
    }

    /// Returns the permits that all requests together have charged at a time, if it passes them on
    /// to the limiter that replaces it.
    pub(super) fn charged(&mut self, now: u64) -> Option<u64> {
        self.advance(now);
        match (self.limit, &self.keys[0]) {
            (_, State::Window(log)) => Some(log.iter().map(|(_, permits)| permits).sum()),
            (Limit::Bucket { burst, .. }, State::Bucket { level, .. }) => {
                Some(burst - level / PARTS)
            }
            (_, State::WarmUp(state)) => Some(state.of_window()),
            _ => None,
        }
    }

    /// Returns whether it is charged with what the limiter that it replaces has charged.
    pub(super) const fn takes_over(&self) -> bool {
        matches!(self.limit, Limit::Window { .. } | Limit::Bucket { .. } | Limit::WarmUp { .. })
    }

    /// Returns how many of these permits are left to all requests together at a time.
    pub(super) fn left(&mut self, permits: u64, now: u64) -> u64 {
        let charged = self.charged(now).unwrap_or_default();
        match self.limit {
            Limit::Window { count: limit, .. } | Limit::Bucket { burst: limit, .. } => {
                permits.min(limit.saturating_sub(charged))
            }
            _ => permits,
        }
    }

    /// Charges permits at a time: those of a bucket as far as it has tokens, and those of a warm-up
    /// as far as it admits them at once.
    pub(super) fn charge(&mut self, permits: u64, now: u64) {
        self.advance(now);
        let limit = self.limit;
        match &mut self.keys[0] {
            State::WarmUp(state) => {
                for _ in 0..permits {
                    if state.admits(curve(limit), 1) {
                        state.take(1);
                    }
                }
            }
            State::Window(log) => log.push_back((now, permits)),
            State::Bucket { level, .. } => *level -= permits.min(*level / PARTS) * PARTS,
            _ => {}
        }
    }
}
