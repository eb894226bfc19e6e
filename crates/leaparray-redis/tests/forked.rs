//! A limiter in a forked child. The binary has one test: no other thread has a lock during the
//! fork.
#![cfg(unix)]
#![forbid(unsafe_code)]

use std::process;
use std::time::Duration;

use fork::Fork;
use leaparray::flow::{LimiterExt, Reason, Retry};
use leaparray::{ManualClock, Timestamp};
use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeaseState, LeasedLimiter, MemoryEngine};
use tokio::task::yield_now;

#[test]
fn forked_child_uses_no_permits_of_its_parent() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let config = LeaseConfig::of_buckets(100, 10, Duration::from_secs(1)).unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let limiter = runtime.block_on(async {
        let engine = MemoryEngine::with_clock(clock.clone());
        let builder = LeasedLimiter::builder("orders", config).with_clock(clock.clone());
        let limiter = builder.start(engine).unwrap();
        assert!(limiter.acquire().await.is_err(), "a quarantine");
        clock.advance(config.quarantine());
        limiter.acquire().await.unwrap();
        assert!(limiter.try_acquire_many(40).is_refused());
        yield_now().await;
        limiter
    });
    assert!(limiter.in_hand() >= 40);
    // In another bucket, and before the end of the lease.
    clock.advance(config.bucket_len());
    match fork::fork().unwrap() {
        Fork::Child => {
            let refusal = limiter.try_acquire().refusal();
            let reason = "the limiter was started before a fork, in the parent of this process";
            let is_refused = refusal.is_some_and(|it| {
                (it.reason, it.retry()) == (Reason::Custom(reason), Retry::Never)
            });
            let is_told = limiter.state() == LeaseState::Forked && limiter.in_hand() == 0;
            process::exit(i32::from(!(is_refused && is_told)));
        }
        Fork::Parent(child) => assert_eq!(fork::waitpid(child).unwrap(), 0),
    }
    assert!(limiter.try_acquire_many(40).is_admitted());
    assert_eq!(limiter.state(), LeaseState::Leasing);
}
