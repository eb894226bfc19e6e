//! Requests of different size, which do not wait.

use std::time::Duration;

use leaparray::flow::LimiterExt;
use leaparray_redis::LeasedLimiter;
use leaparray_redis::lease::LeaseConfig;
use tokio::time::sleep;

use crate::limiter::engine::{Network, Simulated};

/// Starts limiters of one limit in a second, and waits until the server has opened.
async fn opened(
    limit: u64,
    processes: usize,
    clock: Simulated,
    network: &Network,
) -> Vec<LeasedLimiter<Simulated>> {
    let config = LeaseConfig::of_buckets(limit, 10, Duration::from_secs(1)).unwrap();
    let start = |_| {
        let builder = LeasedLimiter::builder("orders", config).with_clock(clock);
        builder.start(network.clone()).unwrap()
    };
    let limiters: Vec<_> = (0..processes).map(start).collect();
    sleep(Duration::from_secs(3)).await;
    limiters
}

/// Ten requests for a permit and one for 20 in a second, at each process.
#[tokio::test(start_paused = true)]
async fn large_requests_get_their_permits_beside_small_ones() {
    for processes in [1, 10] {
        let clock = Simulated::start();
        let network = Network::new(clock);
        let limiters = opened(1_000, processes, clock, &network).await;
        let (mut large, mut small) = (0, 0);
        for _ in 0..60 {
            for tenth in 0..10 {
                sleep(Duration::from_millis(100)).await;
                for limiter in &limiters {
                    small += u64::from(limiter.try_acquire().is_admitted());
                    if tenth == 7 {
                        large += u64::from(limiter.try_acquire_many(20).is_admitted());
                    }
                }
            }
        }
        let processes = processes as u64;
        // Each process is refused its first one, before it knows of their size.
        assert!(large >= processes * 59, "{large} of {} for 20", processes * 60);
        assert!(small >= processes * 594, "{small} of {} for a permit", processes * 600);
        let asks = network.asks();
        assert!(asks <= processes * 63 * 5, "{asks} asks");
    }
}

/// A process has wanted the whole limit once, and a permit in a minute since. Another one uses half
/// of the limit.
#[tokio::test(start_paused = true)]
async fn refused_request_is_no_claim_on_the_limit() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiters = opened(100, 2, clock, &network).await;
    assert!(limiters[0].try_acquire_many(100).is_refused());
    // Until the request is forgotten.
    sleep(Duration::from_secs(5)).await;
    let (mut admitted, mut all) = (0, 0);
    for step in 0..300 * 50 {
        if step % (60 * 50) == 0 {
            _ = limiters[0].try_acquire();
        }
        sleep(Duration::from_millis(20)).await;
        all += 1;
        admitted += u64::from(limiters[1].try_acquire().is_admitted());
    }
    assert!(admitted >= all * 99 / 100, "{admitted} of {all}");
}
