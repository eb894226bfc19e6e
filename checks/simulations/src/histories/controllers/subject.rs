//! The controllers.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::adaptive::{Headroom, LimitRange};
use leaparray::flow::breaker::{AdaptiveBreakerConfig, SeededRandom};
use leaparray::flow::circuit::{RatioLimit, Wait};
use leaparray::flow::{
    AdaptiveBreaker, AdaptiveLimiter, AllOf, BoxLimiter, CircuitBreaker, CircuitConfig,
    ConcurrencyLimiter, FixedWindowLimiter, LeakyBucket, LimiterExt, Rate, SlidingWindowLimiter,
    TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::node::OnDrop;
use leaparray::time::ForwardClock;
use leaparray::{ManualClock, WindowConfig};

use super::course::Period;

/// The clock of all controllers: one that goes on when its source is set back.
pub(super) type SimClock = ForwardClock<ManualClock>;
/// A circuit breaker whose state the world reads and sets.
pub(super) type SimCircuit = CircuitBreaker<SimClock, SeededRandom>;

/// A rule by which a circuit breaker opens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// By this share of exceptions.
    Ratio(f64),
    /// By this share of calls that take longer than that.
    Slow(f64, Duration),
    /// By this number of exceptions.
    Exceptions(u64),
    /// By this number of exceptions in a row.
    InARow(u64),
}

/// A circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circuit {
    /// Its rule.
    pub rule: Rule,
    /// The window: its buckets and its interval.
    pub window: (usize, Duration),
    /// The number of the last calls that count, instead of the window.
    pub last_calls: Option<u32>,
    /// The least number of calls of a ratio.
    pub min_calls: u64,
    /// The first and the longest wait. Waits double.
    pub wait: [Duration; 2],
    /// The random part of a wait.
    pub jitter: f64,
    /// The number of probes.
    pub probes: u16,
    /// The time-out of the half-open state.
    pub timeout: Option<Duration>,
}

impl Circuit {
    fn config(&self) -> CircuitConfig {
        const VALID: &str = "a valid configuration";
        let ratio = |ratio| RatioLimit::at_least(ratio).expect(VALID);
        let window = WindowConfig::new(self.window.0, self.window.1).expect(VALID);
        let wait = Wait::new(self.wait[0]).growing(2.0, self.wait[1]).expect(VALID);
        let config = CircuitConfig::default()
            .window(window)
            .expect(VALID)
            .min_calls(self.min_calls)
            .wait(wait.with_jitter(self.jitter).expect(VALID))
            .probes(self.probes)
            .expect(VALID)
            .half_open_timeout(self.timeout)
            .expect(VALID)
            .on_drop(OnDrop::Cancelled);
        let config = match self.last_calls {
            Some(calls) => config.last_calls(calls).expect(VALID),
            None => config,
        };
        match self.rule {
            Rule::Ratio(share) => config.exception_ratio(ratio(share)),
            Rule::Slow(share, above) => config.no_exception_ratio().slow_ratio(ratio(share), above),
            Rule::Exceptions(number) => config.no_exception_ratio().exceptions(number),
            Rule::InARow(number) => config.no_exception_ratio().consecutive_exceptions(number),
        }
    }

    /// Returns simpler ones.
    pub(super) fn simpler(&self) -> Vec<Self> {
        let first = self.wait[0];
        vec![
            Self { jitter: 0.0, ..*self },
            Self { wait: [first, first], ..*self },
            Self { probes: 1, ..*self },
            Self { last_calls: None, ..*self },
        ]
    }

    /// The former calls leave the window or the last calls, and may open the breaker until then.
    /// It waits twice, if the first probes are of the past and run into the time-out, and then for
    /// its probes.
    fn settling_time(&self, health: &Period) -> Duration {
        let lost = health.outcomes.cancelled + health.outcomes.dropped;
        let kept = 1.0 / (1.0 - lost).max(0.1);
        let probes = (health.gap() * self.probes.into()).mul_f64(kept)
            + health.longest_gap().mul_f64(kept)
            + health.long_call();
        let leave = health.gap() * self.last_calls.unwrap_or(0) * 2;
        let wait = self.wait[1] + Duration::from_millis(1) + health.longest_gap();
        leave + self.window.1 + 2 * wait + self.timeout.unwrap_or_default() + probes
    }
}

