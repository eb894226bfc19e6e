//! The readiness of the service, by the contract of tower.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use leaparray::flow::{BoxLimiter, Decision, FixedWindowLimiter, LeakyBucket, LimiterExt, Rate};
use leaparray::{Clock, ManualClock, Resource};
use leaparray_tower::{CallError, Fail, Limits, Name, OTHER, Refuse, Refused, ResourceLayer};
use tokio::time::{sleep, timeout};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::service::{
    Broken, EXCEPTION, IN_FLIGHT, Manual, Steps, endings_of, get, layer, poll_now, registry,
};

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
async fn waiting_request_is_ready_before_it_reaches_the_service() {
    let registry = registry();
    let strict = Strict::default();
    strict.is_open.store(1, Ordering::Relaxed);
    let mut service = layer(&registry).limit(pace(&registry)).layer(strict.clone());
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

/// One request in a second. The others wait.
fn pace(registry: &Manual) -> Arc<LeakyBucket<ManualClock>> {
    let rate = Rate::per_second(1).unwrap();
    let clock = registry.clock().clone();
    Arc::new(LeakyBucket::with_clock(rate, Duration::from_secs(10), clock))
}

type Backend = tower_test::mock::Handle<Request<()>, Response<Steps>>;

/// Returns the next request that reaches the service.
async fn next(backend: &mut Backend) -> tower_test::mock::SendResponse<Response<Steps>> {
    let request = timeout(Duration::from_secs(60), backend.next_request()).await;
    request.expect("no request reaches the service").unwrap().1
}

#[tokio::test(start_paused = true)]
async fn waiting_request_waits_for_a_service_that_is_busy_after_the_wait() {
    let registry = registry();
    let (mock, mut backend) = tower_test::mock::pair::<Request<()>, Response<Steps>>();
    let mut service = layer(&registry).limit(pace(&registry)).layer(mock);
    let first = tokio::spawn(service.ready().await.unwrap().call(get("/")));
    next(&mut backend).await.send_response(Response::new(Steps::default()));
    first.await.unwrap().unwrap();
    let second = tokio::spawn(service.ready().await.unwrap().call(get("/")));
    backend.allow(0);
    sleep(Duration::from_secs(5)).await;
    assert!(!second.is_finished(), "the service is not ready");
    assert_eq!(endings_of(&registry, "/"), [0, 0, 1, 0, 1], "the first body was dropped");
    backend.allow(1);
    next(&mut backend).await.send_response(Response::new(Steps::default()));
    second.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn error_of_the_readiness_after_a_wait_ends_the_request_and_gives_its_permit_back() {
    let registry = registry();
    let pace = pace(&registry);
    let (mock, mut backend) = tower_test::mock::pair::<Request<()>, Response<Steps>>();
    let layer = layer(&registry).limit(Arc::clone(&pace)).refuse(Fail);
    let mut service = layer.layer(mock);
    assert!(pace.try_acquire().is_admitted());
    let waiting = service.ready().await.unwrap().call(get("/"));
    assert_eq!(endings_of(&registry, "/"), IN_FLIGHT);
    backend.send_error("closed");
    assert!(matches!(
        timeout(Duration::from_secs(60), waiting).await.unwrap(),
        Err(CallError::Service(_))
    ));
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
    let again = pace.try_acquire_at(registry.clock().now(), 1);
    assert!(matches!(&again, Decision::Wait(wait) if wait.wait() == Duration::from_secs(1)));
}

/// A name, a limiter and a refusal that do what the header `case` of the request says.
#[derive(Clone)]
struct Case;

/// Returns the case of a request.
fn case(request: &Request<()>) -> &str {
    request.headers()["case"].to_str().unwrap()
}

impl Name<()> for Case {
    fn write(&self, request: &Request<()>, name: &mut String) {
        assert_ne!(case(request), "name panics");
        name.push('/');
    }
}

impl Limits<(), ManualClock> for Case {
    type Limiter = BoxLimiter;

    fn with<T>(
        &self,
        request: &Request<()>,
        resource: &Resource<ManualClock>,
        then: impl FnOnce(Option<&BoxLimiter>) -> T,
    ) -> T {
        let clock = resource.clock().clone();
        let minute = Duration::from_secs(60);
        then(
            match case(request) {
                "choice panics" => panic!("the choice of a limiter panics"),
                "waits" | "is dropped in its wait" => {
                    let pace = LeakyBucket::with_clock(Rate::per_minute(1).unwrap(), minute, clock);
                    assert!(pace.try_acquire().is_admitted());
                    Some(pace.boxed())
                }
                "is admitted" | "is dropped unpolled" | "fails" | "panics" => None,
                _ => {
                    let none = FixedWindowLimiter::with_clock(minute, 0, clock).unwrap();
                    Some(none.boxed())
                }
            }
            .as_ref(),
        )
    }
}

impl<E> Refuse<Steps, E> for Case {
    type Error = CallError<E>;

    fn refuse(
        &self,
        refused: &Refused,
        request: &Parts,
    ) -> Result<Response<Option<Steps>>, CallError<E>> {
        assert!(!refused.is_grpc, "the refusal panics");
        Refuse::<Steps, E>::refuse(&Fail, refused, request)
    }

    fn error(error: E) -> CallError<E> {
        CallError::Service(error)
    }
}

/// After each way out of a call, the place of the request in the inner service is free: another
/// clone is ready although the first one stays.
#[tokio::test(start_paused = true)]
async fn inner_service_gets_its_place_back_whatever_becomes_of_a_request() {
    let registry = registry();
    let inner = service_fn(async |request: Request<()>| match case(&request) {
        "fails" => Err(Broken),
        "panics" => panic!("the service panics"),
        _ => Ok(Response::new(Steps::default().that_says_its_end())),
    });
    let inner = ConcurrencyLimitLayer::new(1).layer(inner);
    let layer = ResourceLayer::new(Arc::clone(&registry), Case).unwrap();
    let mut first = layer.limits(Case).refuse(Case).layer(inner);
    let mut other = first.clone();
    let mut cx = Context::from_waker(Waker::noop());
    let cases = [
        "is admitted",
        "fails",
        "panics",
        "is dropped unpolled",
        "is refused",
        "refusal panics",
        "name panics",
        "choice panics",
        "waits",
        "is dropped in its wait",
    ];
    for case in cases {
        assert!(first.poll_ready(&mut cx).is_ready(), "{case}");
        assert!(other.poll_ready(&mut cx).is_pending(), "{case}: there is one place");
        let content_type = if case == "refusal panics" { "application/grpc" } else { "text/plain" };
        let request = Request::get("/").header("case", case).header("content-type", content_type);
        let request = request.body(()).unwrap();
        let called = catch_unwind(AssertUnwindSafe(|| first.call(request)));
        let waits = match (called, case) {
            (Ok(future), "waits") => Some(future),
            (Ok(future), "is dropped in its wait") => {
                let mut future = Box::pin(future);
                assert!(future.as_mut().poll(&mut cx).is_pending(), "{case}");
                None
            }
            (Ok(future), "is dropped unpolled") => {
                drop(future);
                None
            }
            (Ok(future), _) => {
                drop(catch_unwind(AssertUnwindSafe(|| poll_now(future))));
                None
            }
            (Err(_), _) => None,
        };
        assert!(other.poll_ready(&mut cx).is_ready(), "{case}: the place is not free");
        // A refusal frees the place of this clone.
        let request = Request::get("/").header("case", "is refused").body(()).unwrap();
        drop(other.call(request));
        if let Some(waits) = waits {
            assert_eq!(
                timeout(Duration::from_secs(90), waits).await.unwrap().unwrap().status(),
                200
            );
        }
    }
}

#[test]
fn service_is_not_ready_after_a_refusal_and_is_polled_again() {
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
    assert!(service.poll_ready(&mut cx).is_ready());
    drop(service.call(get("/")));
    assert_eq!(strict.calls.load(Ordering::Relaxed), 1);
}
