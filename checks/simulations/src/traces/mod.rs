//! Traces with the shape of real load, and each limit and each breaker on them beside a plain
//! reference: a log of what was admitted, a level in whole numbers, a list of calls.
//!
//! A reference gets the decisions of the controller, and says of the next request whether it has to
//! be admitted, has to be refused, or may be either. So one wrong decision counts once.

mod breakers;
mod headroom;
mod limits;
mod references;
mod report;
mod shape;

pub use breakers::{Breaker, breaker};
pub use headroom::{Goodput, headroom};
pub use limits::{Limit, limit};
pub use report::{Results, run_all, section};
pub use shape::{Request, Shape};

/// The decisions of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The requests, each as often as it has asked.
    pub requests: u64,
    /// Those that were admitted, at once or after a wait.
    pub admitted: u64,
    /// Those that were admitted, though the reference refuses them.
    pub over: u64,
    /// Those that were refused, though the reference admits them.
    pub short: u64,
}

impl Tally {
    fn count(&mut self, is_admitted: bool, expected: Expected) {
        self.requests += 1;
        self.admitted += u64::from(is_admitted);
        self.over += u64::from(is_admitted && expected == Expected::Refused);
        self.short += u64::from(!is_admitted && expected == Expected::Admitted);
    }

    /// Returns the share of the requests that were admitted.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of a simulation")]
    pub fn admitted_share(&self) -> f64 {
        self.admitted as f64 / self.requests as f64
    }
}

/// The decision of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Admitted,
    Refused,
    /// The documentation allows both, such as within a few nanoseconds of rounding.
    Either,
}

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
