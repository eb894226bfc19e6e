//! The gradient controller of Envoy.

use std::time::Duration;

use leaparray::flow::adaptive::{EpochCalls, LimitAlgorithm, LimitEvidence, LimitPlan, LimitRange};

use super::{clamp, float, floor};

/// The gradient controller of Envoy's [adaptive
/// concurrency](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/adaptive_concurrency_filter),
/// after its description, with the defaults and the values of its example.
///
/// Each minute, and after five windows at the lowest limit, it measures the *minRTT*: the median
/// response time of 50 calls at a limit of 3. In each window of 100 ms, with the gradient g =
/// 1.25 · minRTT / median, from 0.5 to 2, the limit L becomes g · L + √(g · L). The jitter of the
/// minute is left out: there is one limiter.
#[derive(Clone, Debug)]
pub(super) struct EnvoyGradient {
    range: LimitRange,
    limit: f64,
    /// In seconds.
    min_rtt: f64,
    stage: Stage,
    windows: u32,
    windows_at_lowest: u32,
}

/// What the current epoch is for. An algorithm is told of an epoch at the end of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its calls are those of the minRTT.
    Measures,
    /// The calls of the minRTT end.
    Waits,
    Samples,
}

impl EnvoyGradient {
    const WINDOW: Duration = Duration::from_millis(100);
    /// A minute.
    const WINDOWS: u32 = 600;
    const WINDOWS_AT_LOWEST: u32 = 5;
    const CALLS: u64 = 50;
    const BUFFER: f64 = 1.25;
    const LONGEST: Duration = Duration::from_secs(86_400);

    pub(super) fn new(range: LimitRange) -> Self {
        Self {
            range,
            limit: float(range.initial()),
            min_rtt: 0.0,
            stage: Stage::Measures,
            windows: 0,
            windows_at_lowest: 0,
        }
    }

    fn lowest(&self) -> f64 {
        clamp(self.range, 3.0)
    }

    fn measure(&mut self) -> LimitPlan {
        (self.stage, self.windows, self.windows_at_lowest) = (Stage::Measures, 0, 0);
        LimitPlan::epoch(floor(self.lowest()), Duration::from_millis(1))
            .until_calls(Self::CALLS, Self::LONGEST)
    }

    fn wait(&mut self) -> LimitPlan {
        self.stage = Stage::Waits;
        LimitPlan::epoch(floor(self.lowest()), Duration::from_millis(1))
            .until_ended(Self::LONGEST, Self::LONGEST)
    }

    fn sample(&mut self) -> LimitPlan {
        self.stage = Stage::Samples;
        LimitPlan::epoch(floor(self.limit), Self::WINDOW)
    }

    fn update(&mut self, epoch: &EpochCalls<'_>) {
        let Some(rtt) = epoch.response_times.quantile_as_secs_f64(0.5) else { return };
        let gradient = (Self::BUFFER * self.min_rtt / rtt).clamp(0.5, 2.0);
        let limit = gradient * self.limit;
        self.limit = clamp(self.range, limit + limit.sqrt()).max(self.lowest());
        let is_lowest = self.limit <= self.lowest();
        self.windows_at_lowest = if is_lowest { self.windows_at_lowest + 1 } else { 0 };
    }
}

impl LimitAlgorithm for EnvoyGradient {
    fn highest_limit(&self) -> u64 {
        self.range.max()
    }

    fn first_plan(&mut self) -> LimitPlan {
        let plan = self.measure();
        // The first evidence comes after two epochs with this plan, and is about the first one.
        self.stage = Stage::Waits;
        plan
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        let LimitEvidence::Epoch(epoch) = evidence else { return self.measure() };
        match self.stage {
            Stage::Measures => return self.wait(),
            Stage::Waits => {
                if let Some(rtt) = epoch.response_times.quantile_as_secs_f64(0.5) {
                    self.min_rtt = rtt;
                }
            }
            Stage::Samples => {
                self.windows += 1;
                // The first one tells of the wait before.
                if self.windows > 1 {
                    self.update(epoch);
                }
            }
        }
        if self.windows >= Self::WINDOWS || self.windows_at_lowest >= Self::WINDOWS_AT_LOWEST {
            self.measure()
        } else {
            self.sample()
        }
    }
}
