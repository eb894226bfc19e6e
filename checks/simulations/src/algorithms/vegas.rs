//! Vegas.

use leaparray::flow::adaptive::{EndedCall, LimitAlgorithm, LimitEvidence, LimitPlan, LimitRange};

use super::{clamp, float, floor};

/// TCP Vegas for calls, as in Netflix's
/// [concurrency-limits](https://github.com/Netflix/concurrency-limits).
///
/// The number of queued calls is estimated as L · (1 − base/rt), where L is the limit and the base
/// is the shortest response time. With k = ⌊log₁₀ L⌋, at least 1, the limit grows by 6k if at most
/// k calls are queued, and by k if fewer than 3k are; it shrinks by k if more than 6k are, or after
/// an exception. It stays as it is while less than half of it is in use.
///
/// After 15 L to 30 L calls, the base is set to the next response time. A single long or short
/// response time may then be the base for many calls.
#[derive(Clone, Debug)]
pub(super) struct Vegas {
    range: LimitRange,
    random: fastrand::Rng,
    limit: f64,
    /// In nanoseconds; 0 before the first call.
    base: u128,
    calls: u64,
    /// From 0.5 to 1.
    jitter: f64,
}

impl Vegas {
    /// Creates the algorithm.
    pub(super) fn new(range: LimitRange) -> Self {
        let random = fastrand::Rng::with_seed(0);
        let mut made =
            Self { range, random, limit: float(range.initial()), base: 0, calls: 0, jitter: 1.0 };
        made.draw();
        made
    }

    fn draw(&mut self) {
        self.jitter = 0.5 + self.random.f64() / 2.0;
    }

    fn update(&mut self, call: &EndedCall) {
        let rt = call.response_time.as_nanos().max(1);
        self.calls += 1;
        if self.jitter * 30.0 * self.limit <= float(self.calls) {
            self.draw();
            (self.calls, self.base) = (0, rt);
        } else if self.base == 0 || rt < self.base {
            self.base = rt;
        } else {
            self.limit = clamp(self.range, self.limit + self.step(call, rt));
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the nearest")]
    fn step(&self, call: &EndedCall, rt: u128) -> f64 {
        let k = libm::log10(self.limit).floor().max(1.0);
        if call.is_exception {
            return -k;
        }
        if float(call.in_flight) * 2.0 < self.limit {
            return 0.0;
        }
        let queued = (self.limit * (1.0 - self.base as f64 / rt as f64)).ceil();
        if queued <= k {
            6.0 * k
        } else if queued < 3.0 * k {
            k
        } else if queued > 6.0 * k {
            -k
        } else {
            0.0
        }
    }
}

impl LimitAlgorithm for Vegas {
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
