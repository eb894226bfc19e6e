//! Limiters, waits and refusals.

use std::future::{Ready, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use leaparray::flow::adaptive::{Aimd, Headroom, LimitRange};
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::circuit::CircuitState;
use leaparray::flow::{
    Account, AdaptiveBreaker, AdaptiveLimiter, AllOf, Ask, CircuitBreaker, CircuitConfig,
    ConcurrencyLimiter, Decision, FixedWindowLimiter, LeakyBucket, Limiter, LimiterExt, Quota,
    Rate, Reason, Refusal, Retry, TokenBucket,
};
use leaparray::node::OnDrop;
use leaparray::{Clock, ManualClock, Resource, Timestamp};
use leaparray_tower::{CallError, Fail};
use tower::{Layer, Service, service_fn};

use crate::service::{
    CANCELLED, EXCEPTION, IN_FLIGHT, SUCCESS, Step, Steps, answering, endings_of, get, layer,
    poll_body, poll_now, registry,
};

fn empty() -> Response<Steps> {
    Response::new(Steps::default().that_says_its_end())
}

/// A service that must not be reached.
fn unreachable()
-> impl Service<Request<()>, Response = Response<Steps>, Error = (), Future: Send> + Clone {
    service_fn(async |_: Request<()>| -> Result<Response<Steps>, ()> {
        panic!("a refused request reached the service")
    })
}

fn full_window(clock: &ManualClock) -> Arc<FixedWindowLimiter<ManualClock>> {
    let limiter =
        FixedWindowLimiter::with_clock(Duration::from_secs(60), 5, clock.clone()).unwrap();
    assert!(limiter.try_acquire_many(5).is_admitted());
    Arc::new(limiter)
}

#[test]
fn refused_request_is_answered_with_its_limit_and_never_reaches_the_service() {
    let registry = registry();
    registry.clock().advance(Duration::from_millis(14_500));
    let mut service = layer(&registry).limit(full_window(registry.clock())).layer(unreachable());
    let response = poll_now(service.call(get("/"))).unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(header("retry-after"), "46");
    assert_eq!(header("ratelimit-policy"), "\"default\";q=5;w=60");
    assert_eq!(header("ratelimit"), "\"default\";r=0;t=46");
    assert!(matches!(poll_body(&mut response.into_body()), Poll::Ready(None)));
    assert_eq!(endings_of(&registry, "/"), [0, 0, 0, 1, 0]);
    assert_eq!(registry.get("/").unwrap().refusals()[Reason::LimitReached], 1);
}

#[test]
fn refused_request_of_grpc_gets_a_status_of_grpc() {
    let registry = registry();
    let mut service = layer(&registry).limit(full_window(registry.clock())).layer(unreachable());
    let request = Request::post("/").header("content-type", "application/grpc").body(()).unwrap();
    let response = poll_now(service.call(request)).unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap();
    assert_eq!((response.status().as_u16(), header("content-type")), (200, "application/grpc"));
    assert_eq!((header("grpc-status"), header("grpc-message")), ("8", "the limit is reached"));
    assert_eq!((header("grpc-retry-pushback-ms"), header("retry-after")), ("60000", "60"));
    assert_eq!(header("ratelimit-policy"), "\"default\";q=5;w=60");
}

/// The window has room after a minute.
#[test]
fn client_of_grpc_is_told_not_to_retry_after_its_deadline() {
    let registry = registry();
    let clock = registry.clock();
    let never = Arc::new(
        FixedWindowLimiter::with_clock(Duration::from_secs(60), 0, clock.clone()).unwrap(),
    );
    let calls = [
        (full_window(clock), None, "60000"),
        (full_window(clock), Some("60001m"), "60000"),
        (full_window(clock), Some("1M"), "-1"),
        (full_window(clock), Some("5S"), "-1"),
        (full_window(clock), Some("five"), "60000"),
        (never, Some("1H"), "-1"),
    ];
    for (limiter, timeout, pushback) in calls {
        let mut service = layer(&registry).limit(limiter).layer(unreachable());
        let mut request = Request::post("/").header("content-type", "application/grpc");
        if let Some(timeout) = timeout {
            request = request.header("grpc-timeout", timeout);
        }
        let response = poll_now(service.call(request.body(()).unwrap())).unwrap();
        assert_eq!(response.headers()["grpc-status"], "8");
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], pushback, "{timeout:?}");
    }
}

