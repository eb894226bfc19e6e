//! What others cost: crates from the registry, and the stand-ins.

mod crates;
mod ours;
mod rings;

use leaparray::MonotonicClock;

use crate::harness::Suite;
use crate::scenarios::thread_counts;

/// Who is measured beside the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// What it is, and what a rate of it would be.
    pub(crate) what: &'static str,
    /// Whether it is in the plot of the cost against threads.
    pub(crate) in_threads_plot: bool,
}

/// In the order of the tables.
pub(crate) const ALL: [&Peer; 11] = [
    &ours::PRECISE,
    &ours::CACHED,
    &rings::MUTEX,
    &rings::RWLOCK,
    &rings::STRIPED,
    &crates::SENTINEL,
    &crates::PROMETHEUS,
    &crates::PROMETHEUS_CLIENT,
    &crates::METRICS,
    &crates::GOVERNOR_ADMITTED,
    &crates::GOVERNOR_REFUSED,
];

/// The response time that a finished request has, in nanoseconds.
const RT_NANOS: u64 = 250_000;

impl Peer {
    pub(crate) fn record(&self) -> String {
        format!("{}: one event", self.name)
    }

    pub(crate) fn request(&self) -> String {
        format!("{}: a finished request", self.name)
    }

    pub(crate) fn rate(&self) -> String {
        format!("{}: rate", self.name)
    }

    pub(crate) fn rate_beside(&self) -> String {
        format!("{}: rate beside a writer", self.name)
    }

    fn add_record(&self, suite: &mut Suite, cores: usize, op: impl Fn() + Sync + Clone + 'static) {
        let counts = if self.in_threads_plot { thread_counts(cores) } else { vec![1, 2] };
        for threads in counts {
            let op = op.clone();
            suite.add(&self.record(), threads, move |_| op());
        }
    }

    fn add_request(&self, suite: &mut Suite, op: impl Fn() + Sync + Clone + 'static) {
        for threads in [1, 2] {
            let op = op.clone();
            suite.add(&self.request(), threads, move |_| op());
        }
    }

    /// `fill` has something in each bucket that is read, where the peer can be given the time.
    fn add_rate(
        &self,
        suite: &mut Suite,
        read: impl Fn() -> f64 + Sync + Clone + 'static,
        fill: impl Fn() + Sync + Clone + 'static,
        write: impl Fn() + Sync + 'static,
    ) {
        // A window that goes by the clock would be empty after a second of reading.
        let read = move |number| {
            if number % 1_024 == 0 {
                fill();
            }
            read()
        };
        suite.add(&self.rate(), 1, read.clone());
        suite.add_beside(&self.rate_beside(), read, write);
    }
}

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock, cores: usize) -> Upkeep {
    ours::add(suite, clock, cores);
    rings::add(suite, clock, cores);
    crates::add(suite, cores)
}

pub(crate) use crates::{Upkeep, governor_plenty, governor_used_up};
