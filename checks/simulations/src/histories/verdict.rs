//! The comparison with the best fixed limit.

use std::time::Duration;

use leaparray::flow::adaptive::LimitRange;

use super::history::float;
use super::world::simulate;
use super::{History, Maker};
use crate::algorithms::Algorithm;

/// The result of a limiter in the judged time of a history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The work on good calls, as a share of that with the fixed limit that is the best one for
    /// other arrivals.
    pub goodput: f64,
    /// The work on calls that had waited for too long, as a share of the same.
    pub late: f64,
    /// The share of the calls that were refused while workers were idle.
    pub refused_while_idle: f64,
    /// The limit at the end.
    pub limit: u64,
}

impl Verdict {
    /// The least goodput.
    pub const GOODPUT: f64 = 0.97;
    /// The highest share of calls that are refused while workers are idle: what a limiter may spend
    /// on the measurement of calls that do not queue.
    pub const REFUSED_WHILE_IDLE: f64 = 0.03;

    /// Returns whether the property holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.goodput >= Self::GOODPUT && self.refused_while_idle <= Self::REFUSED_WHILE_IDLE
    }
}

/// Runs a history with an algorithm, and the fixed limits beside it.
///
/// # Panics
///
/// Panics if the range of the history is none.
#[must_use]
pub fn judge(history: &History, maker: Maker<'_>, seed: u64) -> Verdict {
    let health = history.health;
    let from = health.settling_time();
    let range = history.range;
    let range = LimitRange::new(range.min, range.initial, range.max).expect("a range");
    let stages: Vec<_> = history.past.iter().copied().chain([health]).collect();
    let (counts, limit) = simulate(maker(range), &stages, from, seed);
    let best = best_fixed(history, from, seed).as_secs_f64().max(1e-9);
    Verdict {
        goodput: counts.good.as_secs_f64() / best,
        late: counts.late.as_secs_f64() / best,
        refused_while_idle: float(counts.refused_while_idle) / float(counts.offered.max(1)),
        limit,
    }
}

/// Returns the work on good calls in health with the best of a few fixed limits: no queue, a
/// queue of some square roots of the workers, and twice the workers. Other arrivals tell which is
/// the best one: no operator knows the limit that is the best one for the arrivals to come.
fn best_fixed(history: &History, from: Duration, seed: u64) -> Duration {
    let health = history.health;
    let root = health.workers.isqrt();
    let heaviest = health.weights[1];
    let limits = [root + 1, 2 * root + 2, 4 * root + 4, health.workers + 10]
        .map(|queue| (health.workers + queue + heaviest).min(history.range.max));
    let good = |limit: u64, seed: u64| {
        simulate(Algorithm::Fixed(limit).create(), &[health], from, seed).0.good
    };
    let best = limits.into_iter().max_by_key(|&limit| good(limit, seed ^ OTHER_ARRIVALS));
    good(best.expect("limits"), seed)
}

/// Combined with a seed, it gives a seed for other arrivals.
const OTHER_ARRIVALS: u64 = 1 << 40;
