//! The comparison with what the limit allows.

use super::course::Course;
use super::subject::{Base, Way, float};
use super::world::{Counts, simulate};

/// The result of a course in its judged time.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The goodput, as a share of what the limit allows.
    pub goodput: f64,
    /// The first violation of a property, if there was one.
    pub broken: Option<String>,
}

impl Verdict {
    /// The least goodput.
    pub const GOODPUT: f64 = 0.97;

    /// Returns whether the property holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.goodput >= Self::GOODPUT && self.broken.is_none()
    }
}

/// Runs a course, and a new limiter beside it where that tells what the limit allows.
#[must_use]
pub fn judge(course: &Course, seed: u64) -> Verdict {
    let (counts, broken) = simulate(course, seed);
    let allowed = allowed(course, &counts, seed);
    let has = match course.subject.base {
        Base::Concurrency(_) | Base::Adaptive(_) => counts.work,
        _ => float(counts.admitted),
    };
    Verdict { goodput: if allowed > 0.0 { has / allowed } else { 1.0 }, broken }
}

fn allowed(course: &Course, counts: &Counts, seed: u64) -> f64 {
    let base = course.subject.base;
    let judged = course.judged_time().as_secs_f64();
    let heaviest = course.health.weights[1];
    match (base, course.subject.way) {
        (Base::Circuit(_) | Base::Breaker(_), _) => float(counts.offered),
        (Base::Adaptive(_), _) => counts.offered_work,
        (Base::Concurrency(limit), Way::Queue { .. }) => {
            counts.offered_work.min(float(limit + 1 - heaviest) * judged)
        }
        (_, Way::Queue { .. }) => {
            let rate = base.rate().expect("the others are of a rate");
            float(counts.offered).min(rate * judged * (1.0 - base.lost_to(heaviest)))
        }
        _ if course.past.is_empty() => 0.0,
        _ => {
            let mut new = Course { past: Vec::new(), ..course.clone() };
            new.health.length = course.health.length;
            let from = course.settling_time();
            let (fresh, _) = super::world::simulate_from(&new, from, seed);
            match base {
                Base::Concurrency(_) => fresh.work,
                _ => float(fresh.admitted),
            }
        }
    }
}