#[test]
fn refusal_of_a_named_limiter_names_it_to_a_client_of_grpc() {
    let registry = registry();
    let named = Arc::new(full_window(registry.clock()).named("searches"));
    let mut service = layer(&registry).limit(named).layer(unreachable());
    let request = Request::post("/").header("content-type", "application/grpc").body(()).unwrap();
    let response = poll_now(service.call(request)).unwrap();
    assert_eq!(response.headers()["grpc-message"], "searches: the limit is reached");
    assert!(registry.get("/").unwrap().refused_by().iter().eq([("searches", 1)]));
}

/// Refuses each request for one reason.
#[derive(Clone)]
struct Closed(Reason);

impl Limiter for Closed {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(Refusal::new(self.0, Retry::Unknown))
    }
}

#[test]
fn reason_decides_on_the_status() {
    let expected = [
        (Reason::LimitReached, 429, "8"),
        (Reason::WaitTooLong, 429, "8"),
        (Reason::Custom("not % today: \u{e9}"), 429, "8"),
        (Reason::Failing, 503, "14"),
        (Reason::QueueFull, 503, "14"),
    ];
    for (reason, status, code) in expected {
        let mut service = layer(&registry()).limit(Closed(reason)).layer(unreachable());
        let response = poll_now(service.call(get("/"))).unwrap();
        assert_eq!(response.status(), status, "{reason}");
        assert!(!response.headers().contains_key("retry-after"), "the time is not known");
        let request =
            Request::post("/").header("content-type", "application/grpc").body(()).unwrap();
        let response = poll_now(service.call(request)).unwrap();
        assert_eq!(response.headers()["grpc-status"], code, "{reason}");
        if let Reason::Custom(_) = reason {
            assert_eq!(response.headers()["grpc-message"], "not %25 today: %C3%A9");
        }
    }
}

#[test]
fn refusal_can_be_a_typed_error() {
    let registry = registry();
    let layer = layer(&registry).limit(full_window(registry.clock())).refuse(Fail);
    let error = poll_now(layer.layer(unreachable()).call(get("/"))).unwrap_err();
    let CallError::Refused(refused) = error else { panic!("{error:?}") };
    assert_eq!(refused.refusal.reason, Reason::LimitReached);
    assert_eq!(refused.refusal.retry_after(refused.at), Some(Duration::from_secs(60)));
    assert_eq!(
        refused.quotas.iter().map(|it| (it.limit, it.remaining)).collect::<Vec<_>>(),
        [(5, 0)]
    );
}

#[test]
fn each_resource_can_have_a_limiter_of_its_own() {
    let registry = registry();
    let rate = Rate::per_minute(1).unwrap();
    let each = move |resource: &Resource<ManualClock>| {
        let is_limited = resource.name() != "/free";
        is_limited.then(|| Arc::new(TokenBucket::with_clock(rate, 2, resource.clock().clone())))
    };
    let mut service = layer(&registry).limit_each(each).layer(answering(empty()));
    let mut clone = service.clone();
    for path in ["/1", "/2", "/free"] {
        for _ in 0..2 {
            poll_now(service.call(get(path))).unwrap();
            poll_now(clone.call(get(path))).unwrap();
        }
    }
    assert_eq!(endings_of(&registry, "/1"), [2, 0, 0, 2, 0]);
    assert_eq!(endings_of(&registry, "/2"), [2, 0, 0, 2, 0]);
    assert_eq!(endings_of(&registry, "/free"), [4, 0, 0, 0, 0]);
}

#[test]
fn two_layers_over_one_registry_have_limiters_of_their_own() {
    let registry = registry();
    let rate = Rate::per_minute(1).unwrap();
    let bucket = move |resource: &Resource<ManualClock>, burst| {
        Some(Arc::new(TokenBucket::with_clock(rate, burst, resource.clock().clone())))
    };
    let mut two = layer(&registry).limit_each(move |it| bucket(it, 2)).layer(answering(empty()));
    let mut three = layer(&registry).limit_each(move |it| bucket(it, 3)).layer(answering(empty()));
    for _ in 0..4 {
        poll_now(two.call(get("/"))).unwrap();
        poll_now(three.call(get("/"))).unwrap();
    }
    assert_eq!(endings_of(&registry, "/"), [5, 0, 0, 3, 0]);
}

