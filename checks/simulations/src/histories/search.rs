//! The search for a history that breaks the property.

use std::time::Duration;

use super::history::{Asks, Failures};
use super::{History, Maker, Stage, Verdict, judge};

/// A history that breaks the property.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed that drew it, and of its calls.
    pub seed: u64,
    /// The history, shrunk.
    pub history: History,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// Draws a history for each seed, and returns the first one that breaks the property, shrunk.
#[must_use]
pub fn search(maker: Maker<'_>, seeds: impl IntoIterator<Item = u64>) -> Option<Found> {
    seeds.into_iter().find_map(|seed| {
        let history = History::random(seed);
        let verdict = judge(&history, maker, seed);
        (!verdict.holds()).then(|| shrink(Found { seed, history, verdict }, maker))
    })
}

/// Makes a history simpler as long as it breaks the property.
#[must_use]
pub fn shrink(found: Found, maker: Maker<'_>) -> Found {
    let Found { seed, history, verdict } = found;
    let breaks = |history: &History| Some(judge(history, maker, seed)).filter(|it| !it.holds());
    let (history, verdict) = shrunk(history, verdict, simpler, breaks);
    Found { seed, history, verdict }
}

/// Makes a case simpler as long as it has a verdict that breaks the property.
pub(crate) fn shrunk<H, V>(
    mut case: H,
    mut verdict: V,
    simpler: impl Fn(&H) -> Vec<H>,
    breaks: impl Fn(&H) -> Option<V>,
) -> (H, V) {
    let next =
        |case: &H| simpler(case).into_iter().find_map(|simpler| Some((breaks(&simpler)?, simpler)));
    while let Some((broken, simpler)) = next(&case) {
        (case, verdict) = (simpler, broken);
    }
    (case, verdict)
}

/// Returns histories that are simpler in one respect each, the simplest first.
fn simpler(history: &History) -> Vec<History> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut History)| {
        let mut changed = history.clone();
        change(&mut changed);
        if changed != *history {
            all.push(changed);
        }
    };
    for index in 0..history.past.len() {
        add(&|it| {
            it.past.remove(index);
        });
    }
    for index in 0..history.past.len() {
        add(&|it| it.past[index].failures = Failures::NONE);
        add(&|it| it.past[index].step = Duration::ZERO);
        add(&|it| it.past[index].weights = it.health.weights);
        add(&|it| it.past[index].lengths = it.health.lengths);
        let stage = history.past[index];
        if stage.length.as_secs_f64() * stage.arrivals >= 20.0 {
            add(&|it| it.past[index].length /= 2);
        }
    }
    let health = history.health;
    let load = health.arrivals * health.mean_work() / super::history::float(health.workers);
    // The past keeps its workers and its arrivals.
    let mut add_health = |workers: u64, lengths, weights: [u64; 2]| {
        let weights = weights.map(|it| it.min(workers));
        let Stage { failures, asks, .. } = health;
        add(&|it| {
            it.health = Stage { failures, asks, ..Stage::healthy(workers, load, lengths, weights) }
        });
    };
    if let Some(lengths) = health.lengths.simpler() {
        add_health(health.workers, lengths, health.weights);
    }
    add_health(health.workers, health.lengths, [1, 1]);
    add_health((health.workers / 2).max(1), health.lengths, health.weights);
    add(&|it| it.health.asks = Asks::Direct);
    add(&|it| it.health.failures = Failures::NONE);
    all
}
