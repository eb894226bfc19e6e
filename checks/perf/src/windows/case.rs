//! The cases: a fleet, and what it records.

use std::fmt;

use leaparray_redis::fleet::Budget;

/// A fleet in which every process has requests to every resource in every second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) processes: u32,
    pub(super) resources: usize,
    /// The mean number of requests to a resource in a second, in a process. Each resource has one
    /// at least.
    pub(super) requests: f64,
    pub(super) budget: Budget,
    pub(super) times: Times,
}

/// The stages of a case, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    /// The processes join one after the other.
    pub(super) join: u64,
    /// The memory grows until the first seconds expire.
    pub(super) fill: u64,
    pub(super) measure: u64,
}

impl Times {
    /// A second expires 100 s after its end, by the default settings.
    const FULL: Self = Self { join: 10, fill: 105, measure: 30 };
    const QUICK: Self = Self { join: 2, fill: 4, measure: 5 };
}

/// The mean numbers of requests to a resource in a second.
const REQUESTS: [f64; 3] = [1.0, 10.0, 100.0];

/// Returns the cases: a thousand processes with a thousand resources each, or a smoke test.
pub(super) fn all(is_quick: bool) -> Vec<Case> {
    let (processes, resources, times) =
        if is_quick { (20, 50, Times::QUICK) } else { (1_000, 1_000, Times::FULL) };
    let case = |requests| Case { processes, resources, requests, budget: Budget::default(), times };
    REQUESTS.map(case).into()
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, resources, requests, .. } = self;
        write!(f, "{processes} processes, {resources} resources, {requests} requests")
    }
}
