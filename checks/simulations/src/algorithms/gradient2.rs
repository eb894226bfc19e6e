//! Gradient2.

use leaparray::flow::adaptive::{EndedCall, LimitAlgorithm, LimitEvidence, LimitPlan, LimitRange};

use super::{clamp, float, floor};

/// `Gradient2` of Netflix's [concurrency-limits](https://github.com/Netflix/concurrency-limits).
///
/// With the gradient g = 1.5 · long/rt, from 0.5 to 1, where *long* is an exponential average of
/// about 600 response times, the limit L becomes 0.8 · L + 0.2 · (g · L + 4). It stays as it is
/// while less than half of it is in use. If the average is more than twice a response time, it is
/// multiplied by 0.95.
///
/// The average follows every change of the response time, also one that a queue has caused.
/// Therefore the limit grows to its maximum under lasting overload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gradient2 {
    range: LimitRange,
    limit: f64,
    long: LongAverage,
}

impl Gradient2 {
    const SMOOTHING: f64 = 0.2;
    const TOLERANCE: f64 = 1.5;
    const QUEUE: f64 = 4.0;

    /// Creates the algorithm.
    pub(super) fn new(range: LimitRange) -> Self {
        Self {
            range,
            limit: float(range.initial()),
            long: LongAverage { calls: 0, sum: 0.0, value: 0.0 },
        }
    }

    fn update(&mut self, call: &EndedCall) {
        let rt = call.response_time.as_secs_f64().max(1e-9);
        let long = self.long.add(rt);
        if long > 2.0 * rt {
            self.long.value *= 0.95;
        }
        if float(call.in_flight) < self.limit / 2.0 {
            return;
        }
        let gradient = (Self::TOLERANCE * long / rt).clamp(0.5, 1.0);
        let target = self.limit * gradient + Self::QUEUE;
        let limit = self.limit * (1.0 - Self::SMOOTHING) + target * Self::SMOOTHING;
        self.limit = clamp(self.range, limit);
    }
}

impl LimitAlgorithm for Gradient2 {
    fn highest_limit(&self) -> u64 {
        self.range.max()
    }

    fn first_plan(&mut self) -> LimitPlan {
        LimitPlan::each_call(floor(self.limit))
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        if let LimitEvidence::Call(call) = evidence {
            self.update(call);
        }
        LimitPlan::each_call(floor(self.limit))
    }
}

/// An exponential average over about 600 values. The first ten values count alike.
#[derive(Clone, Copy, Debug)]
struct LongAverage {
    calls: u32,
    /// The sum of the first response times.
    sum: f64,
    value: f64,
}

impl LongAverage {
    const WINDOW: f64 = 600.0;
    const FIRST: u32 = 10;

    fn add(&mut self, value: f64) -> f64 {
        if self.calls < Self::FIRST {
            self.calls += 1;
            self.sum += value;
            self.value = self.sum / f64::from(self.calls);
        } else {
            self.value += 2.0 / (Self::WINDOW + 1.0) * (value - self.value);
        }
        self.value
    }
}
