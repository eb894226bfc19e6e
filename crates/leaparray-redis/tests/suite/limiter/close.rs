//! The end of a limiter.

use std::time::Duration;

use leaparray::flow::{LimiterExt, Reason, Retry};
use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, EngineError, LeaseState, LeasedLimiter, MemoryEngine};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::limiter::engine::{Network, Simulated, builder, config, opened};

/// Starts a limiter with all permits of the window in hand, and another one.
async fn with_all_permits(
    clock: Simulated,
    network: &Network,
) -> (LeasedLimiter<Simulated>, LeasedLimiter<Simulated>) {
    let (first, second) = (opened(clock, network).await, opened(clock, network).await);
    sleep(Duration::from_secs(5)).await;
    assert!(first.try_acquire_many(100).is_refused());
    sleep(Duration::from_millis(11)).await;
    assert_eq!(first.in_hand(), 100);
    second.acquire_many(50).await.unwrap_err();
    (first, second)
}

#[tokio::test(start_paused = true)]
async fn closed_limiter_gives_its_permits_back() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let (first, second) = with_all_permits(clock, &network).await;
    first.close().await;
    assert_eq!(first.state(), LeaseState::Closed);
    let refusal = first.try_acquire().refusal().unwrap();
    assert_eq!(
        (refusal.reason, refusal.retry()),
        (Reason::Custom("the limiter is closed"), Retry::Never)
    );
    first.acquire().await.unwrap_err();
    // The server still shares by the demand of the bucket before.
    second.acquire_many_within(90, Duration::from_millis(600)).await.unwrap();
    first.close().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_limiter_gives_its_permits_back() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let (first, second) = with_all_permits(clock, &network).await;
    let clone = first.clone();
    drop(first);
    sleep(Duration::from_millis(20)).await;
    assert!(clone.try_acquire().is_admitted());
    drop(clone);
    // The server still shares by the demand of the bucket before.
    second.acquire_many_within(90, Duration::from_millis(600)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn close_ends_while_the_server_does_not_answer() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    network.set_hangs(true);
    assert!(limiter.try_acquire_many(20).is_refused());
    let start = tokio::time::Instant::now();
    limiter.close().await;
    assert!(start.elapsed() <= Duration::from_millis(600), "{:?}", start.elapsed());
}

struct Panics;

impl Engine for Panics {
    async fn lease(&self, _: &LeaseKeys, _: &LeaseConfig, _: &Ask) -> Result<Answer, EngineError> {
        panic!("an engine with a defect")
    }
}

#[tokio::test(start_paused = true)]
async fn limiter_whose_engine_panics_is_closed() {
    let limiter = builder(Simulated::start()).start(Panics).unwrap();
    let waited = timeout(Duration::from_secs(60), limiter.acquire()).await;
    let refusal = waited.expect("it ends").unwrap_err();
    assert_eq!(refusal.reason, Reason::Custom("the limiter is closed"));
    assert_eq!(limiter.state(), LeaseState::Closed);
    for _ in 0..2 {
        timeout(Duration::from_secs(60), limiter.close()).await.expect("it ends");
    }
}

#[test]
fn limiter_whose_runtime_has_ended_is_closed() {
    let runtime = || Builder::new_current_thread().enable_time().build().unwrap();
    let first = runtime();
    let limiter = {
        let _guard = first.enter();
        LeasedLimiter::builder("orders", config()).start(MemoryEngine::new()).unwrap()
    };
    drop(first);
    let waited =
        runtime().block_on(async { timeout(Duration::from_secs(9), limiter.acquire()).await });
    assert!(waited.expect("it ends").is_err());
    assert_eq!(limiter.state(), LeaseState::Closed);
}
