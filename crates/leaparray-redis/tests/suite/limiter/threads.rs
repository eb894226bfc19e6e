//! Threads that take from one limiter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::flow::LimiterExt;
use leaparray_redis::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, EngineError, LeasedLimiter, MemoryEngine};

/// An engine that counts what it grants, and what is returned.
#[derive(Default)]
struct Counting {
    server: MemoryEngine,
    granted: AtomicU64,
    returned: AtomicU64,
}

impl Engine for Counting {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        let answer = self.server.lease(keys, config, ask).await?;
        self.granted.fetch_add(answer.granted, Ordering::Relaxed);
        let returned = ask.moves.iter().filter(|it| it.to.is_none()).map(|it| it.count).sum();
        self.returned.fetch_add(returned, Ordering::Relaxed);
        Ok(answer)
    }
}

/// Buckets are so short that hands are closed all the time.
#[test]
fn threads_use_each_permit_once() {
    let config = LeaseConfig::of_buckets(5_000, 10, Duration::from_millis(20)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let engine = Arc::new(Counting::default());
    let limiter = {
        let _guard = runtime.enter();
        LeasedLimiter::builder("orders", config).start(Arc::clone(&engine)).unwrap()
    };
    let take = || {
        let mut taken = 0_u64;
        while taken < 50_000 {
            taken += u64::from(limiter.try_acquire().is_admitted());
        }
        taken
    };
    let taken: u64 = thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(take));
        threads.map(|it| it.join().unwrap()).iter().sum()
    });
    runtime.block_on(limiter.close());
    let counts = [&engine.granted, &engine.returned].map(|it| it.load(Ordering::Relaxed));
    // A permit that was used twice, or was used and returned, would be missing.
    assert!(taken <= counts[0] - counts[1], "{taken} of {counts:?}");
}
