//! The algorithms that are compared: those of the crate, and published ones.

mod envoy;
mod gradient2;
mod vegas;

use std::time::Duration;

use leaparray::flow::adaptive::{
    Aimd, Headroom, LimitAlgorithm, LimitEvidence, LimitPlan, LimitRange,
};

use crate::backend::DEADLINE;
use envoy::EnvoyGradient;
use gradient2::Gradient2;
use vegas::Vegas;

/// A limit that does not change.
struct Fixed(u64);

impl LimitAlgorithm for Fixed {
    fn first_plan(&mut self) -> LimitPlan {
        LimitPlan::epoch(self.0, Duration::from_secs(3_600))
    }

    fn next_plan(&mut self, _evidence: &LimitEvidence<'_>) -> LimitPlan {
        self.first_plan()
    }
}

/// An algorithm, with its default settings unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The algorithm of the crate.
    Headroom,
    /// `Aimd`.
    Aimd,
    /// `Aimd` with the deadline of the calls as its time-out.
    AimdWithDeadline,
    /// `Gradient2` of Netflix's concurrency-limits, with the range of `Headroom`.
    Gradient2,
    /// `Vegas` of Netflix's concurrency-limits, with the range of `Headroom`.
    Vegas,
    /// The gradient controller of Envoy, with the range of `Headroom`.
    EnvoyGradient,
    /// A limit that does not change.
    Fixed(u64),
}

impl Algorithm {
    /// All algorithms of the crate.
    pub const ALL: [Self; 3] = [Self::Headroom, Self::Aimd, Self::AimdWithDeadline];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Headroom => "Headroom",
            Self::Aimd => "Aimd",
            Self::AimdWithDeadline => "Aimd, 100 ms",
            Self::Gradient2 => "Gradient2",
            Self::Vegas => "Vegas",
            Self::EnvoyGradient => "Envoy",
            Self::Fixed(_) => "fixed",
        }
    }

    /// Creates it.
    #[must_use]
    pub fn create(self) -> Box<dyn LimitAlgorithm> {
        match self {
            Self::Headroom => Box::new(Headroom::default()),
            Self::Aimd => Box::new(Aimd::default()),
            Self::AimdWithDeadline => Box::new(Aimd::default().timeout(DEADLINE)),
            other => other.of_range(range(1, 20, 10_000)),
        }
    }

    /// Creates it with a range, apart from a limit that does not change.
    #[must_use]
    pub fn of_range(self, range: LimitRange) -> Box<dyn LimitAlgorithm> {
        match self {
            Self::Headroom => Box::new(Headroom::new(range)),
            Self::Aimd => Box::new(Aimd::new(range)),
            Self::AimdWithDeadline => Box::new(Aimd::new(range).timeout(DEADLINE)),
            Self::Gradient2 => Box::new(Gradient2::new(range)),
            Self::Vegas => Box::new(Vegas::new(range)),
            Self::EnvoyGradient => Box::new(EnvoyGradient::new(range)),
            Self::Fixed(limit) => Box::new(Fixed(limit)),
        }
    }
}

fn range(min: u64, initial: u64, max: u64) -> LimitRange {
    LimitRange::new(min, initial, max).expect("a range")
}

fn clamp(range: LimitRange, limit: f64) -> f64 {
    limit.clamp(float(range.min()), float(range.max()))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within a range")]
fn floor(limit: f64) -> u64 {
    limit as u64
}

#[expect(clippy::cast_precision_loss, reason = "the nearest")]
fn float(number: u64) -> f64 {
    number as f64
}
