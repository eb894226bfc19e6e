//! The end of a limiter.

use std::time::Duration;

use leaparray::flow::{Limiter, Reason, Retry};
use leaparray_redis::{LeaseState, LeasedLimiter};
use tokio::time::sleep;

use crate::engine::{Network, Simulated, opened};

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
        (refusal.reason, refusal.retry),
        (Reason::Custom("the limiter is closed"), Retry::Never)
    );
    first.acquire().await.unwrap_err();
    // The server still shares by the demand of the bucket before.
    second.acquire_many_within(90, Duration::from_millis(300)).await.unwrap();
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
    second.acquire_many_within(90, Duration::from_millis(300)).await.unwrap();
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
