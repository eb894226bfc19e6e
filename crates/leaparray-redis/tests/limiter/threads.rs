//! Threads that take from one limiter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::flow::Limiter;
use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeasedLimiter, MemoryEngine};

/// Buckets are so short that hands are closed all the time.
#[test]
fn threads_use_each_permit_once() {
    let config = LeaseConfig::new(5_000, 10, Duration::from_millis(20)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let limiter = {
        let _guard = runtime.enter();
        LeasedLimiter::builder("orders", config).start(MemoryEngine::new()).unwrap()
    };
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut mine = 0;
                while mine < 50_000 {
                    if limiter.try_acquire().is_admitted() {
                        mine += 1;
                    }
                }
                admitted.fetch_add(mine, Ordering::Relaxed);
            });
        }
    });
    runtime.block_on(limiter.close());
    // A permit that was used twice would be in hand once: the node would panic, or have granted fewer.
    let counts = limiter.counts();
    assert_eq!(admitted.into_inner(), 200_000);
    assert!(counts.granted >= 200_000, "{counts:?}");
}
