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
pub fn shrink(mut found: Found, maker: Maker<'_>) -> Found {
    while let Some(simpler) = simpler(&found.history).into_iter().find_map(|history| {
        let verdict = judge(&history, maker, found.seed);
        (!verdict.holds()).then_some(Found { history, verdict, ..found })
    }) {
        found = simpler;
    }
    found
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
        let asks = health.asks;
        add(&|it| it.health = Stage { asks, ..Stage::healthy(workers, load, lengths, weights) });
    };
    if let Some(lengths) = health.lengths.simpler() {
        add_health(health.workers, lengths, health.weights);
    }
    add_health(health.workers, health.lengths, [1, 1]);
    add_health((health.workers / 2).max(1), health.lengths, health.weights);
    add(&|it| it.health.asks = Asks::Direct);
    all
}
