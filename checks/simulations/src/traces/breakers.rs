//! Breakers on a trace, beside their references. The backend of the trace fails at times.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::breaker::{AdaptiveBreakerConfig, SeededRandom};
use leaparray::flow::circuit::{RatioLimit, Wait};
use leaparray::flow::{
    AdaptiveBreaker, BoxLimiter, BoxPermit, CircuitBreaker, CircuitConfig, LimiterExt,
};
use leaparray::{ManualClock, Outcome, Permit, Timestamp, WindowConfig};

use super::limits::BEGIN;
use super::shape::exponential;
use super::{Expected, MILLI, SECOND, Shape, Tally};
use crate::queue::Queue;

/// A breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// Opens at half of 20 calls in 5 s.
    ExceptionRatio,
    /// Opens if half of 20 calls in 5 s take longer than 150 ms.
    SlowRatio,
    /// Opens at half of the last 30 calls.
    LastCalls,
    /// Opens at 5 exceptions in a row.
    InARow,
    /// Drops more requests, the more of them fail in 10 s.
    Adaptive,
}

impl Breaker {
    /// Each breaker.
    pub const ALL: [Self; 5] =
        [Self::ExceptionRatio, Self::SlowRatio, Self::LastCalls, Self::InARow, Self::Adaptive];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ExceptionRatio => "`CircuitBreaker`, exceptions",
            Self::SlowRatio => "`CircuitBreaker`, slow calls",
            Self::LastCalls => "`CircuitBreaker`, last calls",
            Self::InARow => "`CircuitBreaker`, in a row",
            Self::Adaptive => "`AdaptiveBreaker`",
        }
    }
}

const SLOW: u64 = 150 * MILLI;
const MIN_CALLS: u8 = 20;
const LAST: u32 = 30;
const ROW: usize = 5;
const WAIT: u64 = 2 * SECOND;
const PROBES: u16 = 5;

/// The end of a call.
#[derive(Clone, Copy, Debug)]
struct Ended {
    at: u64,
    is_exception: bool,
    is_slow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open,
    HalfOpen,
}

/// A circuit breaker with a list of its calls.
struct Circuit {
    rule: Breaker,
    state: State,
    /// The number of the state. A call counts only in the one that has admitted it.
    generation: u64,
    calls: VecDeque<Ended>,
    until: u64,
    probes: u16,
}

impl Circuit {
    const fn new(rule: Breaker) -> Self {
        let calls = VecDeque::new();
        Self { rule, state: State::Closed, generation: 0, calls, until: 0, probes: 0 }
    }

    fn go_to(&mut self, state: State) {
        self.state = state;
        self.generation += 1;
        self.calls.clear();
        self.probes = 0;
    }

    fn ask(&mut self, now: u64) -> Expected {
        if self.state == State::Open && now >= self.until {
            self.go_to(State::HalfOpen);
        }
        let is_admitted = match self.state {
            State::Closed => true,
            State::Open => false,
            State::HalfOpen => self.probes < PROBES,
        };
        self.probes += u16::from(is_admitted);
        if is_admitted { Expected::Admitted } else { Expected::Refused }
    }

    fn end(&mut self, generation: u64, call: Ended) {
        if generation != self.generation {
            return;
        }
        self.calls.push_back(call);
        if self.state == State::HalfOpen {
            // Without a ratio, the first exception of a probe opens the breaker.
            let fails = match self.rule {
                Breaker::InARow => call.is_exception,
                _ => self.calls.len() == usize::from(PROBES) && self.fails(),
            };
            if fails {
                self.open(call.at);
            } else if self.calls.len() == usize::from(PROBES) {
                self.go_to(State::Closed);
            }
            return;
        }
        match self.rule {
            Breaker::LastCalls if self.calls.len() > LAST as usize => drop(self.calls.pop_front()),
            Breaker::LastCalls | Breaker::InARow => {}
            // Ten buckets of half a second, the current one among them.
            _ => {
                let oldest = (call.at / (SECOND / 2) - 9) * (SECOND / 2);
                self.calls.retain(|it| it.at >= oldest);
            }
        }
        let opens = match self.rule {
            Breaker::InARow => {
                let last = self.calls.iter().rev().take(ROW);
                self.calls.len() >= ROW && last.into_iter().all(|it| it.is_exception)
            }
            _ => self.calls.len() >= usize::from(MIN_CALLS) && self.fails(),
        };
        if opens {
            self.open(call.at);
        }
    }

    fn open(&mut self, now: u64) {
        self.go_to(State::Open);
        // A wait ends at a whole millisecond.
        self.until = (now + WAIT).next_multiple_of(MILLI);
    }

    fn fails(&self) -> bool {
        let is_bad = |it: &&Ended| match self.rule {
            Breaker::SlowRatio => it.is_slow,
            _ => it.is_exception,
        };
        2 * self.calls.iter().filter(is_bad).count() >= self.calls.len()
    }
}

/// The calls that an adaptive breaker counts: dropped ones, rejected ones and accepted ones.
struct Counts {
    config: AdaptiveBreakerConfig,
    /// The time, and whether the backend has accepted it.
    ended: VecDeque<(u64, bool)>,
}