#[test]
fn limiter_can_be_chosen_by_the_request() {
    let registry = registry();
    let full = full_window(registry.clock());
    let choose = move |request: &Request<()>, _: &Resource<ManualClock>| {
        (!request.headers().contains_key("privileged")).then(|| Arc::clone(&full))
    };
    let mut service = layer(&registry).limit_by(choose).layer(answering(empty()));
    let privileged = Request::get("/").header("privileged", "").body(()).unwrap();
    assert_eq!(poll_now(service.call(privileged)).unwrap().status(), 200);
    assert_eq!(poll_now(service.call(get("/"))).unwrap().status(), 429);
    assert_eq!(endings_of(&registry, "/"), [1, 0, 0, 1, 0]);
}

#[test]
fn permit_is_held_until_the_end_of_the_body() {
    let registry = registry();
    let limiter = Arc::new(ConcurrencyLimiter::new(1));
    let response = Response::new(Steps::of([Step::Data(b"data")]));
    let mut service = layer(&registry).limit(Arc::clone(&limiter)).layer(answering(response));
    let mut body = poll_now(service.call(get("/"))).unwrap().into_body();
    assert_eq!(poll_now(service.call(get("/"))).unwrap().status(), 429);
    let _ = poll_body(&mut body);
    assert_eq!(limiter.in_use(), 1);
    let _ = poll_body(&mut body);
    assert_eq!(limiter.in_use(), 0);
    let body = poll_now(service.call(get("/"))).unwrap().into_body();
    drop(body);
    assert_eq!(limiter.in_use(), 0);
    assert_eq!(endings_of(&registry, "/"), [1, 0, 1, 1, 0]);
}

#[test]
fn breaker_of_a_client_learns_from_the_responses() {
    let registry = registry();
    let clock = registry.clock().clone();
    let breaker =
        Arc::new(AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock.clone()));
    let failing = Response::builder().status(500).body(empty().into_body()).unwrap();
    let layer = layer(&registry).limit(Arc::clone(&breaker)).refuse(Fail);
    let mut service = layer.layer(answering(failing));
    let mut refused = 0;
    for _ in 0..11_000 {
        if let Err(CallError::Refused(it)) = poll_now(service.call(get("/"))) {
            assert_eq!(it.refusal.reason, Reason::Failing);
            refused += 1;
        }
        clock.advance(Duration::from_millis(1));
    }
    assert!(breaker.drop_probability_at(breaker.clock().now()) > 0.9);
    assert_eq!(endings_of(&registry, "/"), [0, 11_000 - refused, 0, refused, 0]);
}

fn read_to_end<B: http_body::Body + Unpin>(mut body: B) {
    while !matches!(poll_body(&mut body), Poll::Ready(None)) {}
}

#[test]
fn circuit_breaker_opens_by_the_responses_and_closes_by_its_probes() {
    let registry = registry();
    let clock = registry.clock().clone();
    let config = CircuitConfig::default().consecutive_exceptions(3).probes(1).unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, clock.clone()));
    let failing = Response::builder().status(500).body(empty().into_body()).unwrap();
    let layer = layer(&registry).limit(Arc::clone(&breaker)).refuse(Fail);
    let data = Response::new(Steps::of([Step::Data(b"data")]));
    let [mut fails, mut succeeds] =
        [failing, data].map(|response| layer.layer(answering(response)));
    for _ in 0..3 {
        poll_now(fails.call(get("/"))).unwrap();
    }
    let Err(CallError::Refused(refused)) = poll_now(fails.call(get("/"))) else {
        panic!("the breaker is open");
    };
    let probe_at = clock.now().saturating_add(Duration::from_secs(5));
    assert_eq!(refused.refusal.retry_at(), Some(probe_at));
    clock.set(probe_at);
    // The probe is in flight until the end of its body.
    let probe = poll_now(succeeds.call(get("/"))).unwrap();
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    assert!(poll_now(succeeds.call(get("/"))).is_err());
    read_to_end(probe.into_body());
    assert_eq!(breaker.state(), CircuitState::Closed);
    assert_eq!(endings_of(&registry, "/"), [1, 3, 0, 2, 0]);
}

