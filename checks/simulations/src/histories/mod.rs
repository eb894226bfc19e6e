//! Random histories of an adaptive limiter, each followed by health.
//!
//! A [`History`] is a past of any kind, and a [`Stage`] in which the backend is healthy. The
//! property: once the [settling time](Stage::settling_time) of the healthy stage is over, the
//! goodput is at least [`Verdict::GOODPUT`] times the goodput of the best fixed limit, and hardly a
//! call is refused while workers are idle. [`search`](search()) draws histories, and shrinks one
//! that breaks the property. Each run has the same result for its seed.

pub mod controllers;
mod history;
mod lengths;
pub mod rules;
mod search;
pub mod traps;
mod verdict;
mod world;

pub use history::{Asks, Failures, History, Range, Stage};
pub use lengths::Lengths;
pub(crate) use search::shrunk;
pub use search::{Found, search, shrink};
pub use verdict::{Verdict, judge};
pub use world::Counts;

/// The maker of an algorithm with a range.
pub type Maker<'a> = &'a dyn Fn(
    leaparray::flow::adaptive::LimitRange,
) -> Box<dyn leaparray::flow::adaptive::LimitAlgorithm>;
