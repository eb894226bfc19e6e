//! The search for a fleet whose counts are wrong.

use fastrand::Rng;
use leaparray_redis::fleet::FleetConfig;

use super::{After, Clocks, Faults, Observed, Outage, Scenario, Violations, simulate};
use crate::histories::shrunk;

/// A scenario in which a check fails.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed that drew the scenario, and of its run.
    pub seed: u64,
    /// The scenario, shrunk.
    pub scenario: Scenario,
    /// The seconds of processes that are lost without a reason.
    pub lost: u64,
    /// The checks that fail.
    pub violations: Violations,
}

/// Draws a scenario for each seed, and returns the first one in which a check fails, shrunk.
#[must_use]
pub fn search(seeds: impl IntoIterator<Item = u64>) -> Option<Found> {
    seeds.into_iter().find_map(|seed| {
        let scenario = Scenario::random(seed);
        let breaks = |scenario: &Scenario| {
            let observed = simulate(scenario, seed);
            (!scenario.holds(&observed)).then_some(observed)
        };
        let observed = breaks(&scenario)?;
        let (scenario, observed) = shrunk(scenario, observed, simpler, breaks);
        let lost = observed.lost - observed.unsettled;
        let violations = observed.violations;
        Some(Found { seed, scenario, lost, violations })
    })
}

impl Scenario {
    /// Draws a fleet of up to 16 processes with any settings, small or large outboxes, up to four
    /// outages, and each other fault with a chance of its own.
    ///
    /// # Panics
    ///
    /// Panics if it draws invalid settings.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let faults = if rng.u8(0..8) == 0 { Faults::NONE } else { Faults::random(rng) };
        let config = random_config(rng, faults.duplicates > 0.0 || faults.loses_data());
        let outbox_bytes = [100, 300, 2 << 10, 16 << 10, 1 << 20][rng.usize(0..5)];
        // Gap 3 of the promise: a second that was dropped, of which an old message arrives.
        let has_gap = faults.duplicates > 0.0 && faults.loses_data();
        // Enough for each second before the tail to be delivered.
        let last = faults.outages.last().map_or(0, |it| it.at + it.secs);
        Self {
            config,
            processes: [1, 2, 3, 5, 8, 16][rng.usize(0..6)],
            secs: last + rng.u64(50..120),
            resources: rng.u32(0..8),
            second_bytes: [0, 40, 200, 1 << 10, 16 << 10][rng.usize(0..5)],
            outbox_bytes: if has_gap { 1 << 20 } else { outbox_bytes },
            faults,
            broken: None,
        }
    }

    /// Returns whether each check holds. Without a crash, a leave or an outage, each second of a
    /// process is present, or it is told as missed. After half of `lost_after` without a delivery,
    /// a reader knows only after `lost_after` that it knows all processes, and may have forgotten a
    /// second by then.
    fn holds(&self, observed: &Observed) -> bool {
        let Faults { crashes, leaves, .. } = self.faults;
        let is_away = !self.faults.outages.is_empty();
        let may_lose = crashes > 0.0 || leaves > 0.0 || is_away;
        observed.violations.is_empty() && (may_lose || observed.lost == observed.unsettled)
    }
}

impl Faults {
    fn random(rng: &mut Rng) -> Self {
        let mut share = |most: f64| {
            if rng.bool() { 0.001 * libm::pow(most / 0.001, rng.f64()) } else { 0.0 }
        };
        let (loss, duplicates, slow) = (share(0.5), share(0.9), share(0.9));
        let (crashes, leaves, stalls) = (share(0.1), share(0.1), share(0.1));
        let clocks = [Clocks::Exact, Clocks::Skewed, Clocks::Far][rng.usize(0..3)];
        let outages = random_outages(rng);
        Self { loss, duplicates, slow, clocks, crashes, leaves, stalls, outages: outages.into() }
    }
}

fn random_config(rng: &mut Rng, keeps_records: bool) -> FleetConfig {
    if rng.bool() {
        return FleetConfig::default();
    }
    let lost_after = rng.u32(3..12);
    let delivery = lost_after + [1, 2, 5, 20][rng.usize(0..4)];
    let (grace, history) = (rng.u32(1..=delivery.min(12)), [2, 3, 10, 60][rng.usize(0..4)]);
    // A server that has forgotten a process takes an old message of it for news.
    let is_kept = keeps_records || rng.bool();
    let departed = history + delivery + 10 + if is_kept { 600 } else { 0 };
    // Each step has to be valid by itself.
    FleetConfig::default()
        .with_departed(1_000)
        .and_then(|it| it.with_grace(1))
        .and_then(|it| it.with_lost_after(3))
        .and_then(|it| it.with_delivery(delivery))
        .and_then(|it| it.with_lost_after(lost_after))
        .and_then(|it| it.with_grace(grace))
        .and_then(|it| it.with_history(history))
        .and_then(|it| it.with_departed(departed))
        .expect("valid")
}

/// Draws up to four outages, one after the other. The copy of a replica is of a time after the
/// outage before.
fn random_outages(rng: &mut Rng) -> Vec<Outage> {
    let (mut outages, mut end) = (Vec::new(), 0);
    for _ in 0..rng.u8(0..5) {
        let gap = rng.u64(1..40);
        let (at, length) = (end + gap, if rng.bool() { rng.u64(0..3) } else { rng.u64(3..50) });
        let after = match rng.u8(0..3) {
            0 => After::Same,
            1 => After::Blank,
            _ => After::Replica(rng.u64(1..=gap * 1_000)),
        };
        end = at + length;
        outages.push(Outage { at, secs: length, after });
    }
    outages
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
    add(&|it| it.faults.outages = Faults::NONE.outages);
    for index in 0..scenario.faults.outages.len() {
        add(&|it| {
            it.faults.outages.to_mut().remove(index);
        });
    }
    add(&|it| it.faults.loss = 0.0);
    add(&|it| it.faults.duplicates = 0.0);
    add(&|it| it.faults.slow = 0.0);
    add(&|it| it.faults.crashes = 0.0);
    add(&|it| it.faults.leaves = 0.0);
    add(&|it| it.faults.stalls = 0.0);
    add(&|it| it.faults.clocks = Clocks::Exact);
    add(&|it| it.config = FleetConfig::default());
    add(&|it| it.processes = it.processes.div_ceil(2));
    add(&|it| it.resources = it.resources.min(1));
    add(&|it| it.second_bytes = 16 << 10);
    add(&|it| it.outbox_bytes = 1 << 20);
    let last = |it: &Scenario| it.faults.outages.last().map_or(0, |it| it.at + it.secs);
    add(&|it| it.secs = (it.secs - 10).max(last(it) + 50).min(it.secs));
    all
}
