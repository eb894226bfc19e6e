//! The requests of a trace.

use std::time::Duration;

use fastrand::Rng;

use super::{MILLI, SECOND};
use crate::histories::Lengths;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its time in nanoseconds since the start of the trace.
    pub at: u64,
    /// Its key, of 50: the lower, the more often.
    pub key: u64,
    /// The permits that it asks for.
    pub permits: u64,
    /// The time of its call in nanoseconds.
    pub length: u64,
    /// Whether it comes again when its refusal says so.
    pub comes_again: bool,
}

/// The shape of a trace of 120 s with about 200 requests in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The sum of 20 sources that send for a while and are silent for a while, each time by a
    /// Pareto distribution of the shape 1.4, so that there are bursts of all lengths.
    ParetoOnOff,
    /// A Markov-modulated Poisson process of three states: 20, 200 and 2,000 requests in a second.
    MarkovModulated,
    /// A day of 60 s, twice: the rate rises and falls as a sine, from 1 to 21.
    Diurnal,
    /// 500 requests at one moment, each 20 s, beside others at random. They come again at the time
    /// that their refusals tell.
    Herd,
    /// Calls with a Pareto distribution of the shape 1.5, up to 20 s, at random times.
    LongTail,
}

const LENGTH: u64 = 120 * SECOND;
const KEYS: f64 = 50.0;

impl Shape {
    /// Each shape.
    pub const ALL: [Self; 5] =
        [Self::ParetoOnOff, Self::MarkovModulated, Self::Diurnal, Self::Herd, Self::LongTail];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ParetoOnOff => "Pareto on/off",
            Self::MarkovModulated => "Markov-modulated",
            Self::Diurnal => "diurnal",
            Self::Herd => "herd",
            Self::LongTail => "long tail",
        }
    }

    /// Draws the requests of a trace, in the order of their times.
    #[must_use]
    pub fn draw(self, seed: u64) -> Vec<Request> {
        let rng = &mut Rng::with_seed(seed);
        let mut requests: Vec<_> =
            self.times(rng).into_iter().map(|at| self.request(at, rng)).collect();
        if self == Self::Herd {
            for at in (10 * SECOND..LENGTH).step_by(20_000_000_000) {
                let herd = || Request { comes_again: true, ..self.request(at, rng) };
                requests.extend(std::iter::repeat_with(herd).take(500));
            }
        }
        requests.sort_by_key(|request| request.at);
        requests
    }

    fn times(self, rng: &mut Rng) -> Vec<u64> {
        match self {
            Self::ParetoOnOff => (0..20).flat_map(|_| on_off(rng)).collect(),
            Self::MarkovModulated => modulated(rng),
            Self::Diurnal => {
                let all = poisson(rng, 0, LENGTH, 400.0);
                let is_kept = |&at: &u64| {
                    let phase = seconds(at) / 60.0 * std::f64::consts::TAU;
                    rng.f64() * 2.1 < 1.1 - libm::cos(phase)
                };
                all.into_iter().filter(is_kept).collect()
            }
            Self::Herd | Self::LongTail => poisson(rng, 0, LENGTH, 200.0),
        }
    }

    fn request(self, at: u64, rng: &mut Rng) -> Request {
        let mean = Duration::from_nanos(50 * MILLI);
        let lengths = match self {
            Self::LongTail => Lengths::HeavyTail(mean.mul_f64(0.4)),
            _ => Lengths::Exponential(mean),
        };
        Request {
            at,
            key: whole(libm::pow(KEYS, rng.f64())),
            permits: if rng.u8(0..10) == 0 { rng.u64(2..=5) } else { 1 },
            length: nanos(lengths.draw(rng).as_secs_f64()).max(1),
            comes_again: false,
        }
    }
}

/// The times of a source that sends 40 requests in a second, a quarter of the time.
fn on_off(rng: &mut Rng) -> Vec<u64> {
    let (mut times, mut at) = (Vec::new(), nanos(rng.f64()));
    let pareto = |rng: &mut Rng, least: f64| {
        nanos(least * libm::pow(1.0 - rng.f64(), -1.0 / 1.4).min(1_000.0))
    };
    while at < LENGTH {
        let silent = at + pareto(rng, 0.2);
        times.extend(poisson(rng, at, silent.min(LENGTH), 40.0));
        at = silent + pareto(rng, 0.6);
    }
    times
}

fn modulated(rng: &mut Rng) -> Vec<u64> {
    /// The requests in a second, and the mean time of a state in seconds.
    const STATES: [(f64, f64); 3] = [(20.0, 6.0), (200.0, 6.0), (2_000.0, 0.6)];
    let (mut times, mut at, mut state) = (Vec::new(), 0, rng.usize(0..3));
    while at < LENGTH {
        let (rate, mean) = STATES[state];
        let end = at + exponential(rng, mean);
        times.extend(poisson(rng, at, end.min(LENGTH), rate));
        state = (state + rng.usize(1..3)) % 3;
        at = end;
    }
    times
}

/// Random times from `start` to `end`, with a mean number in a second.
fn poisson(rng: &mut Rng, start: u64, end: u64, rate: f64) -> Vec<u64> {
    let mut at = start;
    let next = || {
        at += exponential(rng, 1.0 / rate);
        (at < end).then_some(at)
    };
    std::iter::from_fn(next).collect()
}

// Of a library, and not of the system's, so that all machines get the same result.
pub(super) fn exponential(rng: &mut Rng, mean: f64) -> u64 {
    nanos(-mean * libm::log(1.0 - rng.f64()))
}

#[expect(clippy::cast_precision_loss, reason = "a trace is short")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / SECOND as f64
}

#[expect(clippy::cast_precision_loss, reason = "exact")]
fn nanos(seconds: f64) -> u64 {
    whole(seconds * SECOND as f64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
const fn whole(number: f64) -> u64 {
    number as u64
}
