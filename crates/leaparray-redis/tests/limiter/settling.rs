//! Costs above their estimates, over the limit of a fleet.

use std::time::Duration;

use leaparray::Clock;
use leaparray::flow::WaitQueue;
use leaparray::flow::settle::{Settle, Settling};
use tokio::time::sleep;

use crate::engine::{Network, Simulated, opened};

/// The limit is 100 in a second: the excess is taken from later permits of the fleet.
#[tokio::test(start_paused = true)]
async fn debt_is_paid_by_permits_of_the_fleet() {
    let clock = Simulated::start();
    let limiter = opened(clock, &Network::new(clock)).await;
    sleep(Duration::from_secs(5)).await;
    let settling = Settling::new(limiter);
    let queue = WaitQueue::new(&settling);
    let acquire = |permits| queue.acquire_with(permits, Duration::from_secs(30), sleep);
    let reserved = acquire(5).await.unwrap();
    let start = clock.now();
    let settled = reserved.settle_at(start, 300);
    assert_eq!(settled.excess, 295);
    assert_eq!(u128::from(settled.owed), settling.debt());
    assert!((200..=295).contains(&settled.owed), "{settled:?}");
    let reserved = acquire(5).await.unwrap();
    let waited = clock.now().saturating_since(start);
    // 305 of at most 100 in any second: the last ones come after three full seconds.
    let bounds = Duration::from_millis(2_700)..Duration::from_secs(6);
    assert!(bounds.contains(&waited), "{waited:?}");
    assert_eq!((settling.debt(), reserved.settle_at(clock.now(), 5).excess), (0, 0));
}