/// An adaptive breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breaker {
    /// The buckets and the interval of its window.
    pub window: (usize, Duration),
    /// Up to this number of requests for each accepted one, none is dropped.
    pub k: f64,
    /// The probe interval.
    pub probe_interval: Duration,
    /// The recovery.
    pub recovery: Duration,
}

impl Breaker {
    fn config(&self) -> AdaptiveBreakerConfig {
        const VALID: &str = "a valid configuration";
        let window = WindowConfig::new(self.window.0, self.window.1).expect(VALID);
        let config = AdaptiveBreakerConfig::default().window(window).k(self.k).expect(VALID);
        let config = config.probe_interval(self.probe_interval).expect(VALID);
        config.recovery(self.recovery).expect(VALID).on_drop(OnDrop::Cancelled)
    }

    /// As its documentation says.
    fn settling_time(&self, health: &Period) -> Duration {
        let (buckets, interval) = self.window;
        let bucket = interval / u32::try_from(buckets).expect("few");
        let lost = health.outcomes.cancelled + health.outcomes.dropped;
        let gap = health.longest_gap().mul_f64(1.0 / (1.0 - lost).max(0.1));
        self.probe_interval
            + health.long_call()
            + gap
            + self.recovery.min(interval / 2)
            + 3 * bucket
    }
}

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Base {
    /// A circuit breaker.
    Circuit(Circuit),
    /// An adaptive breaker.
    Breaker(Breaker),
    /// A limit in a second that warms up: the limit, the period and the cold factor.
    WarmUp(u64, Duration, f64),
    /// A token bucket: the permits of a second, and the capacity.
    Token(u64, u64),
    /// A leaky bucket: the permits of a second.
    Leaky(u64),
    /// A fixed window of a second: the permits.
    Fixed(u64),
    /// A sliding window of a second: the permits.
    Sliding(u64),
    /// A limit in flight.
    Concurrency(u64),
    /// An adaptive limit in flight, with its first limit.
    Adaptive(u64),
    /// A token bucket, a leaky bucket of twice its rate, and a limit in flight.
    All(u64, u64, u64),
}

/// The way in which callers ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// At once.
    Direct,
    /// Through a queue.
    Queue {
        /// The newest request is served first.
        newest_first: bool,
        /// The most requests that wait.
        capacity: usize,
        /// The grain of the timers.
        grain: Duration,
    },
    /// By a key, with a limiter for each.
    PerKey {
        /// The cap.
        max_keys: usize,
        /// The keep time.
        keep: Duration,
    },
}

/// A controller, and the way to ask it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Subject {
    /// The controller.
    pub base: Base,
    /// The way.
    pub way: Way,
}

impl Base {
    pub(super) fn build(
        &self,
        clock: &SimClock,
        seed: u64,
    ) -> (BoxLimiter, Option<Arc<SimCircuit>>) {
        const VALID: &str = "a valid limit";
        let rate = |permits| Rate::per_second(permits).expect(VALID);
        let second = Duration::from_secs(1);
        let clock = clock.clone();
        let random = SeededRandom::new(seed);
        let limiter = match *self {
            Self::Circuit(circuit) => {
                let breaker = CircuitBreaker::with_source(circuit.config(), clock, random);
                let breaker = Arc::new(breaker);
                return (Arc::clone(&breaker).boxed(), Some(breaker));
            }
            Self::Breaker(breaker) => {
                Arc::new(AdaptiveBreaker::with_source(breaker.config(), clock, random)).boxed()
            }
            Self::WarmUp(limit, period, cold_factor) => {
                let window = WindowConfig::new(10, second).expect(VALID);
                let config = WarmUpConfig::new(period, cold_factor).expect(VALID);
                WarmUp::with_clock(window, limit, config, clock).expect(VALID).boxed()
            }
            Self::Token(permits, capacity) => {
                TokenBucket::with_clock(rate(permits), capacity, clock).boxed()
            }
            Self::Leaky(permits) => {
                LeakyBucket::with_clock(rate(permits), Duration::ZERO, clock).boxed()
            }
            Self::Fixed(limit) => {
                FixedWindowLimiter::with_clock(second, limit, clock).expect(VALID).boxed()
            }
            Self::Sliding(limit) => {
                SlidingWindowLimiter::with_clock(second, limit, clock).expect(VALID).boxed()
            }
            Self::Concurrency(limit) => Arc::new(ConcurrencyLimiter::new(limit)).boxed(),
            Self::Adaptive(initial) => {
                let range = LimitRange::new(1, initial, 10_000).expect(VALID);
                Arc::new(AdaptiveLimiter::with_clock(Headroom::new(range), clock)).boxed()
            }
            Self::All(permits, capacity, limit) => {
                let token = TokenBucket::with_clock(rate(permits), capacity, clock.clone());
                let pace = rate(2 * permits);
                let longest = Duration::from_secs_f64(1e3 / float(permits));
                let leaky = LeakyBucket::with_clock(pace, longest, clock);
                AllOf::new((Arc::new(ConcurrencyLimiter::new(limit)), token, leaky)).boxed()
            }
        };
        (limiter, None)
    }

