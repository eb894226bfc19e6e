//! A limiter that takes nothing, and refuses requests by a measure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaparray::flow::{Ask, Decision, Limiter, Reason, Refusal, Retry};
use leaparray::{MetricEvent, Registry, Timestamp};

use super::RuleClock;
use crate::machine::{self, CpuTimes};
use crate::overload::Overload;

/// Refuses requests while a measure is above its limit. A request of a resource that gives way to
/// another one is counted in neither limit.
pub(crate) struct Gate<C: RuleClock> {
    overload: Overload,
    registry: Arc<Registry<C>>,
    sample: Sample,
    /// The times of the processors at the last sample.
    cpu: Mutex<Option<CpuTimes>>,
}

/// A number that one request measures in each period, and that the others read.
#[derive(Default)]
struct Sample {
    /// The number of the period that was measured last, from 1.
    period: AtomicU64,
    /// The bits of the measured value.
    value: AtomicU64,
}

impl Sample {
    /// Returns the value of the period, or that of a period before while a thread measures it.
    fn get(&self, now: Timestamp, period: Duration, measure: impl FnOnce() -> f64) -> f64 {
        let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let number = now.as_nanos() / nanos + 1;
        let known = self.period.load(Ordering::Relaxed);
        // The thread whose exchange succeeds measures. A time that steps back measures nothing.
        if known < number
            && self
                .period
                .compare_exchange(known, number, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
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

    pub(super) fn new(overload: Overload, registry: Arc<Registry<C>>) -> Self {
        Self { overload, registry, sample: Sample::default(), cpu: Mutex::default() }
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
                    let totals = self.registry.at(now).short().totals();
                    totals.avg_rt().unwrap_or_default().as_secs_f64()
                };
                self.sample.get(now, Self::RESPONSE_TIMES, measure) > above.as_secs_f64()
            }
            Overload::Cpu(above) => self.sample.get(now, Self::CPU, || self.cpu()) > *above,
        }
    }

    /// Returns the sum over the nodes of another resource.
    fn sum(&self, resource: &str, of: impl Fn(&leaparray::Resource<C>) -> f64) -> f64 {
        let Some(resource) = self.registry.get(resource) else { return 0.0 };
        of(&resource) + resource.contexts().map(|it| of(&it)).sum::<f64>()
    }

    /// Returns the share of the processors since the last sample in percent: 0 for the first one.
    fn cpu(&self) -> f64 {
        let Ok(times) = machine::cpu_times() else { return 0.0 };
        let before = self.cpu.lock().unwrap_or_else(PoisonError::into_inner).replace(times);
        before.map_or(0.0, |it| times.percent_since(it))
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
