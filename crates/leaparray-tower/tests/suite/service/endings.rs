//! How a request ends by its future, its service, and its times.

use std::future::{Ready, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use leaparray::node::ResponseClass;
use leaparray::{HistogramConfig, MetricEvent, NodeConfig, Outcome, RegistryConfig};
use leaparray_tower::{ByHead, FirstByte};
use tower::{Layer, Service, service_fn};

use crate::service::{
    CANCELLED, EXCEPTION, IN_FLIGHT, SUCCESS, Step, Steps, answering, endings_of, get, layer,
};
use crate::service::{poll_body, poll_now, registry, registry_with};

fn with_status(status: u16) -> Response<Steps> {
    let body = Steps::default().that_says_its_end();
    Response::builder().status(status).body(body).unwrap()
}

/// A 404 and a 200 are successes, and an operator tells them apart by their classes.
#[test]
fn responses_are_counted_by_class() {
    let registry = registry();
    for status in [200, 204, 304, 404, 404, 429, 500, 999] {
        let mut service = layer(&registry).layer(answering(with_status(status)));
        poll_now(service.call(get("/"))).unwrap();
    }
    // These have no response.
    let mut fails = layer(&registry).layer(service_fn(async |_| Err::<Response<Steps>, _>(())));
    assert!(poll_now(fails.call(get("/"))).is_err());
    let never = service_fn(|_: Request<()>| pending::<Result<Response<Steps>, ()>>());
    drop(layer(&registry).layer(never).call(get("/")));
    assert_eq!(endings_of(&registry, "/"), [6, 3, 1, 0, 0]);
    let responses = registry.get("/").unwrap().responses();
    assert_eq!(ResponseClass::ALL.map(|class| responses[class]), [0, 2, 1, 3, 2]);
}

#[test]
fn future_that_is_dropped_is_cancelled() {
    let registry = registry();
    let never = service_fn(|_: Request<()>| pending::<Result<Response<Steps>, ()>>());
    let mut service = layer(&registry).layer(never);
    {
        let mut future = pin!(service.call(get("/")));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(endings_of(&registry, "/"), IN_FLIGHT);
    }
    assert_eq!(endings_of(&registry, "/"), CANCELLED);
}

#[test]
fn future_that_is_never_polled_is_cancelled() {
    let registry = registry();
    let mut service = layer(&registry).layer(answering(with_status(200)));
    drop(service.call(get("/")));
    assert_eq!(endings_of(&registry, "/"), CANCELLED);
}

#[test]
fn future_that_panics_is_an_exception_also_if_the_panic_is_caught() {
    let registry = registry();
    let panics =
        service_fn(async |_: Request<()>| -> Result<Response<Steps>, ()> { panic!("a bug") });
    let mut service = layer(&registry).layer(panics);
    let mut future = Box::pin(service.call(get("/")));
    let poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
    drop(future);
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
}

#[test]
fn call_that_panics_is_an_exception() {
    let registry = registry();
    let panics =
        service_fn(|_: Request<()>| -> Ready<Result<Response<Steps>, ()>> { panic!("a bug") });
    let mut service = layer(&registry).layer(panics);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(service.call(get("/"))))).is_err());
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
}

#[test]
fn error_of_the_service_is_an_exception() {
    let registry = registry();
    let fails = service_fn(async |_: Request<()>| Err::<Response<Steps>, _>("no route to host"));
    let mut service = layer(&registry).layer(fails);
    assert_eq!(poll_now(service.call(get("/"))).unwrap_err(), "no route to host");
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
}

#[test]
fn statuses_of_408_and_of_500_or_above_are_exceptions() {
    for (status, ending) in [
        (200, SUCCESS),
        (404, SUCCESS),
        (407, SUCCESS),
        (408, EXCEPTION),
        (409, SUCCESS),
        (429, SUCCESS),
        (499, SUCCESS),
        (500, EXCEPTION),
        (503, EXCEPTION),
        (504, EXCEPTION),
        (600, EXCEPTION),
        (999, EXCEPTION),
    ] {
        let registry = registry();
        let mut service = layer(&registry).layer(answering(with_status(status)));
        poll_now(service.call(get("/"))).unwrap();
        assert_eq!(endings_of(&registry, "/"), ending, "status {status}");
    }
}

#[test]
fn closure_can_classify_by_the_head() {
    let registry = registry();
    let by_head = |head: &http::response::Parts| match head.status {
        StatusCode::TOO_MANY_REQUESTS => Outcome::Exception,
        _ => Outcome::Success,
    };
    let mut service = layer(&registry).classify(ByHead(by_head)).layer(answering(with_status(429)));
    poll_now(service.call(get("/"))).unwrap();
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
}

