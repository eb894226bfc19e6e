//! The peers: crates from the registry, each measured by its ordinary interface and its own clock,
//! and stand-ins for libraries of other languages.

mod crates;
mod ours;
mod rings;

pub(crate) use crates::{Upkeep, governor_plenty, governor_used_up};

use leaparray::MonotonicClock;

use crate::harness::Suite;
use crate::scenarios::crowd::Crowd;
use crate::timed::{on_threads, with_writer};

/// A peer, or this crate with one of its clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
}

/// The operations of the peers. One event is a pass, an increment, or a check. A finished request
/// is a success with its response time.
pub(crate) const EVENT: &str = "one event";
pub(crate) const REQUEST: &str = "a finished request";
pub(crate) const RATE: &str = "rate";
pub(crate) const RATE_WITH_WRITER: &str = "rate, concurrent writer";

/// The response time of a finished request, in nanoseconds.
const RT_NANOS: u64 = 250_000;

pub(crate) fn add(suite: &mut Suite, clock: &MonotonicClock) -> Upkeep {
    ours::add(suite, clock);
    rings::add(suite, clock);
    crates::add(suite)
}

impl Peer {
    /// Returns the name of the case that measures the operation.
    pub(crate) fn case(&self, operation: &str) -> String {
        format!("{}: {operation}", self.name)
    }

    fn add(&self, suite: &mut Suite, operation: &str, op: impl Fn() + Sync + Clone + 'static) {
        for threads in [1, 2] {
            let op = op.clone();
            suite.add(&self.case(operation), threads, move |_| op());
        }
    }

    /// Adds all cases of a peer with a window. `fill` records in each bucket that `rate` reads. The
    /// rates are read from a window of their own, in which only the threads of these cases record.
    fn add_window<W: Clone + Sync + 'static>(
        &self,
        suite: &mut Suite,
        make: impl Fn() -> W,
        record: impl Fn(&W) + Copy + Sync + 'static,
        finish: impl Fn(&W) + Copy + Sync + 'static,
        rate: impl Fn(&W) -> f64 + Copy + Sync + 'static,
        fill: impl Fn(&W) + Copy + Sync + 'static,
    ) {
        let (events, requests) = (make(), make());
        self.add(suite, EVENT, move || record(&events));
        self.add(suite, REQUEST, move || finish(&requests));
        let read = make();
        let written = read.clone();
        // Without `fill`, a window with a real clock would be empty after a second of reading.
        let read = move |number| {
            if number % 1_024 == 0 {
                fill(&read);
            }
            rate(&read)
        };
        suite.add(&self.case(RATE), 1, read.clone());
        let read_with_writer = move |iters, first| {
            let elapsed = with_writer(&|| record(&written), || on_threads(1, iters, first, &read));
            elapsed.map(|elapsed| elapsed.wall)
        };
        suite.add_run(&self.case(RATE_WITH_WRITER), Crowd::of(1), 1, read_with_writer);
    }
}
