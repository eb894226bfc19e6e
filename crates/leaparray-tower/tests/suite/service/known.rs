//! Outcomes that are known before the end of the body, and deadlines that tell what a drop means.

use std::fmt::Debug;
use std::future::{Future, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use leaparray::Outcome;
use leaparray::flow::circuit::CircuitState;
use leaparray::flow::{CircuitBreaker, CircuitConfig};
use leaparray::node::OnDrop;
use leaparray_tower::{ByHead, Classify, End};
use tower::retry::{Policy, Retry};
use tower::{Layer, Service, service_fn};

use crate::service::decisions::pace;
use crate::service::{
    ByPath, CANCELLED, EXCEPTION, IN_FLIGHT, Manual, SUCCESS, Step, Steps, answering, endings_of,
    get, layer, outbound, poll_body, poll_now, registry,
};

const DATA: Step = Step::Data(b"data");

type MakeLayer = fn(&Arc<Manual>) -> ByPath<()>;

/// The layer around a server, and the one around a client.
const LAYERS: [MakeLayer; 2] = [layer, outbound];

/// A response whose body has a frame, and then does not end.
fn with_status(status: u16) -> Response<Steps> {
    Response::builder().status(status).body(Steps::of([DATA, Step::Pending])).unwrap()
}

/// Makes a call, polls the body as often as `polls` says, and drops it before its end.
fn call_and_drop<S, B>(mut service: S, polls: usize)
where
    S: Service<Request<()>, Response = Response<B>, Error: Debug>,
    B: Body + Unpin,
{
    let mut body = poll_now(service.call(get("/"))).unwrap().into_body();
    for _ in 0..polls {
        let _ = poll_body(&mut body);
    }
}

#[test]
fn status_that_is_an_exception_is_one_whatever_becomes_of_the_body() {
    for make in LAYERS {
        for policy in [OnDrop::Cancelled, OnDrop::Exception] {
            for status in [408, 500, 503, 504, 600, 999] {
                for polls in 0..=2 {
                    let registry = registry();
                    let layer = make(&registry).on_drop(policy);
                    call_and_drop(layer.layer(answering(with_status(status))), polls);
                    assert_eq!(endings_of(&registry, "/"), EXCEPTION, "{status}, {polls} polls");
                }
            }
        }
    }
}

#[test]
fn request_with_a_known_outcome_is_in_flight_until_the_drop_of_its_body() {
    let registry = registry();
    let mut service = outbound(&registry).layer(answering(with_status(500)));
    let mut body = poll_now(service.call(get("/"))).unwrap().into_body();
    assert_eq!(endings_of(&registry, "/"), IN_FLIGHT);
    let _ = poll_body(&mut body);
    assert_eq!(endings_of(&registry, "/"), IN_FLIGHT);
    registry.clock().advance(Duration::from_millis(70));
    drop(body);
    let totals = registry.get("/").unwrap().now().snapshot().short.totals;
    assert_eq!(totals.max_rt(), Some(Duration::from_millis(70)));
}

/// The policy of a breaker is about drops that tell nothing. This one tells the status.
#[test]
fn breaker_that_ignores_drops_learns_of_a_status() {
    for make in LAYERS {
        let registry = registry();
        let config = CircuitConfig::default().consecutive_exceptions(3).on_drop(OnDrop::Cancelled);
        let breaker = Arc::new(CircuitBreaker::with_clock(config, registry.clock().clone()));
        let layer = make(&registry).limit(Arc::clone(&breaker));
        for _ in 0..3 {
            assert_eq!(breaker.state(), CircuitState::Closed);
            call_and_drop(layer.layer(answering(with_status(500))), 0);
        }
        assert_eq!(breaker.state(), CircuitState::Open);
    }
}

#[test]
fn body_that_a_client_leaves_unread_is_a_success() {
    for policy in [OnDrop::Cancelled, OnDrop::Exception] {
        let registry = registry();
        let layer = outbound(&registry).on_drop(policy);
        call_and_drop(layer.layer(answering(with_status(200))), 0);
        assert_eq!(endings_of(&registry, "/"), SUCCESS, "{policy:?}");
    }
}

#[test]
fn body_that_is_read_in_part_or_left_by_a_servers_client_follows_the_policy() {
    for (policy, ending) in [(OnDrop::Cancelled, CANCELLED), (OnDrop::Exception, EXCEPTION)] {
        let waits = Response::new(Steps::of([Step::Pending]));
        for (make, response, polls) in [
            (LAYERS[0], with_status(200), 0),
            (LAYERS[0], with_status(200), 1),
            (LAYERS[1], with_status(200), 1),
            // The caller has waited for the body.
            (LAYERS[1], waits, 1),
        ] {
            let registry = registry();
            let layer = make(&registry).on_drop(policy);
            call_and_drop(layer.layer(answering(response)), polls);
            assert_eq!(endings_of(&registry, "/"), ending, "{policy:?}, {polls}");
        }
    }
}

#[test]
fn caller_that_panics_with_an_unread_body_is_an_exception() {
    let registry = registry();
    let mut service = outbound(&registry).layer(answering(with_status(200)));
    let panics = || {
        let _response = poll_now(service.call(get("/"))).unwrap();
        panic!("a bug of the caller");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
}

/// With cancelled probes only, the breaker would admit one call at a time for ever.
#[test]
fn caller_that_reads_no_body_closes_the_breaker_by_its_probes() {
    let registry = registry();
    let clock = registry.clock().clone();
    let config = CircuitConfig::default().consecutive_exceptions(1).probes(1).unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, clock.clone()));
    let layer = outbound(&registry).limit(Arc::clone(&breaker));
    call_and_drop(layer.layer(answering(with_status(503))), 0);
    assert_eq!(breaker.state(), CircuitState::Open);
    clock.advance(Duration::from_secs(5));
    call_and_drop(layer.layer(answering(with_status(200))), 0);
    assert_eq!(breaker.state(), CircuitState::Closed);
}

