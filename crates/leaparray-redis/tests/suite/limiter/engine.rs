//! A clock of simulated time, and an engine that fails when it is told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::{Clock, Timestamp};
use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, EngineError, LeasedLimiter, LimiterBuilder, MemoryEngine};
use tokio::time::{Instant, sleep};

/// The time of a runtime whose time is paused, from 60 s on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated(Instant);

impl Simulated {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Simulated {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(60).saturating_add(self.0.elapsed())
    }
}

/// An engine with a round trip of 10 ms.
#[derive(Clone, Debug)]
pub(crate) struct Network(Arc<State>);

#[derive(Debug)]
struct State {
    server: MemoryEngine<Simulated>,
    is_away: AtomicBool,
    hangs: AtomicBool,
    asks: AtomicU64,
    /// The numbers that are replaced by one, if there are any.
    twins: Mutex<Option<Vec<u64>>>,
}

impl Network {
    pub(crate) fn new(clock: Simulated) -> Self {
        let server = MemoryEngine::with_clock(clock);
        let (is_away, hangs) = (AtomicBool::new(false), AtomicBool::new(false));
        let (asks, twins) = (AtomicU64::new(0), Mutex::default());
        Self(Arc::new(State { server, is_away, hangs, asks, twins }))
    }

    /// From now on, each ask fails, or none.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.0.is_away.store(is_away, Ordering::Relaxed);
    }

    /// From now on, no answer arrives, or each.
    pub(crate) fn set_hangs(&self, hangs: bool) {
        self.0.hangs.store(hangs, Ordering::Relaxed);
    }

    /// Gives the first four nodes that ask one number, as if they were clones of one image.
    pub(crate) fn set_twins(&self) {
        *self.0.twins.lock().unwrap() = Some(Vec::new());
    }

    /// Returns the ask as it arrives.
    fn sent(&self, ask: &Ask) -> Ask {
        let mut ask = ask.clone();
        if let Some(numbers) = &mut *self.0.twins.lock().unwrap() {
            if numbers.len() < 4 && !numbers.contains(&ask.node) {
                numbers.push(ask.node);
            }
            if numbers.contains(&ask.node) {
                ask.node = 7;
            }
        }
        ask
    }

    pub(crate) fn restart(&self) {
        self.0.server.restart();
    }

    /// Returns the number of asks so far.
    pub(crate) fn asks(&self) -> u64 {
        self.0.asks.load(Ordering::Relaxed)
    }
}

impl Engine for Network {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        self.0.asks.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(5)).await;
        if self.0.is_away.load(Ordering::Relaxed) {
            return Err(EngineError::Server("connection refused".into()));
        }
        let answer = self.0.server.lease(keys, config, &self.sent(ask)).await;
        if self.0.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_millis(5)).await;
        answer
    }
}

/// The same, with a longer round trip.
#[derive(Clone, Debug)]
pub(crate) struct Far(pub(crate) Network, pub(crate) Duration);

impl Engine for Far {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        sleep(self.1 / 2).await;
        let answer = self.0.lease(keys, config, ask).await;
        sleep(self.1 / 2).await;
        answer
    }
}

/// 100 permits in 10 buckets of 100 ms; a lease is valid for 3 more. The quarantine takes 1.4 s.
pub(crate) fn config() -> LeaseConfig {
    let config = LeaseConfig::of_buckets(100, 10, Duration::from_secs(1)).unwrap();
    config.with_validity(3).unwrap()
}

pub(crate) fn builder(clock: Simulated) -> LimiterBuilder<Simulated> {
    LeasedLimiter::builder("orders", config()).with_clock(clock)
}

/// Starts a limiter, and waits until the server has opened.
pub(crate) async fn opened(clock: Simulated, network: &Network) -> LeasedLimiter<Simulated> {
    let limiter = builder(clock).start(network.clone()).unwrap();
    limiter.acquire_within(Duration::from_secs(3)).await.unwrap();
    limiter
}