/// Calls hang, and an outer time-out drops each after 10 s. The policies are those of the layer and
/// of the breaker.
#[test]
fn dropped_futures_open_a_breaker_if_both_policies_say_so() {
    for (policy, of_breaker, state, ending) in [
        (OnDrop::Cancelled, OnDrop::Exception, CircuitState::Closed, CANCELLED),
        (OnDrop::Exception, OnDrop::Exception, CircuitState::Open, EXCEPTION),
        (OnDrop::Exception, OnDrop::Cancelled, CircuitState::Closed, EXCEPTION),
    ] {
        let registry = registry();
        let clock = registry.clock().clone();
        let config = CircuitConfig::default().consecutive_exceptions(3).on_drop(of_breaker);
        let breaker = Arc::new(CircuitBreaker::with_clock(config, clock.clone()));
        let layer = layer(&registry).on_drop(policy).limit(Arc::clone(&breaker));
        let mut service = layer.layer(service_fn(|_: Request<()>| {
            std::future::pending::<Result<Response<Steps>, ()>>()
        }));
        for _ in 0..3 {
            let mut future = pin!(service.call(get("/")));
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            clock.advance(Duration::from_secs(10));
        }
        assert_eq!(breaker.state(), state, "{policy:?} {of_breaker:?}");
        assert_eq!(endings_of(&registry, "/"), ending.map(|it| it * 3));
    }
}

#[test]
fn dropped_futures_lower_the_limit_under_either_policy() {
    for policy in [OnDrop::Cancelled, OnDrop::Exception] {
        let registry = registry();
        let range = LimitRange::new(1, 20, 100).unwrap();
        let clock = registry.clock().clone();
        let limiter = Arc::new(AdaptiveLimiter::with_clock(Headroom::new(range), clock.clone()));
        let layer = layer(&registry).on_drop(policy).limit(Arc::clone(&limiter));
        let mut healthy = layer.layer(answering(empty()));
        for _ in 0..300 {
            let calls = [(); 20].map(|()| healthy.call(get("/")));
            clock.advance(Duration::from_millis(10));
            for call in calls {
                poll_now(call).unwrap();
            }
        }
        let before = limiter.limit();
        let mut hangs = layer.layer(service_fn(|_: Request<()>| {
            std::future::pending::<Result<Response<Steps>, ()>>()
        }));
        for _ in 0..100 {
            let calls: Vec<_> = (0..limiter.limit()).map(|_| hangs.call(get("/"))).collect();
            clock.advance(Duration::from_millis(100));
            drop(calls);
        }
        assert!(before >= 20 && limiter.limit() <= 5, "{policy:?}: {before}, {}", limiter.limit());
        assert_eq!(limiter.in_use(), 0);
    }
}

/// Each ending of a request, and whether a breaker and an adaptive limiter count it as an
/// exception.
#[test]
fn breaker_and_adaptive_limiter_learn_from_every_ending() {
    type Answer = fn() -> Result<Response<Steps>, ()>;
    let endings: [(Answer, bool); 6] = [
        (|| Ok(empty()), false),
        (|| Err(()), true),
        (|| panic!("the future panics"), true),
        (|| Ok(Response::new(Steps::of([Step::Error]))), true),
        (|| Ok(Response::new(Steps::of([Step::Panic]))), true),
        (
            || {
                let head = Response::builder().header("content-type", "text/event-stream");
                Ok(head.body(Steps::of([Step::Pending])).unwrap())
            },
            false,
        ),
    ];
    for (index, (answer, is_exception)) in endings.into_iter().enumerate() {
        let registry = registry();
        let clock = registry.clock().clone();
        let config = CircuitConfig::default().consecutive_exceptions(1);
        let breaker = Arc::new(CircuitBreaker::with_clock(config, clock.clone()));
        // Aimd shrinks with each exception.
        let aimd = Aimd::new(LimitRange::new(1, 100, 100).unwrap());
        let limiter = Arc::new(AdaptiveLimiter::with_clock(aimd, clock));
        let layers =
            layer(&registry).limit(AllOf::new((Arc::clone(&breaker), Arc::clone(&limiter))));
        let mut service = layers.layer(service_fn(move |_: Request<()>| async move { answer() }));
        let call = service.call(get("/"));
        let body = catch_unwind(AssertUnwindSafe(|| poll_now(call).map(Response::into_body)));
        if let Ok(Ok(mut body)) = body {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(poll_body(&mut body))));
            if index == 5 {
                assert_eq!(limiter.in_use(), 0, "a stream holds no permit");
            }
        }
        let state = if is_exception { CircuitState::Open } else { CircuitState::Closed };
        let limit = if is_exception { 90 } else { 100 };
        assert_eq!((breaker.state(), limiter.limit()), (state, limit), "ending {index}");
        assert_eq!(limiter.in_use(), 0, "ending {index}");
        let ending = if is_exception { EXCEPTION } else { SUCCESS };
        assert_eq!(endings_of(&registry, "/"), ending, "ending {index}");
    }
}

