//! One limit over a fleet of nodes, by discrete events.
//!
//! Requests arrive at nodes, a [`Strategy`] decides on them, and an observer counts. A run depends
//! on its [`Scenario`] and its seed alone, and all strategies see the same requests: demand,
//! network, faults and clocks draw from generators of their own.
//!
//! | module | contents |
//! |---|---|
//! | `scenario` | the fleet and its faults |
//! | `world`, `run` | the state that all strategies share, and the loop |
//! | `demand`, `network`, `clock`, `server` | the surroundings: requests, messages, the nodes' clocks, a server and its replica |
//! | `leases`, `round_trips`, `shares`, `counts` | the strategies |
//! | `window`, `observed` | counts of a sliding window, and the results |
//! | `cases`, `report` | the runs, and their section of the page |
//! | `search` | random scenarios |

mod cases;
mod clock;
mod counts;
mod demand;
mod leases;
mod network;
mod observed;
pub mod report;
mod round_trips;
mod run;
mod scenario;
pub mod search;
mod server;
mod shares;
mod window;
mod world;

pub use cases::{Case, Results, all, run as run_all};
pub use observed::Observed;
pub use run::simulate;
pub use scenario::{Failover, Faults, RoundTrips, Scenario, Sizes, Strategy, Waits};

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}

/// A request that waits, or is decided.
#[derive(Clone, Copy, Debug)]
struct Request {
    node: usize,
    /// When it arrived.
    since: u64,
    /// Its permits.
    size: u64,
}

/// Draws the time to the next of events that come at random, in microseconds. The logarithm is of
/// `libm`, not of the system, so that all machines get the same result.
pub(crate) fn gap(random: &mut fastrand::Rng, per_second: f64) -> u64 {
    whole(-libm::log(1.0 - random.f64()) * 1e6 / per_second).max(1)
}

/// Returns a time in microseconds.
fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