impl Counts {
    /// No request is dropped while the formula says so. Other decisions are random. A bucket leaves
    /// the window up to a slice, the 16th part of a bucket, before its time.
    fn ask(&mut self, now: u64) -> Expected {
        const BUCKET: u64 = SECOND;
        let starts = [now, now + BUCKET / 16].map(|now| (now / BUCKET - 9) * BUCKET);
        while self.ended.front().is_some_and(|(at, _)| *at < starts[0]) {
            self.ended.pop_front();
        }
        let drops = starts.map(|start| {
            let counted = || self.ended.iter().filter(|(at, _)| *at >= start);
            let accepted = counted().filter(|(_, accepted)| *accepted).count() as u64;
            self.config.drop_probability(counted().count() as u64, accepted)
        });
        if drops.iter().all(|chance| *chance <= 0.0) {
            Expected::Admitted
        } else {
            Expected::Either
        }
    }
}

enum Reference {
    Circuit(Circuit),
    Counts(Counts),
}

impl Reference {
    fn ask(&mut self, now: u64) -> Expected {
        match self {
            Self::Circuit(circuit) => circuit.ask(now),
            Self::Counts(counts) => counts.ask(now),
        }
    }

    const fn generation(&self) -> u64 {
        match self {
            Self::Circuit(circuit) => circuit.generation,
            Self::Counts(_) => 0,
        }
    }

    /// A request was refused.
    fn drop(&mut self, now: u64) {
        if let Self::Counts(counts) = self {
            counts.ended.push_back((now, false));
        }
    }

    fn end(&mut self, generation: u64, call: Ended) {
        match self {
            Self::Circuit(circuit) => circuit.end(generation, call),
            Self::Counts(counts) => counts.ended.push_back((call.at, !call.is_exception)),
        }
    }
}

fn build(breaker: Breaker, clock: ManualClock, seed: u64) -> (BoxLimiter, Reference) {
    const VALID: &str = "a valid configuration";
    if breaker == Breaker::Adaptive {
        let config = AdaptiveBreakerConfig::default();
        let config = config.window(WindowConfig::new(10, Duration::from_secs(10)).expect(VALID));
        let adaptive = AdaptiveBreaker::with_source(config, clock, SeededRandom::new(seed));
        let counts = Counts { config, ended: VecDeque::new() };
        return (Arc::new(adaptive).boxed(), Reference::Counts(counts));
    }
    let half = RatioLimit::at_least(0.5).expect(VALID);
    let config = CircuitConfig::default()
        .window(WindowConfig::new(10, Duration::from_secs(5)).expect(VALID))
        .expect(VALID)
        .min_calls(u64::from(MIN_CALLS))
        .wait(Wait::new(Duration::from_nanos(WAIT)))
        .probes(PROBES)
        .expect(VALID)
        .half_open_timeout(None)
        .expect(VALID);
    let config = match breaker {
        Breaker::SlowRatio => {
            config.no_exception_ratio().slow_ratio(half, Duration::from_nanos(SLOW))
        }
        Breaker::LastCalls => config.last_calls(LAST).expect(VALID).exception_ratio(half),
        Breaker::InARow => config.no_exception_ratio().consecutive_exceptions(ROW as u64),
        _ => config.exception_ratio(half),
    };
    let circuit = CircuitBreaker::with_clock(config, clock);
    (Arc::new(circuit).boxed(), Reference::Circuit(Circuit::new(breaker)))
}

/// The backend between two times: the share of exceptions, and the factor of the lengths of calls.
struct Health {
    until: u64,
    exceptions: f64,
    factor: u64,
}

impl Health {
    /// A good time of 12 s in the mean follows a bad one of 4 s.
    fn next(&self, rng: &mut Rng) -> Self {
        let is_good = self.factor == 1;
        let until = self.until + exponential(rng, if is_good { 4.0 } else { 12.0 });
        let exceptions = if is_good { 0.3 + 0.7 * rng.f64() } else { 0.02 };
        Self { until, exceptions, factor: if is_good { rng.u64(2..10) } else { 1 } }
    }
}

struct Call {
    permit: BoxPermit,
    generation: u64,
    is_exception: bool,
    is_slow: bool,
}

enum Event {
    Ask(u64),
    End(Call),
}

/// Runs a breaker on a trace, whose requests do not come again.
///
/// # Panics
///
/// Panics if a configuration is invalid.
#[must_use]
pub fn breaker(breaker: Breaker, shape: Shape, seed: u64) -> Tally {
    let clock = ManualClock::new(Timestamp::from_nanos(BEGIN));
    let (limiter, mut reference) = build(breaker, clock.clone(), seed);
    let rng = &mut Rng::with_seed(seed);
    let mut health = Health { until: BEGIN, exceptions: 1.0, factor: 2 }.next(rng);
    let (mut events, mut tally) = (Queue::new(), Tally::default());
    for request in shape.draw(seed) {
        events.add(BEGIN + request.at, Event::Ask(request.length));
    }
    while let Some((now, event)) = events.next() {
        let time = Timestamp::from_nanos(now);
        clock.set(time);
        while health.until <= now {
            health = health.next(rng);
        }
        match event {
            Event::Ask(length) => {
                let expected = reference.ask(now);
                let result = limiter.try_acquire_at(time, 1).at_once();
                tally.count(result.is_ok(), expected);
                let Ok(permit) = result else {
                    reference.drop(now);
                    continue;
                };
                let length = length * health.factor;
                let is_exception = rng.f64() < health.exceptions;
                let generation = reference.generation();
                let call = Call { permit, generation, is_exception, is_slow: length > SLOW };
                events.add(now + length, Event::End(call));
            }
            Event::End(mut call) => {
                let Call { generation, is_exception, is_slow, .. } = call;
                let outcome = if is_exception { Outcome::Exception } else { Outcome::Success };
                call.permit.end_at(time, outcome);
                reference.end(generation, Ended { at: now, is_exception, is_slow });
            }
        }
    }
    tally
}