/// Ends each request with its head, as a success.
#[derive(Clone)]
struct Streams;

impl<E> Classify<E> for Streams {
    fn head(&self, _: &Parts) -> End {
        End::AtHeadOfStream(Outcome::Success)
    }

    fn trailers(&self, _: Option<&HeaderMap>) -> Outcome {
        unreachable!("no request ends with its trailers")
    }

    fn error(&self, _: &E) -> Outcome {
        Outcome::Exception
    }
}

#[test]
fn stream_that_its_caller_drops_closes_the_breaker_if_it_ends_with_its_head() {
    let registry = registry();
    let clock = registry.clock().clone();
    let config = CircuitConfig::default().consecutive_exceptions(1).probes(1).unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, clock.clone()));
    let layer = outbound(&registry).limit(Arc::clone(&breaker));
    call_and_drop(layer.layer(answering(with_status(503))), 0);
    clock.advance(Duration::from_secs(5));
    let watch = || {
        let head = Response::builder().header(CONTENT_TYPE, "application/grpc");
        answering(head.body(Steps::of([DATA, Step::Pending])).unwrap())
    };
    for _ in 0..3 {
        call_and_drop(layer.layer(watch()), 1);
        assert_eq!(breaker.state(), CircuitState::HalfOpen, "a cancellation tells nothing");
    }
    call_and_drop(layer.classify(Streams).layer(watch()), 1);
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[test]
fn cancellation_that_the_head_tells_is_one_whatever_becomes_of_the_body() {
    let by_head = ByHead(|_: &Parts| Outcome::Cancelled);
    for polls in 0..=2 {
        let registry = registry();
        let layer = layer(&registry).on_drop(OnDrop::Exception).classify(by_head);
        call_and_drop(layer.layer(answering(with_status(499))), polls);
        assert_eq!(endings_of(&registry, "/"), CANCELLED, "{polls} polls");
    }
}

/// Retries a status of 500 or above as often as the number says.
#[derive(Clone)]
struct Retries(usize);

impl<B, E> Policy<Request<()>, Response<B>, E> for Retries {
    type Future = std::future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<()>,
        result: &mut Result<Response<B>, E>,
    ) -> Option<Self::Future> {
        let fails = result.as_ref().is_ok_and(|response| response.status().as_u16() >= 500);
        self.0 = self.0.checked_sub(usize::from(fails))?;
        fails.then(|| ready(()))
    }

    fn clone_request(&mut self, _: &Request<()>) -> Option<Request<()>> {
        Some(get("/"))
    }
}

#[test]
fn retries_around_the_layer_are_requests_and_those_inside_are_part_of_one() {
    let registry_around = registry();
    let service = outbound(&registry_around).layer(answering(with_status(503)));
    call_and_drop(Retry::new(Retries(2), service), 0);
    assert_eq!(endings_of(&registry_around, "/"), [0, 3, 0, 0, 0]);
    let registry_inside = registry();
    let retries = Retry::new(Retries(2), answering(with_status(503)));
    call_and_drop(outbound(&registry_inside).layer(retries), 0);
    assert_eq!(endings_of(&registry_inside, "/"), EXCEPTION);
}

fn call_of_grpc(timeout: &str) -> Request<()> {
    let call = Request::post("/").header(CONTENT_TYPE, "application/grpc+proto");
    call.header("grpc-timeout", timeout).body(()).unwrap()
}

