//! The changes of the backend.

use std::time::Duration;

use crate::backend::{Phase, Slowness};

/// Phases, and a name.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name on the page.
    pub name: String,
    /// Its phases, each of the same length.
    pub phases: Vec<Phase>,
    /// The goal of `Headroom`.
    pub goal: Goal,
}

/// The scores that `Headroom` has to reach in each phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At least this goodput, at most 1.2 × the quantile 0.99, settled within 2 s, and a limit as
    /// for `Idle`.
    Follows(f64),
    /// At least this goodput.
    Goodput(f64),
    /// A limit of at most 3 × the mean of the calls in flight, or of at most 30: 1.5 × the first
    /// limit.
    Idle,
    /// None: the scenario shows the limits of the algorithm.
    None,
}

const WORKERS: u32 = 64;
const SLOW: f64 = 0.1;

/// The number of workers falls to a quarter, and rises again. `load` is the arrivals as a share of
/// the capacity of all workers.
#[must_use]
pub fn capacity_changes(load: f64, secs: u32) -> Scenario {
    let arrivals = load * Phase::capacity(WORKERS, SLOW);
    let phase =
        |workers| Phase { secs, scale: 1, workers, slow: SLOW, arrivals, slowness: Slowness::NONE };
    Scenario {
        name: format!("capacity ÷ 4 and × 4, load {load}"),
        phases: [WORKERS, WORKERS / 4, WORKERS].map(phase).to_vec(),
        goal: Goal::Follows(0.97),
    }
}

/// The share of slow calls changes, at 1.2 × the capacity of the first mix of the usual scenario.
#[must_use]
pub fn mix_changes(shares: [f64; 3], secs: u32) -> Scenario {
    let arrivals = 1.2 * Phase::capacity(WORKERS, SLOW);
    let phase =
        |slow| Phase { secs, scale: 1, workers: WORKERS, slow, arrivals, slowness: Slowness::NONE };
    let [first, second, third] = shares.map(|share| share * 100.0);
    Scenario {
        name: format!("{first} %, {second} %, {third} % of slow calls, load 1.2"),
        phases: shares.map(phase).to_vec(),
        goal: Goal::Follows(0.92),
    }
}

/// The capacity changes as in [`capacity_changes`] at a load of 1.2, with another number of
/// workers, and with longer calls.
#[must_use]
pub fn sizes(workers: u32, scale: u32, secs: u32) -> Scenario {
    let arrivals = 1.2 * Phase::capacity(workers, SLOW);
    let phase =
        |workers| Phase { secs, scale, workers, slow: SLOW, arrivals, slowness: Slowness::NONE };
    let fast = 5 * scale;
    Scenario {
        name: format!("{workers} workers, calls of {fast} and {} ms, load 1.2", fast * 10),
        phases: [workers, workers / 4, workers].map(phase).to_vec(),
        goal: if workers == WORKERS { Goal::Follows(0.97) } else { Goal::None },
    }
}

/// The load falls to a tenth of the capacity, and to a hundredth.
#[must_use]
pub fn idle(secs: u32) -> Scenario {
    let capacity = Phase::capacity(WORKERS, SLOW);
    let phase = |load| {
        let (arrivals, slowness) = (load * capacity, Slowness::NONE);
        Phase { secs, scale: 1, workers: WORKERS, slow: SLOW, arrivals, slowness }
    };
    Scenario {
        name: "loads of 1.2, 0.1 and 0.01".to_owned(),
        phases: [1.2, 0.1, 0.01].map(phase).to_vec(),
        goal: Goal::Idle,
    }
}

/// A backend with more workers than calls, all of which are slower at times: by 1.5 in 30 % of
/// periods of 200 ms, by 2 in 30 % of them, and by 1.5 in half of the seconds.
#[must_use]
pub fn slow_at_times(secs: u32) -> Scenario {
    let arrivals = 0.8 * Phase::capacity(WORKERS, SLOW);
    let phase = |(factor, share, millis)| {
        let slowness = Slowness { factor, share, period: Duration::from_millis(millis) };
        Phase { secs, scale: 1, workers: 1_000, slow: SLOW, arrivals, slowness }
    };
    Scenario {
        name: "1,000 workers that are slower at times, load 0.8 of 64 of them".to_owned(),
        phases: [(1.5, 0.3, 200), (2.0, 0.3, 200), (1.5, 0.5, 1_000)].map(phase).to_vec(),
        goal: Goal::Goodput(0.9),
    }
}

/// The scenarios of the page.
#[must_use]
pub fn all(secs: u32) -> Vec<Scenario> {
    let mut all: Vec<_> = [0.5, 1.2, 3.0].map(|load| capacity_changes(load, secs)).into();
    all.extend(
        [[0.1, 0.6, 0.1], [0.4, 0.5, 0.6], [0.2, 0.3, 0.05]].map(|it| mix_changes(it, secs)),
    );
    all.extend([idle(secs), slow_at_times(secs)]);
    all.extend([(8, 1), (16, 1), (400, 1), (64, 10), (64, 100)].map(|it| sizes(it.0, it.1, secs)));
    all
}
