//! Random histories of breakers, of limits by time and in flight, of keyed limiters, and of queues
//! over each of them, each followed by health.
//!
//! A [`Course`] is a [`Subject`], a past of any kind, and a [`Period`] of health. The property:
//! once the [settling time](Course::settling_time) of the subject is over,
//!
//! - the goodput is at least [`Verdict::GOODPUT`] times the one that the limit allows. Without a
//!   queue, that is the goodput of a new limiter, and a breaker in health refuses no request;
//! - a queue lets no request wait that its limiter would admit;
//! - and at the end, a breaker is closed, a queue is empty, and each permit was given back once.
//!
//! At all times, a peek foretells the decision, a shown state can be set, and a request that comes
//! again when its refusal says so is admitted if no other request came.

mod course;
mod executor;
mod random;
mod subject;
mod verdict;
mod world;

pub use course::{Course, Outcomes, Period, Step};
pub use subject::{Base, Breaker, Circuit, Rule, Subject, Way};
pub use verdict::{Verdict, judge};

use super::search::shrunk;

/// A family of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Circuit breakers of each kind of rule.
    Circuits,
    /// Adaptive breakers.
    Breakers,
    /// Limits that are asked directly: of a service that warms up, and the others.
    Limits,
    /// Limiters of keys.
    Keys,
    /// Queues over each kind of limiter.
    Queues,
}

impl Family {
    /// Each family.
    pub const ALL: [Self; 5] =
        [Self::Circuits, Self::Breakers, Self::Limits, Self::Keys, Self::Queues];
}

/// A course that breaks the property.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed that drew it, and of its requests.
    pub seed: u64,
    /// The course, shrunk.
    pub course: Course,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// Draws a course of a family for each seed, and returns the first one that breaks the property,
/// shrunk.
#[must_use]
pub fn search(family: Family, seeds: impl IntoIterator<Item = u64>) -> Option<Found> {
    seeds.into_iter().find_map(|seed| {
        let course = Course::random(family, seed);
        let breaks = |course: &Course| Some(judge(course, seed)).filter(|it| !it.holds());
        let verdict = breaks(&course)?;
        let (course, verdict) = shrunk(course, verdict, Course::simpler, breaks);
        Some(Found { seed, course, verdict })
    })
}
