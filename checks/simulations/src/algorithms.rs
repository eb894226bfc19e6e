//! The algorithms that are compared.

use std::time::Duration;

use leaparray::flow::adaptive::{Aimd, Headroom, LimitAlgorithm, LimitEvidence, LimitPlan};

use crate::backend::DEADLINE;

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
            Self::Fixed(limit) => Box::new(Fixed(limit)),
        }
    }
}
