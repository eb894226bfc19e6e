//! The readiness of the service, by the contract of tower.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use leaparray::flow::{FixedWindowLimiter, LeakyBucket, Limiter, Rate};
use leaparray_tower::{CallError, Fail, OTHER};
use tower::{Layer, Service};

use crate::{Broken, Steps, endings_of, get, layer, registry};

/// A service that panics if it is called before it is ready, as a service with a limit on its
/// concurrency may do. A clone is not ready.
#[derive(Default)]
struct Strict {
    is_ready: bool,
    is_open: Arc<AtomicU64>,
    calls: Arc<AtomicU64>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { is_ready: false, is_open: Arc::clone(&self.is_open), calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<()>> for Strict {
    type Response = Response<Steps>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Steps>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.is_open.load(Ordering::Relaxed) == 0 {
            return Poll::Pending;
        }
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called before it was ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Steps::default().that_says_its_end())))
    }
}

#[test]
fn service_is_ready_when_the_inner_one_is() {
    let strict = Strict::default();
    let mut service = layer(&registry()).layer(strict.clone());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_pending());
    strict.is_open.store(1, Ordering::Relaxed);
    assert!(service.poll_ready(&mut cx).is_ready());
}

/// A service that has failed, and must not be called.
#[derive(Clone)]
struct NeverReady;

impl Service<Request<()>> for NeverReady {
    type Response = Response<Steps>;
    type Error = Broken;
    type Future = Ready<Result<Response<Steps>, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Err(Broken))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        panic!("called although it is not ready")
    }
}

#[test]
fn error_of_the_readiness_is_returned_and_counts_nothing() {
    let registry = registry();
    let mut cx = Context::from_waker(Waker::noop());
    let mut service = layer(&registry).layer(NeverReady);
    assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Err(Broken)));
    let mut service = layer(&registry).refuse(Fail).layer(NeverReady);
    assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Err(CallError::Service(Broken))));
    assert_eq!((registry.len(), endings_of(&registry, OTHER)), (1, [0; 5]));
}

#[tokio::test(start_paused = true)]
async fn waiting_request_reaches_the_service_that_was_ready() {
    let registry = registry();
    let rate = Rate::per_second(1).unwrap();
    let bucket = LeakyBucket::with_clock(rate, Duration::from_secs(10), registry.clock().clone());
    let strict = Strict::default();
    strict.is_open.store(1, Ordering::Relaxed);
    let mut service = layer(&registry).limit(Arc::new(bucket)).layer(strict.clone());
    let mut cx = Context::from_waker(Waker::noop());
    let mut futures = Vec::new();
    for _ in 0..3 {
        assert!(service.poll_ready(&mut cx).is_ready());
        futures.push(service.call(get("/")));
    }
    assert_eq!(strict.calls.load(Ordering::Relaxed), 1, "two wait");
    for future in futures {
        assert_eq!(future.await.unwrap().status(), 200);
    }
    assert_eq!(strict.calls.load(Ordering::Relaxed), 3);
}

#[test]
fn service_stays_ready_after_a_refusal() {
    let registry = registry();
    let clock = registry.clock().clone();
    let limiter =
        FixedWindowLimiter::with_clock(Duration::from_secs(60), 1, clock.clone()).unwrap();
    assert!(limiter.try_acquire().is_admitted());
    let strict = Strict::default();
    strict.is_open.store(1, Ordering::Relaxed);
    let mut service = layer(&registry).limit(Arc::new(limiter)).layer(strict.clone());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    drop(service.call(get("/")));
    clock.advance(Duration::from_secs(60));
    drop(service.call(get("/")));
    assert_eq!(strict.calls.load(Ordering::Relaxed), 1);
}
