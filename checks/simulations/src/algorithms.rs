//! The algorithms that are compared.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray::flow::adaptive::{
    Aimd, Bbr, CpuLoad, Gradient2, Headroom, LimitAlgorithm, LimitEvidence, LimitPlan, Vegas,
};

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

/// The share of the workers that are busy, as the load of the processors. The simulation sets it.
#[derive(Clone, Debug, Default)]
pub struct BusyWorkers(Rc<Cell<f64>>);

impl BusyWorkers {
    /// Sets the share.
    pub fn set(&self, share: f64) {
        self.0.set(share);
    }
}

impl CpuLoad for BusyWorkers {
    fn load(&mut self, _now: Timestamp) -> Option<f64> {
        Some(self.0.get())
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
    /// `Vegas`.
    Vegas,
    /// `Gradient2`.
    Gradient2,
    /// `Bbr`, whose load is the share of the workers that are busy.
    Bbr,
    /// A limit that does not change.
    Fixed(u64),
}

impl Algorithm {
    /// All algorithms of the crate.
    pub const ALL: [Self; 6] = [
        Self::Headroom,
        Self::Aimd,
        Self::AimdWithDeadline,
        Self::Vegas,
        Self::Gradient2,
        Self::Bbr,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Headroom => "Headroom",
            Self::Aimd => "Aimd",
            Self::AimdWithDeadline => "Aimd, 100 ms",
            Self::Vegas => "Vegas",
            Self::Gradient2 => "Gradient2",
            Self::Bbr => "Bbr",
            Self::Fixed(_) => "fixed",
        }
    }

    /// Creates it.
    #[must_use]
    pub fn create(self, load: &BusyWorkers) -> Box<dyn LimitAlgorithm> {
        match self {
            Self::Headroom => Box::new(Headroom::default()),
            Self::Aimd => Box::new(Aimd::default()),
            Self::AimdWithDeadline => Box::new(Aimd::default().timeout(DEADLINE)),
            Self::Vegas => Box::new(Vegas::default()),
            Self::Gradient2 => Box::new(Gradient2::default()),
            Self::Bbr => Box::new(Bbr::new(load.clone())),
            Self::Fixed(limit) => Box::new(Fixed(limit)),
        }
    }
}
