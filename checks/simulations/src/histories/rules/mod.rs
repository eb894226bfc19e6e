//! Random histories of rules that are changed while requests hold permits.
//!
//! A [`History`] has files of windows, buckets, paces, warm-ups, limits in flight with and without
//! classes and tenants, breakers, keys, contexts and shadows; changes of numbers, shares and kinds,
//! rules that go, come back or get another name; and requests, also in the middle of a change. The
//! property: each decision, and each wait, is the one of a plain reference, which does what the
//! documentation of `Rules` and of the limiters says. Of limits and breakers that adapt themselves,
//! the reference has bounds alone: what it does not know may be either. So
//!
//! - a rule whose numbers alone change keeps its state, and no interval has more than the larger of
//!   two limits;
//! - a permit ends at the limiter that has given it, and none is lost: after all requests have
//!   ended, each limit admits as many as a new one;
//! - no request is refused while each rule of its version has a free permit;
//! - no request is admitted by half of two versions;
//! - a pace keeps its due times, a service stays as warm as it is, and a debt takes its time;
//! - tenants share a limit in flight by their weights, for as long as they are hungry. A share that
//!   is no whole number is rounded in one way for a tenant in an epoch. After a request beside a
//!   change, the reference keeps each course that the epochs may have taken;
//! - an adaptive limit admits up to the lowest limit of its range, and never beyond the highest;
//! - an adaptive breaker drops no request while nothing speaks against the backend.
//!
//! Beside the reference, `bounds` checks the first of these from the admitted requests alone.

mod between;
mod bounds;
mod breaker;
mod draw;
mod file;
mod history;
mod limiter;
mod model;
mod pace;
mod run;
mod tenants;
mod twice;
mod warm_up;

pub use file::{Key, Limit, Mode, Rule, Shares, Weights};
pub use history::{Action, History, Middle, Request, Step, Way};
pub use run::Difference;

use super::search::shrunk;

/// A history in which the rules differ from the reference.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed that drew it.
    pub seed: u64,
    /// The history, shrunk.
    pub history: History,
    /// The first difference.
    pub difference: Difference,
}

/// Plays a history to rules, and returns the first difference from the reference.
#[must_use]
pub fn judge(history: &History) -> Option<Difference> {
    run::run(history).err()
}

/// Draws a history for each seed, and returns the first one with a difference, shrunk.
#[must_use]
pub fn search(seeds: impl IntoIterator<Item = u64>) -> Option<Found> {
    seeds.into_iter().find_map(|seed| {
        let history = History::random(seed);
        let difference = judge(&history)?;
        let (history, difference) = shrunk(history, difference, History::simpler, judge);
        Some(Found { seed, history, difference })
    })
}