    /// Returns the permits of a second; `None` if the limit is none of a rate.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        match *self {
            Self::WarmUp(rate, ..)
            | Self::Token(rate, _)
            | Self::Leaky(rate)
            | Self::Fixed(rate)
            | Self::Sliding(rate)
            | Self::All(rate, ..) => Some(float(rate)),
            Self::Circuit(_) | Self::Breaker(_) | Self::Concurrency(_) | Self::Adaptive(_) => None,
        }
    }

    /// Returns the permits of the limit in flight, if it is fixed.
    #[must_use]
    pub const fn in_flight(&self) -> Option<u64> {
        match *self {
            Self::Concurrency(limit) | Self::All(.., limit) => Some(limit),
            _ => None,
        }
    }

    /// Returns the permits that a window loses to requests for several permits, as a share.
    pub(super) fn lost_to(&self, weight: u64) -> f64 {
        let lost = float(weight - 1);
        match *self {
            Self::WarmUp(limit, ..) | Self::Fixed(limit) => lost / float(limit),
            // And its 51 buckets for 50, as it says.
            Self::Sliding(limit) => lost / float(limit) + 0.02,
            _ => 0.0,
        }
    }

    /// Returns whether it refuses no request in health.
    #[must_use]
    pub const fn is_breaker(&self) -> bool {
        matches!(self, Self::Circuit(_) | Self::Breaker(_))
    }
}

impl Subject {
    /// Returns the time within which a past has no effect any more, once its last call has ended:
    ///
    /// - of a breaker, as its documentation says: the waits, the time-out, the probes and the
    ///   window of a circuit breaker; probe interval, response time, recovery and three buckets of
    ///   an adaptive one;
    /// - of a warm-up: the period, and the time in which its debt is paid;
    /// - of an adaptive limit: 200 calls' lengths and the time of 2,000 calls;
    /// - of another limit: the time in which it is as new, and the lead of a wrong time;
    /// - of keys: and the keep time.
    #[must_use]
    pub fn settling_time(&self, health: &Period) -> Duration {
        let second = Duration::from_secs(1);
        let base = match self.base {
            Base::Circuit(circuit) => circuit.settling_time(health),
            Base::Breaker(breaker) => breaker.settling_time(health),
            Base::WarmUp(_, period, cold_factor) => {
                period + second.mul_f64(cold_factor) + 2 * second
            }
            Base::Token(rate, capacity) | Base::All(rate, capacity, _) => {
                Duration::from_secs_f64(float(capacity) / float(rate)) + second
            }
            Base::Leaky(_) | Base::Fixed(_) | Base::Sliding(_) => 2 * second,
            Base::Concurrency(_) => Duration::ZERO,
            Base::Adaptive(_) => second * 2 + health.lengths.mean() * 200 + health.gap() * 2_000,
        };
        match self.way {
            Way::PerKey { keep, .. } => base + keep,
            _ => base,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
pub(super) const fn whole(number: f64) -> u64 {
    number as u64
}
