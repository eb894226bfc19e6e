//! The comparison with the best fixed limit.

use std::time::Duration;

use crate::algorithms::Algorithm;
use crate::backend::{Observed, Phase, simulate};

/// The best fixed limit of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Best {
    /// The lowest limit with at least 99.5 % of the highest goodput of any limit.
    pub limit: u64,
    /// The highest goodput of any limit: calls within the deadline in a second.
    pub goodput: f64,
    /// The quantile 0.99 of the response times with the limit.
    pub p99: Duration,
}

/// The results of an algorithm in a phase, beside the best fixed limit.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// The goodput, as a share of the goodput of the best fixed limit.
    pub goodput: f64,
    /// The quantile 0.99 of the response times, as a multiple of the quantile of the best fixed
    /// limit.
    pub p99: f64,
    /// The first second from which three consecutive seconds average at least 95 % of the goodput;
    /// `None` if there is none.
    pub settled: Option<usize>,
    /// The share of three-second spans, after the limit has settled, whose goodput is below 95 %.
    pub relapses: f64,
    /// The highest limit after the first five seconds, as a multiple of the mean of the permits in
    /// use.
    pub limit_by_use: f64,
    /// The highest limit after the first five seconds.
    pub limit: u64,
}

/// Finds the best fixed limit for each phase, by phases of `secs` seconds with the limits 2, 3, …
/// up to 500, each at least a tenth above the one before.
///
/// # Panics
///
/// Panics if no call is served.
#[must_use]
pub fn best(phases: &[Phase], secs: u32) -> Vec<Best> {
    let phase_of = |phase: &Phase| Phase { secs, ..*phase };
    let mut limits = vec![2_u64];
    while let Some(&last) = limits.last()
        && last < 500
    {
        limits.push((last * 11 / 10).max(last + 1));
    }
    let best_of = |phase: &Phase| {
        let tried: Vec<_> = limits
            .iter()
            .map(|&limit| {
                let mut observed = simulate(&[phase_of(phase)], Algorithm::Fixed(limit), 1);
                (limit, observed.pop().expect("one phase"))
            })
            .collect();
        let highest = tried.iter().map(|(_, it)| it.total_good()).max().expect("limits");
        let (limit, observed) = tried
            .iter()
            .find(|(_, it)| float(it.total_good()) >= 0.995 * float(highest))
            .expect("the highest one");
        let goodput = float(highest) / f64::from(secs);
        Best { limit: *limit, goodput, p99: observed.p99() }
    };
    let mut found: Vec<Best> = Vec::new();
    for (index, phase) in phases.iter().enumerate() {
        let same = phases[..index].iter().position(|before| before == phase);
        found.push(same.map_or_else(|| best_of(phase), |same| found[same]));
    }
    found
}

impl Score {
    /// Returns the worse of two scores in each respect.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let settled = self.settled.zip(other.settled).map(|(one, other)| one.max(other));
        Self {
            goodput: self.goodput.min(other.goodput),
            p99: self.p99.max(other.p99),
            settled,
            relapses: self.relapses.max(other.relapses),
            limit_by_use: self.limit_by_use.max(other.limit_by_use),
            limit: self.limit.max(other.limit),
        }
    }
}

/// Compares a phase with the best fixed limit.
#[must_use]
pub fn score(phase: &Phase, observed: &Observed, best: &Best) -> Score {
    let good: Vec<f64> = observed.good.iter().copied().map(f64::from).collect();
    let is_good: Vec<bool> =
        good.windows(3).map(|it| it.iter().sum::<f64>() >= 0.95 * 3.0 * best.goodput).collect();
    let settled = is_good.iter().position(|&it| it);
    let later = &is_good[settled.unwrap_or(is_good.len())..];
    let bad = later.iter().filter(|&&it| !it).count();
    let relapses = float(bad as u64) / float(later.len().max(1) as u64);
    let highest = observed.limits.iter().skip(50).max().copied().unwrap_or_default();
    let in_use: u64 = observed.in_use.iter().skip(50).sum();
    let samples = observed.in_use.len().saturating_sub(50).max(1);
    let mean = float(in_use) / float(samples as u64);
    Score {
        goodput: float(observed.total_good()) / f64::from(phase.secs) / best.goodput,
        p99: observed.p99().as_secs_f64() / best.p99.as_secs_f64(),
        settled,
        relapses,
        limit_by_use: float(highest) / mean,
        limit: highest,
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn float(number: u64) -> f64 {
    number as f64
}