#[test]
fn adaptive_limiter_holds_a_permit_until_the_end_of_the_body() {
    let registry = registry();
    let range = LimitRange::new(1, 1, 10).unwrap();
    let clock = registry.clock().clone();
    let limiter = Arc::new(AdaptiveLimiter::with_clock(Headroom::new(range), clock));
    let layer = layer(&registry).limit(Arc::clone(&limiter));
    let mut service = layer.layer(answering(Response::new(Steps::of([Step::Data(b"data")]))));
    let body = poll_now(service.call(get("/"))).unwrap().into_body();
    assert_eq!((limiter.in_use(), limiter.limit()), (1, 1));
    assert_eq!(poll_now(service.call(get("/"))).unwrap().status(), 429);
    read_to_end(body);
    assert_eq!(limiter.in_use(), 0);
    drop(service.call(get("/")));
    assert_eq!(limiter.in_use(), 0, "a request whose future is dropped gives its permit back");
}

/// A bucket that admits a request each second, and lets two wait. One was just admitted.
pub(crate) fn pace(clock: &ManualClock) -> Arc<LeakyBucket<ManualClock>> {
    let rate = Rate::per_second(1).unwrap();
    let bucket = LeakyBucket::with_clock(rate, Duration::from_secs(2), clock.clone());
    assert!(bucket.try_acquire().is_admitted());
    Arc::new(bucket)
}

#[tokio::test(start_paused = true)]
async fn request_waits_in_its_future_and_then_reaches_the_service() {
    let registry = registry();
    let clock = registry.clock().clone();
    let reached = {
        let clock = clock.clone();
        service_fn(move |_: Request<()>| {
            // Reached after the wait, by the timer: the clock of the test follows it.
            clock.advance(Duration::from_secs(1));
            async { Ok::<_, ()>(empty()) }
        })
    };
    let bucket = pace(&clock);
    let mut service = layer(&registry).limit(Arc::clone(&bucket)).layer(reached);
    let start = tokio::time::Instant::now();
    let future = service.call(get("/"));
    assert_eq!(endings_of(&registry, "/"), [0, 0, 0, 0, 1]);
    assert_eq!(future.await.unwrap().status(), 200);
    assert_eq!(start.elapsed().as_secs(), 1);
    assert_eq!(endings_of(&registry, "/"), [1, 0, 0, 0, 0]);
    let max = registry.get("/").unwrap().now().snapshot().long.totals.max_rt();
    assert_eq!(max, Some(Duration::from_secs(1)), "the wait is part of the response time");
    // The second after the wait is taken: nothing was given back.
    assert_eq!(bucket.peek_at(clock.now(), 1).unwrap().wait(), Duration::from_secs(1));
}

