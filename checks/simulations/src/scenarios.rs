//! The changes of the backend.

use crate::backend::Phase;

/// Phases, and a name.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The heading on the page.
    pub name: String,
    /// Its phases, each of the same length.
    pub phases: Vec<Phase>,
    /// The goal of `Headroom`: its least goodput. `None` for a scenario without a goal, which shows the limits of the algorithm.
    pub goal: Option<f64>,
    /// The name of its plot.
    pub file: String,
}

const WORKERS: u32 = 64;
const SLOW: f64 = 0.1;

/// The number of workers falls to a quarter, and rises again. `load` is the arrivals as a share of the capacity of all workers.
#[must_use]
pub fn capacity_changes(load: f64, secs: u32) -> Scenario {
    let arrivals = load * Phase::capacity(WORKERS, SLOW);
    let phase = |workers| Phase { secs, scale: 1, workers, slow: SLOW, arrivals };
    Scenario {
        name: format!("capacity ÷ 4 and × 4, load {load}"),
        phases: [WORKERS, WORKERS / 4, WORKERS].map(phase).to_vec(),
        goal: Some(0.97),
        file: format!("capacity-{}", load * 10.0),
    }
}

/// The share of slow calls changes, at 1.2 × the capacity of the first mix of the usual scenario.
#[must_use]
pub fn mix_changes(shares: [f64; 3], secs: u32) -> Scenario {
    let arrivals = 1.2 * Phase::capacity(WORKERS, SLOW);
    let phase = |slow| Phase { secs, scale: 1, workers: WORKERS, slow, arrivals };
    let [first, second, third] = shares.map(|share| share * 100.0);
    Scenario {
        name: format!("{first} %, {second} %, {third} % of slow calls, load 1.2"),
        phases: shares.map(phase).to_vec(),
        goal: Some(0.92),
        file: format!("mix-{first}-{second}-{third}"),
    }
}

/// The capacity changes as in [`capacity_changes`] at a load of 1.2, with another number of workers, and with longer calls.
#[must_use]
pub fn sizes(workers: u32, scale: u32, secs: u32) -> Scenario {
    let arrivals = 1.2 * Phase::capacity(workers, SLOW);
    let phase = |workers| Phase { secs, scale, workers, slow: SLOW, arrivals };
    let fast = 5 * scale;
    Scenario {
        name: format!("{workers} workers, calls of {fast} and {} ms, load 1.2", fast * 10),
        phases: [workers, workers / 4, workers].map(phase).to_vec(),
        goal: (workers == WORKERS).then_some(0.97),
        file: format!("size-{workers}-{scale}"),
    }
}

/// The scenarios of the page.
#[must_use]
pub fn all(secs: u32) -> Vec<Scenario> {
    let mut all: Vec<_> = [0.5, 1.2, 3.0].map(|load| capacity_changes(load, secs)).into();
    all.extend(
        [[0.1, 0.6, 0.1], [0.4, 0.5, 0.6], [0.2, 0.3, 0.05]].map(|it| mix_changes(it, secs)),
    );
    all.extend([(8, 1), (16, 1), (400, 1), (64, 10), (64, 100)].map(|it| sizes(it.0, it.1, secs)));
    all
}
