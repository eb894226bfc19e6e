//! The search for a fleet that uses more than its limit.

use std::time::Duration;

use fastrand::Rng;
use leaparray_redis::lease::LeaseConfig;

use super::{
    Failover, Faults, Observed, RoundTrips, Scenario, Sizes, Strategy, Waits, float, simulate,
    whole,
};
use crate::histories::shrunk;

/// A scenario in which the nodes use more than the limit, or too little of it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed that drew the scenario, and of its requests.
    pub seed: u64,
    /// The scenario, shrunk.
    pub scenario: Scenario,
    /// Its results.
    pub observed: Observed,
}

/// Draws a scenario for each seed, and returns the first one in which leases break the property,
/// shrunk.
#[must_use]
pub fn search(seeds: impl IntoIterator<Item = u64>) -> Option<Found> {
    seeds.into_iter().find_map(|seed| {
        let scenario = Scenario::random(seed);
        let breaks = |scenario: &Scenario| {
            let observed = simulate(Strategy::Leases, scenario, seed);
            (!scenario.holds(&observed)).then_some(observed)
        };
        let observed = breaks(&scenario)?;
        let (scenario, observed) = shrunk(scenario, observed, simpler, breaks);
        Some(Found { seed, scenario, observed })
    })
}

impl Scenario {
    /// The most requests that arrive in a run: it takes some tens of milliseconds.
    const MOST_REQUESTS: f64 = 50_000.0;

    /// Draws a fleet of up to a hundred nodes, a limit of up to 20,000 permits in 0.1 to 10 s, a
    /// demand of a tenth of the limit to ten times the limit, and each fault with a chance of its
    /// own.
    ///
    /// # Panics
    ///
    /// Panics if it draws an invalid limit.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let mut faults = if rng.u8(0..8) == 0 { Faults::NONE } else { Faults::random(rng) };
        let is_of_buckets = rng.bool();
        if is_of_buckets {
            // The buckets are those of the server's time, so no other clock tells what they have.
            faults.step_back = 0;
        }
        let config = random_config(rng, is_of_buckets, faults.drift_ppm);
        let window = (config.bucket_len() * config.buckets()).as_secs_f64();
        let secs = whole((15.0 * window).clamp(5.0, 40.0));
        let per_second = float(config.limit()) / window * between(rng, 0.1, 10.0);
        let demand = per_second.min(Self::MOST_REQUESTS / float(secs)).max(0.1);
        let nodes = usize::try_from(whole(between(rng, 1.0, 101.0))).expect("small");
        let waits = [Waits::Not, Waits::Answer, Waits::Window][rng.usize(0..3)];
        let has_workers = waits == Waits::Window && rng.bool();
        let longest = [1, 10, 100, 250, 1_000][rng.usize(0..5)];
        Self {
            config,
            nodes,
            demand,
            workers: if has_workers { rng.usize(1..20) } else { 0 },
            sizes: if rng.bool() { Sizes::One } else { Sizes::HeavyTail },
            waits,
            round_trips: match rng.u8(0..3) {
                0 => RoundTrips::Even,
                1 => RoundTrips::ByNode { longest },
                _ => RoundTrips::ByNodeAndTime,
            },
            secs,
            faults,
        }
    }

    /// Returns whether no interval has more than the limit. If the clock of the server steps, it is
    /// one by a clock that does not.
    fn holds(&self, observed: &Observed) -> bool {
        let Observed { overshoot, in_any_interval, .. } = *observed;
        let beyond = if self.faults.step_back > 0 { in_any_interval } else { overshoot };
        beyond <= 0.0
    }
}

impl Faults {
    fn random(rng: &mut Rng) -> Self {
        let mut share = |most: f64| if rng.bool() { between(rng, 0.001, most) } else { 0.0 };
        let (loss, repeats, late, crashes) = (share(0.5), share(0.5), share(0.2), share(0.5));
        let failovers = [Failover::Never, Failover::Restart, Failover::Promotion, Failover::InTurn];
        let drifts = [0, 100, 500, 10_000, LeaseConfig::MAX_DRIFT_PPM];
        Self {
            loss,
            repeats,
            late,
            crashes,
            failovers: failovers[rng.usize(0..4)],
            failover_secs: rng.u64(1..20),
            drift_ppm: drifts[rng.usize(0..5)],
            step_back: if rng.u8(0..4) == 0 { whole(between(rng, 1e3, 2e6)) } else { 0 },
            keeps_identity: false,
            twins: rng.u8(0..4) == 0,
        }
    }
}

fn random_config(rng: &mut Rng, is_of_buckets: bool, drift_ppm: u32) -> LeaseConfig {
    let limit = whole(between(rng, 1.0, 20_000.0));
    let window = whole(between(rng, 100.0, 10_000.0));
    let config = if is_of_buckets {
        let buckets = [2, 3, 5, 10, 60][rng.usize(0..5)];
        let window = (window / u64::from(buckets)).max(10) * u64::from(buckets);
        LeaseConfig::of_buckets(limit, buckets, Duration::from_millis(window))
    } else {
        LeaseConfig::new(limit, Duration::from_millis(window))
    };
    config.and_then(|it| it.with_drift_ppm(drift_ppm)).expect("valid")
}

/// Draws a number with an evenly distributed logarithm.
fn between(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least * libm::pow(most / least, rng.f64())
}

/// Returns scenarios that are simpler in one respect each, the simplest first.
fn simpler(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Scenario)| {
        let mut changed = *scenario;
        change(&mut changed);
        if changed != *scenario {
            all.push(changed);
        }
    };
    add(&|it| it.faults = Faults::NONE);
    add(&|it| it.faults.loss = 0.0);
    add(&|it| it.faults.repeats = 0.0);
    add(&|it| it.faults.late = 0.0);
    add(&|it| it.faults.crashes = 0.0);
    add(&|it| it.faults.failovers = Failover::Never);
    add(&|it| it.faults.drift_ppm = 0);
    add(&|it| it.faults.step_back = 0);
    add(&|it| it.faults.twins = false);
    add(&|it| it.nodes = it.nodes.div_ceil(2));
    add(&|it| it.workers = it.workers.min(1));
    add(&|it| it.sizes = Sizes::One);
    add(&|it| it.waits = if it.workers > 0 { it.waits } else { Waits::Not });
    add(&|it| it.round_trips = RoundTrips::Even);
    all
}
