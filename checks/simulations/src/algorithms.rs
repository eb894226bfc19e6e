//! The algorithms that are compared.

use std::time::Duration;

use leaparray::flow::{
    Aimd, Bbr, FixedCpuLoad, Gradient2, Headroom, LimitAlgorithm, LimitEvidence, LimitPlan, Vegas,
};

/// A limit that does not change.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub u64);

impl LimitAlgorithm for Fixed {
    fn first_plan(&mut self) -> LimitPlan {
        LimitPlan::epoch(self.0, Duration::from_secs(3_600))
    }

    fn next_plan(&mut self, _evidence: &LimitEvidence<'_>) -> LimitPlan {
        self.first_plan()
    }
}

/// An algorithm and its name.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// The name of its type.
    pub name: &'static str,
    /// Creates it.
    pub create: fn() -> Box<dyn LimitAlgorithm>,
}

/// The algorithm of the crate, with its default settings.
pub const HEADROOM: Algorithm =
    Algorithm { name: "Headroom", create: || Box::new(Headroom::default()) };

/// All algorithms of the crate, with their default settings, and `Aimd` also with the deadline of the calls as its time-out. `Bbr` is
/// told that its processors are always busy.
pub const ALL: [Algorithm; 6] = [
    HEADROOM,
    Algorithm { name: "Aimd", create: || Box::new(Aimd::default()) },
    Algorithm {
        name: "Aimd, 100 ms",
        create: || Box::new(Aimd::default().timeout(Duration::from_millis(100))),
    },
    Algorithm { name: "Vegas", create: || Box::new(Vegas::default()) },
    Algorithm { name: "Gradient2", create: || Box::new(Gradient2::default()) },
    Algorithm { name: "Bbr", create: || Box::new(Bbr::new(FixedCpuLoad(1.0))) },
];
