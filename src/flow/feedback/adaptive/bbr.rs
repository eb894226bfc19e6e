//! The limit of Kratos's BBR.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::algorithm::{EpochCalls, LimitAlgorithm, LimitEvidence, LimitPlan};
use super::cpu::CpuLoad;
use super::range::{LimitRange, float, floor};
use crate::time::Timestamp;

/// The limit of the load shedding of [Kratos](https://github.com/go-kratos/aegis) and
/// [go-zero](https://github.com/zeromicro/go-zero), named for TCP BBR: the highest throughput times
/// the shortest response time, while the processors are busy.
///
/// Of the epochs that ended in the last 10 s, 100 ms each: the highest number of calls in a second,
/// and the shortest mean response time. Their product is the number of calls in flight. One call more
/// is the
/// limit while the average [load of the processors](CpuLoad) is at least the
/// [threshold](Self::threshold), and for 1 s after that. Otherwise the limit is the highest one.
/// The load is measured at the ends of epochs, at most every 0.5 s, and each measurement counts
/// for 0.05 of the average.
///
/// This is the formula of Kratos, with these differences:
///
/// - The product is rounded to the nearest number. Kratos adds 0.5 after it has rounded down, which
///   changes nothing.
/// - The time of 1 s begins with the last high load. In Kratos, it begins with the first refusal.
/// - Response times are not rounded to milliseconds, and are those of the calls that succeeded.
/// - The first measurement is the first average. In Kratos, the average begins at 0.
///
/// go-zero, whose window is 5 s, also compares the average of the calls in flight with the limit.
///
/// The limit protects the processors of *this* process's machine or group. A backend on other
/// machines can have a long queue while they are idle: see [`Headroom`](super::Headroom).
///
/// ```
/// use leaparray::flow::AdaptiveLimiter;
/// use leaparray::flow::adaptive::{Bbr, FixedCpuLoad, SystemCpu};
///
/// // The load of this process's group or machine.
/// let limiter = AdaptiveLimiter::new(Bbr::new(SystemCpu::new()));
/// // As if the processors were always busy.
/// let always = AdaptiveLimiter::new(Bbr::new(FixedCpuLoad(1.0)));
/// assert_eq!(always.limit(), 1_000, "before the first calls");
/// ```
pub struct Bbr<L> {
    cpu: L,
    range: LimitRange,
    threshold: f64,
    epochs: VecDeque<PastEpoch>,
    /// The average load, as in Kratos: 0.95 of the former average and 0.05 of the newest load.
    load: Option<f64>,
    measured: Option<Timestamp>,
    /// The time up to which the limit applies.
    until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct PastEpoch {
    end: Timestamp,
    /// Calls in a second.
    rate: f64,
    /// The mean response time in seconds.
    mean: f64,
}

impl<L: CpuLoad> Bbr<L> {
    const WINDOW: Duration = Duration::from_secs(10);
    const EPOCH: Duration = Duration::from_millis(100);
    const MEASURE: Duration = Duration::from_millis(500);
    const COOL: Duration = Duration::from_secs(1);

    /// Creates the algorithm, with a limit from 1 to 1,000, at first 1,000, and a threshold of 0.8.
    pub const fn new(cpu: L) -> Self {
        Self {
            cpu,
            range: LimitRange::known(1, 1_000, 1_000),
            threshold: 0.8,
            epochs: VecDeque::new(),
            load: None,
            measured: None,
            until: None,
        }
    }

    /// Sets the range of the limit. The highest limit applies while the processors are not busy.
    #[must_use]
    pub fn range(self, range: LimitRange) -> Self {
        Self { range, ..self }
    }

    /// Sets the load from which the limit applies: 0.8 in Kratos, 0.9 in go-zero. At 0 it applies
    /// whenever the load is known, above 1 never.
    #[must_use]
    pub fn threshold(self, threshold: f64) -> Self {
        Self { threshold, ..self }
    }

    fn record(&mut self, epoch: &EpochCalls<'_>) {
        // An epoch that ends in the future is from before a step of the clock.
        let window = epoch.now.saturating_sub(Self::WINDOW)..=epoch.now;
        self.epochs.retain(|it| window.contains(&it.end));
        let seconds = epoch.end.saturating_since(epoch.start).as_secs_f64();
        let Some(mean) = epoch.response_times.mean() else { return };
        let calls = epoch.response_times.count() + epoch.exceptions;
        let rate = float(calls) / seconds.max(1e-3);
        self.epochs.push_back(PastEpoch { end: epoch.end, rate, mean: mean.as_secs_f64() });
    }

    fn is_busy(&mut self, now: Timestamp) -> bool {
        // After a step of the clock, the last measurement is in the future.
        let is_due = |at: Timestamp| at > now || now.saturating_since(at) >= Self::MEASURE;
        if self.measured.is_none_or(is_due) {
            self.measured = Some(now);
            if let Some(load) = self.cpu.load(now).filter(|load| !load.is_nan()) {
                self.load = Some(self.load.map_or(load, |before| before * 0.95 + load * 0.05));
            }
        }
        if self.load.is_some_and(|load| load >= self.threshold) {
            self.until = Some(now.saturating_add(Self::COOL));
        }
        self.until.is_some_and(|until| now <= until && until <= now.saturating_add(Self::COOL))
    }

    fn limit(&mut self, now: Timestamp) -> f64 {
        if !self.is_busy(now) || self.epochs.is_empty() {
            return float(self.range.max());
        }
        let rate = self.epochs.iter().map(|it| it.rate).fold(0.0, f64::max);
        let mean = self.epochs.iter().map(|it| it.mean).fold(f64::INFINITY, f64::min);
        // One call more than the product: without it, a limit that is reached would never rise.
        self.range.clamp((rate * mean).round() + 1.0)
    }
}

impl<L: CpuLoad> LimitAlgorithm for Bbr<L> {
    fn highest_limit(&self) -> u64 {
        self.range.max()
    }

    fn counts_calls_at_their_end(&self) -> bool {
        true
    }

    fn first_plan(&mut self) -> LimitPlan {
        LimitPlan::epoch(self.range.initial(), Self::EPOCH)
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        let LimitEvidence::Epoch(epoch) = evidence else { return self.first_plan() };
        self.record(epoch);
        LimitPlan::epoch(floor(self.limit(epoch.now)), Self::EPOCH)
    }
}

impl<L> fmt::Debug for Bbr<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bbr").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}
