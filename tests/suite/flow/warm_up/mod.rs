//! The warm-up limiter, whose limit is lower while the service is cold.

mod changes;
mod cooling;
mod full_demand;
mod reckoning;
mod views;

use std::time::Duration;

use leaparray::flow::{Decision, LimiterExt, WarmUp, WarmUpConfig};
use leaparray::{ManualClock, Timestamp, WindowConfig};

use crate::flow::ms;

/// The bucket in which each test begins.
const BEGIN: u64 = 70_000;

/// A warm-up with times that are bucket numbers, counted from [`BEGIN`].
struct Service {
    limiter: WarmUp<ManualClock>,
    window: WindowConfig,
}

impl Service {
    fn new(window: WindowConfig, limit: u64, config: WarmUpConfig) -> Self {
        let clock = ManualClock::new(Timestamp::MIN);
        let limiter = WarmUp::with_clock(window, limit, config, clock).unwrap();
        Self { limiter: limiter.with_max_lead(Duration::MAX), window }
    }

    /// A window of a second in ten buckets, and the default period of ten seconds and factor of 3.
    fn of(limit: u64) -> Self {
        Self::new(second(10), limit, WarmUpConfig::default())
    }

    fn start(&self, bucket: u64) -> Timestamp {
        let nanos = u64::try_from(self.window.bucket_len().as_nanos()).unwrap();
        Timestamp::from_nanos((BEGIN + bucket) * nanos)
    }

    fn ask(&self, bucket: u64, permits: u64) -> Decision {
        self.limiter.try_acquire_at(self.start(bucket), permits)
    }

    fn peek(&self, bucket: u64, permits: u64) -> Option<Decision> {
        self.limiter.peek_at(self.start(bucket), permits)
    }

    /// Asks for batches until one is refused. Returns the permits that were admitted.
    fn take_all(&self, bucket: u64, batch: u64) -> u64 {
        let mut admitted = 0;
        while self.ask(bucket, batch).is_admitted() {
            admitted += batch;
        }
        admitted
    }

    fn current_limit(&self, bucket: u64) -> u64 {
        self.limiter.current_limit_at(self.start(bucket))
    }

    fn available(&self, bucket: u64) -> u64 {
        self.limiter.quota_at(self.start(bucket)).unwrap().remaining
    }

    /// The bucket in which a refused request says that it can succeed.
    fn retry(&self, decision: Decision) -> u64 {
        let retry_at = decision.refusal().expect("refused").retry_at().expect("with a time");
        assert_eq!(self.window.bucket_start(retry_at), retry_at, "a bucket begins");
        self.window.bucket_number(retry_at) - BEGIN
    }
}

fn second(buckets: usize) -> WindowConfig {
    WindowConfig::new(buckets, ms(1_000)).unwrap()
}

fn config(period_millis: u64, cold_factor: f64) -> WarmUpConfig {
    WarmUpConfig::new(ms(period_millis), cold_factor).unwrap()
}
