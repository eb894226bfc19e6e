//! A backend with a number of workers and one queue, behind a limiter.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::adaptive::LimitAlgorithm;
use leaparray::flow::{AdaptiveLimiter, FeedbackPermit, LimiterExt};
use leaparray::{ManualClock, Outcome, Timestamp};

use crate::algorithms::Algorithm;

/// The time after which a response is of no use, at a scale of 1.
pub const DEADLINE: Duration = Duration::from_millis(100);
/// The time that a worker takes for a fast call, at a scale of 1.
pub const FAST: Duration = Duration::from_millis(5);
/// The time that a worker takes for a slow call, at a scale of 1.
pub const SLOW: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);
const TENTH: Duration = Duration::from_millis(100);

/// A part of a simulation in which nothing changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Its length in seconds, at a scale of 1.
    pub secs: u32,
    /// The factor by which all times are longer. A number per second is then a number per `scale`
    /// seconds.
    pub scale: u32,
    /// The number of workers.
    pub workers: u32,
    /// The share of slow calls.
    pub slow: f64,
    /// The number of calls that arrive in a second, at random times, at a scale of 1.
    pub arrivals: f64,
    /// The times in which all calls that begin are slower.
    pub slowness: Slowness,
}

/// Times in which all calls that a worker begins take longer, as during a collection of garbage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowness {
    /// The factor by which they take longer.
    pub factor: f64,
    /// The share of the periods in which they do.
    pub share: f64,
    /// The length of a period, at a scale of 1.
    pub period: Duration,
}

impl Slowness {
    /// No such times.
    pub const NONE: Self = Self { factor: 1.0, share: 0.0, period: SECOND };
}

impl Phase {
    /// Returns the factor by which calls take longer that begin at a time since the start of the
    /// simulation. It is drawn from the number of the period, so that it does not depend on the
    /// calls.
    fn slowness_at(&self, since: Duration, seed: u64) -> f64 {
        let Slowness { factor, share, period } = self.slowness;
        let number = since.as_nanos() / (period * self.scale).as_nanos();
        #[expect(clippy::cast_possible_truncation, reason = "a simulation has few periods")]
        let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003) ^ number as u64);
        if share > 0.0 && rng.f64() < share { factor } else { 1.0 }
    }

    /// Returns the number of calls that workers can serve in a second.
    #[must_use]
    pub fn capacity(workers: u32, slow: f64) -> f64 {
        let mean = FAST.as_secs_f64() * (1.0 - slow) + SLOW.as_secs_f64() * slow;
        f64::from(workers) / mean
    }
}

/// The calls of a phase, and the limit during it.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The response times of all calls that arrived in the phase and were admitted.
    pub response_times: Vec<Duration>,
    /// The number of calls that ended within the [deadline](DEADLINE), by the second of their end.
    pub good: Vec<u32>,
    /// The limit at the end of each tenth of a second.
    pub limits: Vec<u64>,
    /// The permits in use at the same times.
    pub in_use: Vec<u64>,
}

impl Observed {
    /// Returns the number of calls that ended within the deadline.
    #[must_use]
    pub fn total_good(&self) -> u64 {
        self.good.iter().copied().map(u64::from).sum()
    }

    /// Returns the quantile 0.99 of the response times.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    #[must_use]
    pub fn p99(&self) -> Duration {
        let mut sorted = self.response_times.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() * 99).div_ceil(100) - 1]
    }
}

type Limiter = AdaptiveLimiter<Box<dyn LimitAlgorithm>, ManualClock>;

struct Call<'a> {
    arrived: Timestamp,
    phase: usize,
    permit: FeedbackPermit<&'a Limiter>,
}

/// The calls that are in the backend.
#[derive(Default)]
struct Backend<'a> {
    queue: VecDeque<Call<'a>>,
    served: HashMap<u64, Call<'a>>,
    /// The ends of the calls that are served, with their numbers.
    ends: BinaryHeap<Reverse<(Timestamp, u64)>>,
    number: u64,
}

impl<'a> Backend<'a> {
    fn next_end(&self) -> Timestamp {
        self.ends.peek().map_or(Timestamp::MAX, |Reverse((end, _))| *end)
    }

    fn take_ended(&mut self) -> Option<Call<'a>> {
        let Reverse((_, number)) = self.ends.pop()?;
        self.served.remove(&number)
    }

    /// Gives queued calls to free workers.
    fn serve(&mut self, now: Timestamp, phase: &Phase, slowness: f64, rng: &mut Rng) {
        while self.served.len() < phase.workers as usize
            && let Some(call) = self.queue.pop_front()
        {
            let time = if rng.f64() < phase.slow { SLOW } else { FAST } * phase.scale;
            let time = if slowness > 1.0 { time.mul_f64(slowness) } else { time };
            self.number += 1;
            self.served.insert(self.number, call);
            self.ends.push(Reverse((now.saturating_add(time), self.number)));
        }
    }
}

/// Simulates calls that arrive at random, are admitted or refused, wait in one queue for a worker,
/// and are served to their end. If the number of workers falls, the calls that are served go on.
/// All phases have the scale of the first.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "a phase has few seconds")]
pub fn simulate(phases: &[Phase], algorithm: Algorithm, seed: u64) -> Vec<Observed> {
    let algorithm = algorithm.create();
    let scale = phases[0].scale;
    let tenth = TENTH * scale;
    let mut rng = Rng::with_seed(seed);
    let begin = Timestamp::from_secs(1_000);
    let clock = ManualClock::new(begin);
    let limiter = AdaptiveLimiter::with_clock(algorithm, clock.clone());
    let mut backend = Backend::default();
    let empty =
        |phase: &Phase| Observed { good: vec![0; phase.secs as usize], ..Observed::default() };
    let mut observed: Vec<_> = phases.iter().map(empty).collect();
    let (mut index, mut phase_start) = (0, begin);
    let mut arrival = begin;
    let mut sample = begin.saturating_add(tenth);
    loop {
        let now = arrival.min(backend.next_end()).min(sample);
        clock.set(now);
        let length = SECOND * phases[index].secs * scale;
        if now >= phase_start.saturating_add(length) {
            phase_start = phase_start.saturating_add(length);
            index += 1;
            if index == phases.len() {
                return observed;
            }
        }
        let phase = &phases[index];
        if now == sample {
            observed[index].limits.push(limiter.limit());
            observed[index].in_use.push(limiter.in_use());
            sample = sample.saturating_add(tenth);
        } else if now == arrival {
            // Of this library, and not of the system's, so that all machines get the same result.
            let gap = -libm::log(1.0 - rng.f64()) / phase.arrivals;
            arrival = now.saturating_add(Duration::from_secs_f64(gap * f64::from(scale)));
            if let Ok(permit) = limiter.try_acquire_at(now, 1).at_once() {
                backend.queue.push_back(Call { arrived: now, phase: index, permit });
            }
        } else if let Some(call) = backend.take_ended() {
            let response_time = now.saturating_since(call.arrived);
            call.permit.end_at(now, Outcome::Success);
            let of = &mut observed[call.phase];
            of.response_times.push(response_time);
            if response_time <= DEADLINE * scale {
                // A call that ends after its phase counts in the last second of it.
                let second = now.saturating_since(phase_start).as_secs() / u64::from(scale);
                let is_current = call.phase == index && second < u64::from(phase.secs);
                let second = if is_current { second as usize } else { of.good.len() - 1 };
                of.good[second] += 1;
            }
        }
        if !backend.queue.is_empty() {
            let slowness = phase.slowness_at(now.saturating_since(begin), seed);
            backend.serve(now, phase, slowness, &mut rng);
        }
    }
}
