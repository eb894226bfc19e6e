//! The search for clients that admit more than their limit, or too little of it.

use super::{Faults, Load, Scenario, Violation, simulate};
use crate::histories::shrunk;

/// A scenario with a difference.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed that drew the scenario, and of its run.
    pub seed: u64,
    /// The scenario, shrunk.
    pub scenario: Scenario,
    /// The difference.
    pub violation: Violation,
}

/// Draws a scenario for each seed, and returns the first one with a difference, shrunk.
#[must_use]
pub fn search(seeds: impl IntoIterator<Item = u64>) -> Option<Found> {
    seeds.into_iter().find_map(|seed| {
        let scenario = Scenario::random(seed);
        let breaks = |scenario: &Scenario| simulate(scenario, seed);
        let violation = breaks(&scenario)?;
        let (scenario, violation) = shrunk(scenario, violation, simpler, breaks);
        Some(Found { seed, scenario, violation })
    })
}

/// Returns scenarios that are simpler in one respect each, the simplest first.
fn simpler(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Scenario)| {
        let mut changed = scenario.clone();
        change(&mut changed);
        if changed != *scenario {
            all.push(changed);
        }
    };
    add(&|it| it.faults = Faults::NONE);
    let parts: [fn(&mut Faults) -> &mut f64; 12] = [
        |it| &mut it.loss,
        |it| &mut it.slow,
        |it| &mut it.breaks,
        |it| &mut it.unnoticed,
        |it| &mut it.leaves,
        |it| &mut it.joins,
        |it| &mut it.silent,
        |it| &mut it.changes,
        |it| &mut it.limits,
        |it| &mut it.windows,
        |it| &mut it.restarts,
        |it| &mut it.away,
    ];
    for part in parts {
        add(&|it| *part(&mut it.faults) = 0.0);
    }
    add(&|it| it.instances = 1);
    add(&|it| it.buckets = 1);
    for index in 0..scenario.clients.len() {
        add(&|it| {
            it.clients.remove(index);
        });
        add(&|it| it.clients[index] = Load::Steady(u64::MAX));
    }
    add(&|it| it.window = 1);
    add(&|it| it.secs = (it.secs * 3 / 4).max(1));
    add(&|it| it.limit = it.limit.min(100));
    add(&|it| it.limit /= 2);
    add(&|it| it.step = 100);
    all
}