#[test]
fn response_time_lasts_until_the_end_of_the_body_and_the_first_byte_is_beside_it() {
    let registry = registry_with(
        RegistryConfig::default()
            .node(NodeConfig::default().with_histogram(HistogramConfig::default())),
    );
    let clock = registry.clock().clone();
    let [to_head, to_end] = [30, 70].map(Duration::from_millis);
    let response = Response::new(Steps::of([Step::Data(b"data")]));
    let slow = {
        let clock = clock.clone();
        service_fn(move |_: Request<()>| {
            clock.advance(to_head);
            let response = response.clone();
            async { Ok::<_, ()>(response) }
        })
    };
    let mut service = layer(&registry).first_byte(true).layer(slow);
    let mut body = poll_now(service.call(get("/"))).unwrap().into_body();
    let _ = poll_body(&mut body);
    clock.advance(to_end);
    let _ = poll_body(&mut body);
    let resource = registry.get("/").unwrap();
    assert_eq!(resource.now().snapshot().short.totals.max_rt(), Some(to_head + to_end));
    let first_byte = FirstByte::of(&resource).unwrap();
    assert_eq!(first_byte.now().totals().max_rt(), Some(to_head));
    assert_eq!(first_byte.now().sum(MetricEvent::Success), 1);
    assert_eq!(first_byte.now().histogram().unwrap().count(), 1);
}

/// Returns the endings after the head of a response with this content type and headers, whose body
/// has not ended.
fn after_the_head(content_type: &str, headers: &[(&'static str, &str)]) -> [u64; 5] {
    let mut response = Response::builder().header(CONTENT_TYPE, content_type);
    for &(name, value) in headers {
        response = response.header(name, value);
    }
    let registry = registry();
    let body = Steps::of([Step::Pending]);
    let mut service = layer(&registry).layer(answering(response.body(body).unwrap()));
    let response = poll_now(service.call(get("/"))).unwrap();
    let endings = endings_of(&registry, "/");
    drop(response);
    endings
}

#[test]
fn response_with_a_status_of_grpc_in_its_head_ends_with_the_head() {
    for content_type in ["application/grpc", "application/grpc-web+proto"] {
        let after = |code| after_the_head(content_type, &[("grpc-status", code)]);
        assert_eq!(after("0"), SUCCESS);
        assert_eq!(after("1"), CANCELLED);
        // So tonic says that a deadline has expired.
        let after_1 = |message| {
            after_the_head(content_type, &[("grpc-status", "1"), ("grpc-message", message)])
        };
        assert_eq!(after_1("Timeout%20expired"), EXCEPTION);
        assert_eq!(after_1("Timeout expired"), EXCEPTION);
        assert_eq!(after_1("Timeout"), CANCELLED);
        assert_eq!(after("5"), SUCCESS);
        // The last two are undefined, and count as `UNKNOWN`.
        for failure in ["2", "14", "17", "99"] {
            assert_eq!(after(failure), EXCEPTION, "{failure}");
        }
    }
    assert_eq!(after_the_head("application/grpcx", &[("grpc-status", "14")]), IN_FLIGHT);
}

#[test]
fn content_types_are_recognized_without_case_and_with_parameters() {
    for content_type in ["text/event-stream", "Text/Event-Stream ; charset=utf-8"] {
        assert_eq!(after_the_head(content_type, &[]), SUCCESS, "{content_type}");
    }
    for content_type in ["text/event-stream-index", "text/event-stream+x", "text/event-strea"] {
        assert_eq!(after_the_head(content_type, &[]), IN_FLIGHT, "{content_type}");
    }
    let code = [("grpc-status", "14")];
    for content_type in [
        "Application/GRPC",
        "application/grpc ;x",
        "application/grpc-web",
        "application/grpc-web-text+proto",
    ] {
        assert_eq!(after_the_head(content_type, &code), EXCEPTION, "{content_type}");
    }
}

#[test]
fn answer_of_grpc_to_a_head_request_ends_with_the_head() {
    let registry = registry();
    let body = Steps::of([Step::Pending]);
    let response = Response::builder().header(CONTENT_TYPE, "application/grpc").body(body).unwrap();
    let mut service = layer(&registry).layer(answering(response));
    let request = Request::head("/").body(()).unwrap();
    let _response = poll_now(service.call(request)).unwrap();
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
}
