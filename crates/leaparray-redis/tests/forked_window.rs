//! The handles of tasks in a forked child. The binary has one test: no other thread has a lock
//! during the fork.
#![cfg(unix)]
#![forbid(unsafe_code)]

use std::pin::pin;
use std::process;
use std::sync::Arc;
use std::task::{Context, Waker};

use fork::Fork;
use leaparray::EventCounts;
use leaparray::Registry;
use leaparray_redis::engine::MemoryFleet;
use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{FleetReader, FleetReporter, FleetState, LeasedLimiter, MemoryEngine};

/// Returns whether a future is ready at once: in the child, no thread drives the runtime.
fn is_ready<T>(future: impl Future<Output = T>) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn close_in_a_forked_child_returns_at_once() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_time().build().unwrap();
    let (reporter, reader, limiter) = runtime.block_on(async {
        let engine = Arc::new(MemoryFleet::new());
        let registry = Arc::new(Registry::new());
        let reporter = FleetReporter::builder("shop", "orders-1");
        let reporter = reporter.start(&registry, Arc::clone(&engine)).unwrap();
        reporter.watch().wait_for(|it| *it == FleetState::Connected).await.unwrap();
        let reader = FleetReader::builder("shop").start(engine).unwrap();
        reader.poll().await.unwrap();
        let config = LeaseConfig::of_buckets(100, 10, std::time::Duration::from_secs(1)).unwrap();
        let limiter = LeasedLimiter::builder("orders", config).start(MemoryEngine::new()).unwrap();
        (reporter, reader, limiter)
    });
    match fork::fork().unwrap() {
        Fork::Child => {
            let states = [reporter.state(), reader.state()];
            let is_told = states.iter().all(|it| *it == FleetState::Forked);
            let is_closed = [is_ready(reporter.close()), is_ready(limiter.close())];
            process::exit(i32::from(!(is_told && is_closed == [true, true])));
        }
        Fork::Parent(child) => assert_eq!(fork::waitpid(child).unwrap(), 0),
    }
    runtime.block_on(async {
        assert_eq!(reporter.state(), FleetState::Connected);
        limiter.close().await;
        assert_eq!(reporter.close().await.lifetime, EventCounts::default());
    });
}