/// Where a call is when its caller gives up.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Head,
    Body,
    /// It is not dropped: the server's status is that it was cancelled.
    StatusInHead,
    StatusInTrailers,
}

const STAGES: [Stage; 4] = [Stage::Head, Stage::Body, Stage::StatusInHead, Stage::StatusInTrailers];

/// Returns how a call ends that is given up at a stage, `after` its begin.
fn given_up(
    make: impl Fn(&Arc<Manual>) -> ByPath<()>,
    call: Request<()>,
    stage: Stage,
    after: Duration,
) -> [u64; 5] {
    let registry = registry();
    let clock = registry.clock().clone();
    let mut status = HeaderMap::new();
    status.insert("grpc-status", 1.into());
    let head = || Response::builder().header(CONTENT_TYPE, "application/grpc");
    let layer = make(&registry);
    match stage {
        Stage::Head => {
            let hangs = |_: Request<()>| pending::<Result<Response<Steps>, ()>>();
            let mut service = layer.layer(service_fn(hangs));
            let mut future = pin!(service.call(call));
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            clock.advance(after);
        }
        Stage::StatusInHead => {
            let slow = service_fn(|_: Request<()>| {
                clock.advance(after);
                let head = head().header("grpc-status", "1");
                ready(Ok::<_, ()>(head.body(Steps::default()).unwrap()))
            });
            poll_now(layer.layer(slow).call(call)).unwrap();
        }
        Stage::Body | Stage::StatusInTrailers => {
            let steps = Steps::of([DATA, Step::Trailers(status)]);
            let mut service = layer.layer(answering(head().body(steps).unwrap()));
            let mut body = poll_now(service.call(call)).unwrap().into_body();
            let _ = poll_body(&mut body);
            clock.advance(after);
            if matches!(stage, Stage::StatusInTrailers) {
                let _ = poll_body(&mut body);
            }
        }
    }
    endings_of(&registry, "/")
}

/// The deadline of the header is the client's, whose time begins before the request arrives.
#[test]
fn call_of_grpc_that_is_given_up_in_the_second_half_of_its_time_is_an_exception() {
    for (timeout, half) in [
        ("2H", Duration::from_secs(3_600)),
        ("1M", Duration::from_secs(30)),
        ("1S", Duration::from_millis(500)),
        ("100m", Duration::from_millis(50)),
        ("100000u", Duration::from_millis(50)),
        ("99999998n", Duration::from_nanos(49_999_999)),
    ] {
        for stage in STAGES {
            for make in LAYERS {
                let end = |after| given_up(make, call_of_grpc(timeout), stage, after);
                let before = half.saturating_sub(Duration::from_nanos(1));
                assert_eq!(end(before), CANCELLED, "{timeout}, {stage:?}");
                assert_eq!(end(half), EXCEPTION, "{timeout}, {stage:?}");
            }
        }
    }
}

#[test]
fn timeout_of_grpc_that_is_malformed_is_none() {
    let day = Duration::from_secs(86_400);
    for timeout in ["", "1", "S", "1s", "-1S", "+1S", "1.5S", "123456789n", "1 S"] {
        let end = given_up(layer, call_of_grpc(timeout), Stage::Head, day);
        assert_eq!(end, CANCELLED, "{timeout:?}");
    }
    // All calls of gRPC are posted.
    let get = Request::get("/").header(CONTENT_TYPE, "application/grpc");
    let get = get.header("grpc-timeout", "1S").body(()).unwrap();
    assert_eq!(given_up(layer, get, Stage::Head, day), CANCELLED);
}

#[test]
fn timeout_of_grpc_is_read_in_calls_of_grpc_only() {
    let day = Duration::from_secs(86_400);
    let end = |content_type: Option<&str>| {
        let mut post = Request::post("/").header("grpc-timeout", "1S").body(()).unwrap();
        if let Some(content_type) = content_type {
            post.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
        }
        given_up(layer, post, Stage::Head, day)
    };
    for content_type in [None, Some("application/json"), Some("application/grpcs")] {
        assert_eq!(end(content_type), CANCELLED, "{content_type:?}");
    }
    for content_type in ["application/grpc", "application/grpc-web+proto"] {
        assert_eq!(end(Some(content_type)), EXCEPTION, "{content_type:?}");
    }
}

