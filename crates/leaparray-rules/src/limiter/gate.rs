//! A limiter that takes nothing, and refuses requests by a measure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use leaparray::flow::{Ask, Decision, Limiter, Reason, Refusal, Retry};
use leaparray::{MetricEvent, Registry, ResourceNode, Timestamp};

use super::RuleClock;
use crate::machine::{self, CpuLoad};
use crate::overload::Overload;

/// Refuses requests while a measure is above its limit. A request of a resource that gives way to
/// another one is counted in neither limit.
pub(crate) struct Gate<C: RuleClock> {
    overload: Overload,
    /// Weak: a thread keeps the plan by which it has decided last, and with it this limiter.
    /// Without the registry, nothing is measured, and no request is refused.
    registry: Weak<Registry<C>>,
    sample: Sample,
    cpu: Mutex<CpuLoad>,
}

/// A number that one request measures in each period, and that the others read.
struct Sample {
    /// The time of the last measurement in nanoseconds.
    measured: AtomicU64,
    /// The bits of the measured value.
    value: AtomicU64,
}

impl Sample {
    /// The time of the last measurement before the first one.
    const NEVER: u64 = u64::MAX;

    const fn new() -> Self {
        Self { measured: AtomicU64::new(Self::NEVER), value: AtomicU64::new(0) }
    }

    /// Returns the value, which is measured anew if it was measured a period or more before `now`,
    /// or after it: a clock that has stepped back, and one request with a time ahead, leave the
    /// value in force for a period at most. While a thread measures, the others read the value
    /// before.
    fn get(&self, now: Timestamp, period: Duration, measure: impl FnOnce() -> f64) -> f64 {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let (now, last) = (now.as_nanos(), self.measured.load(Ordering::Relaxed));
        // The difference in both directions: threads with times that are slightly apart, in any
        // order, do not all measure.
        let is_due = last == Self::NEVER || now.abs_diff(last) >= period;
        // The thread whose exchange succeeds measures.
        let measured = &self.measured;
        if is_due
            && measured.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            // Relaxed: the value stands alone.
            self.value.store(measure().to_bits(), Ordering::Relaxed);
        }
        f64::from_bits(self.value.load(Ordering::Relaxed))
    }
}

impl<C: RuleClock> Gate<C> {
    const RESPONSE_TIMES: Duration = Duration::from_millis(100);

    const CPU: Duration = Duration::from_secs(1);

    pub(super) fn new(overload: Overload, registry: Weak<Registry<C>>) -> Self {
        Self { overload, registry, sample: Sample::new(), cpu: Mutex::default() }
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of requests")]
    fn is_over(&self, now: Timestamp, permits: u64) -> bool {
        match &self.overload {
            Overload::Rate { resource, limit } => {
                self.sum(resource, |it| it.at(now).short().qps_over_interval(MetricEvent::Pass))
                    + permits as f64
                    > *limit as f64
            }
            Overload::InFlight { resource, limit } => {
                self.sum(resource, |it| it.concurrency() as f64) + permits as f64 > *limit as f64
            }
            Overload::ResponseTime(above) => {
                let measure = || {
                    let Some(registry) = self.registry.upgrade() else { return 0.0 };
                    let totals = registry.at(now).short().totals();
                    totals.avg_rt().unwrap_or_default().as_secs_f64()
                };
                self.sample.get(now, Self::RESPONSE_TIMES, measure) > above.as_secs_f64()
            }
            Overload::Cpu(above) => self.sample.get(now, Self::CPU, || self.cpu()) > *above,
        }
    }

    /// Returns the sum over the nodes of another resource.
    fn sum(&self, resource: &str, of: impl Fn(&ResourceNode<C>) -> f64) -> f64 {
        let resource = self.registry.upgrade().and_then(|it| it.get(resource));
        resource.map_or(0.0, |it| it.nodes().map(of).sum())
    }

    /// Returns the share of the processors that were busy, in percent.
    fn cpu(&self) -> f64 {
        let Ok(times) = machine::cpu_times() else { return 0.0 };
        self.cpu.lock().unwrap_or_else(PoisonError::into_inner).read(times)
    }
}

impl<C: RuleClock> Limiter for Gate<C> {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        let permits = ask.permits();
        if permits > 0 && self.is_over(ask.now(), permits) {
            let reason = match self.overload {
                Overload::Rate { .. } | Overload::InFlight { .. } => "another resource is busy",
                Overload::ResponseTime(_) | Overload::Cpu(_) => "the service is overloaded",
            };
            return Decision::Refused(Refusal::new(Reason::Custom(reason), Retry::Unknown));
        }
        Decision::Admitted(())
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        Some(self.decide(ask))
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values that are stored")]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    /// Returns the value at that time, at which a measurement would have it in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn at(sample: &Sample, millis: u64) -> f64 {
        sample.get(Timestamp::from_millis(millis), PERIOD, || millis as f64)
    }

    #[test]
    fn value_is_measured_once_in_a_period() {
        let sample = Sample::new();
        let values = [0, 999, 1_000, 1_900, 2_050].map(|it| at(&sample, it));
        assert_eq!(values, [0.0, 0.0, 1_000.0, 1_000.0, 2_050.0]);
    }

    #[test]
    fn value_of_another_time_is_in_force_for_a_period_at_most() {
        let sample = Sample::new();
        assert_eq!(at(&sample, 3_600_000), 3_600_000.0);
        assert_eq!(at(&sample, 1_000), 1_000.0, "the clock has stepped back");
        assert_eq!(at(&sample, 7_200_000), 7_200_000.0, "a time ahead");
        assert_eq!(at(&sample, 1_001), 1_001.0);
        assert_eq!(at(&sample, 2), 1_001.0, "less than a period");
        assert_eq!(at(&sample, 1), 1.0);
    }

    #[test]
    fn last_time_of_all_is_measured() {
        let sample = Sample::new();
        let value = |now, value| sample.get(now, PERIOD, || value);
        assert_eq!(value(Timestamp::MAX, 1.0), 1.0);
        assert_eq!(value(Timestamp::MAX, 2.0), 2.0);
        assert_eq!(value(Timestamp::MIN, 3.0), 3.0);
    }
}