/// It has not reached the service, whatever the policy is.
#[tokio::test]
async fn request_that_is_dropped_during_its_wait_is_cancelled_under_either_policy() {
    for policy in [OnDrop::Cancelled, OnDrop::Exception] {
        let registry = registry();
        let layer = layer(&registry).on_drop(policy).limit(pace(registry.clock()));
        let waits = layer.layer(answering(empty())).call(get("/"));
        assert_eq!(endings_of(&registry, "/"), IN_FLIGHT, "{policy:?}");
        drop(waits);
        assert_eq!(endings_of(&registry, "/"), CANCELLED, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_is_dropped_after_its_wait_follows_the_policy() {
    for (policy, ending) in [(OnDrop::Cancelled, CANCELLED), (OnDrop::Exception, EXCEPTION)] {
        let registry = registry();
        let layer = layer(&registry).on_drop(policy).limit(pace(registry.clock()));
        let mut service = layer.layer(service_fn(|_: Request<()>| {
            std::future::pending::<Result<Response<Steps>, ()>>()
        }));
        let call = service.call(get("/"));
        assert!(tokio::time::timeout(Duration::from_secs(60), call).await.is_err());
        assert_eq!(endings_of(&registry, "/"), ending, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_request_that_is_dropped_gives_its_permits_back() {
    let registry = registry();
    let bucket = pace(registry.clock());
    let mut service = layer(&registry).limit(Arc::clone(&bucket)).layer(unreachable());
    for _ in 0..10 {
        let mut future = pin!(service.call(get("/")));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(
            bucket.peek_at(registry.clock().now(), 1).unwrap().wait(),
            Duration::from_secs(2)
        );
    }
    assert_eq!(endings_of(&registry, "/"), [0, 0, 10, 0, 0]);
    let next = bucket.peek_at(registry.clock().now(), 1).unwrap();
    assert_eq!(next.wait(), Duration::from_secs(1), "as before all of them");
}

/// Calls of `refund_at`: the time, the permits and the wait.
type Refunds = Arc<Mutex<Vec<(Timestamp, u64, Duration)>>>;

/// A bucket whose refunds are recorded.
#[derive(Clone)]
struct Recording(Arc<LeakyBucket<ManualClock>>, Refunds);

impl Limiter for Recording {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        let now = ask.now();
        let permits = ask.permits();
        self.0.try_acquire_at(now, permits)
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Recording {
    fn now(&self) -> Timestamp {
        self.0.account().now()
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        let now = ask.now();
        let permits = ask.permits();
        self.1.lock().unwrap().push((now, permits, wait));
        self.0.refund_at(now, permits, wait)
    }
}

#[tokio::test(start_paused = true)]
async fn request_asks_for_one_refund_if_it_is_dropped_during_its_wait() {
    let registry = registry();
    let (now, refunds) = (registry.clock().now(), Refunds::default());
    let limiter = Recording(pace(registry.clock()), Arc::clone(&refunds));
    let panics = service_fn(|_: Request<()>| -> Ready<Result<Response<Steps>, ()>> {
        panic!("the call panics")
    });
    let mut service = layer(&registry).limit(limiter).layer(panics);
    {
        let mut future = pin!(service.call(get("/")));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(refunds.lock().unwrap().is_empty());
    }
    let once = [(now, 1, Duration::from_secs(1))];
    assert_eq!(*refunds.lock().unwrap(), once);
    // After the wait, the request has used its permits, also if the call panics.
    let waits = tokio::spawn(service.call(get("/")));
    assert!(waits.await.unwrap_err().is_panic());
    assert_eq!(*refunds.lock().unwrap(), once);
    assert_eq!(endings_of(&registry, "/"), [0, 1, 1, 0, 0]);
}

#[tokio::test]
async fn permit_is_back_after_every_ending() {
    let registry = registry();
    let limiter = Arc::new(ConcurrencyLimiter::new(1));
    let layer = layer(&registry).limit(Arc::clone(&limiter));
    let with_type = |content_type| {
        let body = Steps::of([Step::Pending]);
        Response::builder().header("content-type", content_type).body(body).unwrap()
    };
    // With the head:
    let mut upgrade = Response::new(Steps::of([Step::Pending]));
    *upgrade.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
    for response in [with_type("text/event-stream"), upgrade] {
        let _response = poll_now(layer.layer(answering(response)).call(get("/"))).unwrap();
        assert_eq!(limiter.in_use(), 0);
    }
    // With the body:
    for step in [Step::Error, Step::Panic] {
        let response = Response::new(Steps::of([step]));
        let mut body =
            poll_now(layer.layer(answering(response)).call(get("/"))).unwrap().into_body();
        assert_eq!(limiter.in_use(), 1);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(poll_body(&mut body))));
        drop(body);
        assert_eq!(limiter.in_use(), 0);
    }
    // With the future:
    let fails = service_fn(|_: Request<()>| ready(Err::<Response<Steps>, ()>(())));
    poll_now(layer.layer(fails).call(get("/"))).unwrap_err();
    assert_eq!(limiter.in_use(), 0);
    let panics = service_fn(async |_: Request<()>| -> Result<Response<Steps>, ()> {
        panic!("the future panics")
    });
    let future = layer.layer(panics).call(get("/"));
    catch_unwind(AssertUnwindSafe(|| drop(poll_now(future)))).unwrap_err();
    assert_eq!(limiter.in_use(), 0);
}

/// A limiter that refuses every request, and has the greatest limit.
#[derive(Clone)]
struct Full;

impl Limiter for Full {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::Unknown))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Full {
    fn quota(&self, _: Timestamp) -> Option<Quota> {
        Some(Quota::new(u64::MAX, u64::MAX - 1, None))
    }
}

#[test]
fn limit_is_cut_at_the_greatest_integer_of_a_header() {
    let mut service = layer(&registry()).limit(Full).layer(answering(empty()));
    let response = poll_now(service.call(get("/"))).unwrap();
    let headers = response.headers();
    assert_eq!(headers["ratelimit-policy"], "\"default\";q=999999999999999");
    assert_eq!(headers["ratelimit"], "\"default\";r=999999999999999");
}