#[test]
fn call_of_a_client_is_not_overdue_within_10_ms() {
    let floor = Duration::from_millis(10);
    let before = Duration::from_nanos(9_999_999);
    for timeout in ["0n", "1n", "19m", "20m"] {
        for stage in STAGES {
            let end = |after| given_up(layer, call_of_grpc(timeout), stage, after);
            assert_eq!(end(before), CANCELLED, "{timeout}, {stage:?}");
            assert_eq!(end(floor), EXCEPTION, "{timeout}, {stage:?}");
        }
    }
    // The program chooses the deadlines of its own calls.
    let own = given_up(outbound, call_of_grpc("1m"), Stage::Head, Duration::from_micros(500));
    assert_eq!(own, EXCEPTION);
}

#[test]
fn client_that_leaves_at_once_opens_no_breaker() {
    let registry = registry();
    let config = CircuitConfig::default().consecutive_exceptions(3);
    let breaker = Arc::new(CircuitBreaker::with_clock(config, registry.clock().clone()));
    let hangs = |_: Request<()>| pending::<Result<Response<Steps>, ()>>();
    let mut service = layer(&registry).limit(Arc::clone(&breaker)).layer(service_fn(hangs));
    for _ in 0..3 {
        drop(service.call(call_of_grpc("1n")));
    }
    let end = endings_of(&registry, "/");
    assert_eq!((end, breaker.state()), ([0, 0, 3, 0, 0], CircuitState::Closed));
}

#[test]
fn future_that_is_dropped_at_the_timeout_around_it_is_an_exception() {
    let around = |registry: &_| layer(registry).timeout_around(Duration::from_secs(10));
    let end = |stage, after| given_up(around, get("/"), stage, after);
    let (before, at) = (Duration::from_millis(8_999), Duration::from_secs(9));
    assert_eq!(end(Stage::Head, before), CANCELLED);
    assert_eq!(end(Stage::Head, at), EXCEPTION);
    assert_eq!(end(Stage::Body, at), CANCELLED, "the time-out has ended with the head");
    // The shorter one of two applies until the head, and the one of the call after it.
    let of_call = |stage, after| given_up(around, call_of_grpc("1H"), stage, after);
    assert_eq!(of_call(Stage::Head, at), EXCEPTION);
    assert_eq!(of_call(Stage::Body, at), CANCELLED);
    assert_eq!(of_call(Stage::Body, Duration::from_secs(1_800)), EXCEPTION);
}

#[test]
fn body_that_is_dropped_after_the_time_of_a_timeout_around_is_cancelled() {
    let registry = registry();
    let layer = layer(&registry).timeout_around(Duration::from_secs(1));
    let mut service = layer.layer(answering(with_status(200)));
    let body = poll_now(service.call(get("/"))).unwrap().into_body();
    registry.clock().advance(Duration::from_secs(10));
    drop(body);
    assert_eq!(endings_of(&registry, "/"), CANCELLED);
}

/// It has not reached the service, whose fault the delay is not.
#[tokio::test(start_paused = true)]
async fn timeout_around_is_a_cancellation_during_the_wait_and_an_exception_after_it() {
    for (has_waited, ending) in [(false, CANCELLED), (true, EXCEPTION)] {
        for (around, call) in [(10, get("/")), (3_600, call_of_grpc("1S"))] {
            let registry = registry();
            let around = Duration::from_secs(around);
            let layer = layer(&registry).timeout_around(around).limit(pace(registry.clock()));
            let hangs = |_: Request<()>| pending::<Result<Response<Steps>, ()>>();
            let mut service = layer.layer(service_fn(hangs));
            let mut future = pin!(service.call(call));
            if has_waited {
                let waits = tokio::time::timeout(Duration::from_secs(60), future.as_mut());
                assert!(waits.await.is_err());
            }
            registry.clock().advance(Duration::from_secs(10));
            future.set(service.call(get("/")));
            assert_eq!(endings_of(&registry, "/")[..3], ending[..3], "{has_waited}");
        }
    }
}

#[test]
fn breaker_that_ignores_drops_learns_of_a_timeout() {
    let timeout = Duration::from_secs(10);
    let registry = registry();
    let clock = registry.clock().clone();
    let config = CircuitConfig::default().consecutive_exceptions(3).on_drop(OnDrop::Cancelled);
    let breaker = Arc::new(CircuitBreaker::with_clock(config, clock.clone()));
    let layer = outbound(&registry).limit(Arc::clone(&breaker)).timeout_around(timeout);
    let hangs = |_: Request<()>| pending::<Result<Response<Steps>, ()>>();
    let mut service = layer.layer(service_fn(hangs));
    for _ in 0..3 {
        assert_eq!(breaker.state(), CircuitState::Closed);
        let future = service.call(get("/"));
        clock.advance(timeout);
        drop(future);
    }
    assert_eq!(breaker.state(), CircuitState::Open);
}
