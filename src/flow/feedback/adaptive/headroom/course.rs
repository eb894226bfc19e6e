//! The course of the trials.

use std::time::Duration;

use super::super::algorithm::{LimitAlgorithm, LimitEvidence, LimitPlan};
use super::super::range::{float, floor};
use super::profile::Profile;
use super::{Headroom, Stage};

impl Headroom {
    /// The shortest measurement and the shortest wait: plans of very short calls would take too
    /// much of the processor.
    const SHORTEST: Duration = Duration::from_millis(20);
    const SHORTEST_WAIT: Duration = Duration::from_millis(1);
    /// A trial ends by its calls. This bounds it if none come.
    const LONGEST: Duration = Duration::from_secs(86_400);
    /// The permits taken in a measurement, as a multiple of the mean of limit and capacity.
    const TURNOVERS: f64 = 2.0;
    /// The most calls that a trial measures for one that tells how long calls take.
    const MOST_FOR_ONE: f64 = 1_000.0;

    /// Begins the measurement of a trial, in a dip if one is due.
    fn measure(&mut self) -> LimitPlan {
        self.stage = Stage::Measures;
        self.dip = self.next_dip();
        let limit = self.dip.unwrap_or(floor(self.limit));
        // The calls that begin while the permits of the limit come into use tell less, and a limit
        // far above the capacity has a long turnover.
        let turnover = f64::midpoint(float(limit), self.capacity);
        let permits = floor((Self::TURNOVERS * turnover).ceil());
        let calls = floor((float(Profile::CALLS) * self.calls_for_one).ceil());
        LimitPlan::epoch(limit, Self::SHORTEST).until_permits(calls, permits, Self::LONGEST)
    }

    /// Waits at the limit for the calls that were measured: as long as they were measured, so that
    /// few of them are cut short, and until half of them have ended.
    fn wait(&mut self, measured: Duration) -> LimitPlan {
        self.stage = Stage::Waits;
        LimitPlan::epoch(floor(self.limit), Self::SHORTEST_WAIT)
            .until_ended(measured, Self::LONGEST)
    }

    fn next_dip(&self) -> Option<u64> {
        self.high.filter(|_| self.rest.is_zero())?;
        let dip = floor(self.range.clamp(Self::DIP * self.capacity));
        (dip < floor(self.limit)).then_some(dip)
    }
}

impl LimitAlgorithm for Headroom {
    fn highest_limit(&self) -> u64 {
        self.range.max()
    }

    fn first_plan(&mut self) -> LimitPlan {
        let plan = self.measure();
        // The first evidence comes after two epochs with this plan, and is about the first one.
        self.stage = Stage::Waits;
        plan
    }

    fn resume(&mut self, limit: u64) -> LimitPlan {
        self.limit = self.range.clamp(float(limit));
        self.capacity = Self::SEARCH * self.limit;
        self.first_plan()
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        let LimitEvidence::Epoch(epoch) = evidence else { return self.measure() };
        if let Stage::Measures = self.stage {
            self.was_reached = epoch.peak_in_flight >= epoch.limit;
            // The measured epoch begins where the wait before it, of which this evidence is, ended.
            return self.wait(epoch.now.saturating_since(epoch.end));
        }
        let (all, telling) = (epoch.begun + epoch.cancelled.count(), Profile::calls_of(epoch));
        self.calls_for_one = if telling >= Profile::CALLS {
            float(all) / float(telling)
        } else {
            (2.0 * self.calls_for_one).min(Self::MOST_FOR_ONE)
        };
        match self.dip.take() {
            Some(dip) => self.end_dip(dip, epoch),
            None => self.end_trial(epoch),
        }
        self.measure()
    }
}
