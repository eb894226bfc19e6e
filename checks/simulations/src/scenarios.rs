//! What happens to the backend.

use crate::backend::Phase;

/// Phases, and a name.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is about.
    pub name: String,
    /// Its phases, each of the same length.
    pub phases: Vec<Phase>,
    /// Whether the mix of fast and slow calls changes in it.
    pub changes_mix: bool,
    /// The name of its plot.
    pub file: String,
}

const WORKERS: u32 = 64;
const SLOW: f64 = 0.1;

/// The number of workers falls to a quarter, and rises again. `load` is the arrivals as a share of the capacity of all workers.
#[must_use]
pub fn capacity_changes(load: f64, secs: u32) -> Scenario {
    let arrivals = load * Phase::capacity(WORKERS, SLOW);
    let phase = |workers| Phase { secs, workers, slow: SLOW, arrivals };
    Scenario {
        name: format!("capacity ÷ 4 and × 4, load {load}"),
        phases: [WORKERS, WORKERS / 4, WORKERS].map(phase).to_vec(),
        changes_mix: false,
        file: format!("capacity-{}", load * 10.0),
    }
}

/// The share of slow calls changes, at 1.2 × the capacity of the first mix of the usual scenario.
#[must_use]
pub fn mix_changes(shares: [f64; 3], secs: u32) -> Scenario {
    let arrivals = 1.2 * Phase::capacity(WORKERS, SLOW);
    let phase = |slow| Phase { secs, workers: WORKERS, slow, arrivals };
    let [first, second, third] = shares.map(|share| share * 100.0);
    Scenario {
        name: format!("{first} %, {second} %, {third} % of slow calls, load 1.2"),
        phases: shares.map(phase).to_vec(),
        changes_mix: true,
        file: format!("mix-{first}-{second}-{third}"),
    }
}

/// The scenarios of the guide.
#[must_use]
pub fn all(secs: u32) -> Vec<Scenario> {
    let mut all: Vec<_> = [0.5, 1.2, 3.0].map(|load| capacity_changes(load, secs)).into();
    all.extend(
        [[0.1, 0.6, 0.1], [0.4, 0.5, 0.6], [0.2, 0.3, 0.05]].map(|it| mix_changes(it, secs)),
    );
    all
}
