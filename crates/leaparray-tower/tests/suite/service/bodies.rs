//! The last frame of a body ends its request, however it is recognized.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use leaparray::Outcome;
use leaparray_tower::{Classify, End, ResourceLayer, open_streams};
use tower::{Layer, Service, service_fn};

use crate::service::{
    CANCELLED, EXCEPTION, IN_FLIGHT, SUCCESS, Step, Steps, answering, by_path, endings_of, get,
    layer,
};
use crate::service::{poll_body, poll_now, registry};

const DATA: Step = Step::Data(b"data");

fn response(body: Steps) -> Response<Steps> {
    Response::new(body)
}

/// Asks for a response, polls its body as often as `polls` says, and drops it. Returns the endings
/// before each poll, after the last one, and after the drop.
fn follow(response: Response<Steps>, request: Request<()>, polls: usize) -> Vec<[u64; 5]> {
    let registry = registry();
    let mut service = layer(&registry).layer(answering(response));
    let path = request.uri().path().to_owned();
    let mut body = poll_now(service.call(request)).unwrap().into_body();
    let mut seen = vec![endings_of(&registry, &path)];
    for _ in 0..polls {
        let _ = poll_body(&mut body);
        seen.push(endings_of(&registry, &path));
    }
    drop(body);
    seen.push(endings_of(&registry, &path));
    seen
}

#[test]
fn empty_body_that_says_so_ends_with_the_head() {
    let body = Steps::default().that_says_its_end();
    assert_eq!(follow(response(body), get("/"), 0), [SUCCESS; 2]);
}

#[test]
fn body_without_a_length_ends_with_its_last_poll() {
    let body = Steps::of([DATA, Step::Pending, DATA]);
    let seen = follow(response(body), get("/"), 4);
    assert_eq!(seen, [IN_FLIGHT, IN_FLIGHT, IN_FLIGHT, IN_FLIGHT, SUCCESS, SUCCESS]);
}

#[test]
fn body_that_says_its_end_ends_with_its_last_frame() {
    let body = Steps::of([DATA, DATA]).that_says_its_end();
    assert_eq!(follow(response(body), get("/"), 2), [IN_FLIGHT, IN_FLIGHT, SUCCESS, SUCCESS]);
}

#[test]
fn body_with_an_announced_length_ends_with_its_last_byte() {
    let body = Steps::of([DATA, DATA]);
    let announced = Response::builder().header(CONTENT_LENGTH, 8).body(body.clone()).unwrap();
    let expected = [IN_FLIGHT, IN_FLIGHT, SUCCESS, SUCCESS];
    assert_eq!(follow(announced, get("/"), 2), expected);
    assert_eq!(follow(response(body.with_length(8)), get("/"), 2), expected);
}

#[test]
fn length_that_the_body_knows_precedes_the_header() {
    let body = Steps::of([DATA, DATA]).with_length(4);
    let response = Response::builder().header(CONTENT_LENGTH, 8).body(body).unwrap();
    assert_eq!(follow(response, get("/"), 2), [IN_FLIGHT, SUCCESS, SUCCESS, SUCCESS]);
}

#[test]
fn trailers_end_the_request() {
    let body = Steps::of([DATA, Step::Trailers(HeaderMap::new())]);
    assert_eq!(follow(response(body), get("/"), 2), [IN_FLIGHT, IN_FLIGHT, SUCCESS, SUCCESS]);
}

#[test]
fn body_that_is_never_sent_ends_with_the_head() {
    let body = || Steps::of([DATA]);
    let head = Request::head("/").body(()).unwrap();
    assert_eq!(follow(response(body()), head, 0), [SUCCESS; 2], "HEAD");
    let connect = Request::builder().method("CONNECT").uri("/").body(()).unwrap();
    assert_eq!(follow(response(body()), connect, 0), [SUCCESS; 2], "CONNECT");
    for status in
        [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED, StatusCode::SWITCHING_PROTOCOLS]
    {
        let response = Response::builder().status(status).body(body()).unwrap();
        assert_eq!(follow(response, get("/"), 0), [SUCCESS; 2], "{status}");
    }
}

#[test]
fn body_that_is_dropped_before_its_end_is_cancelled() {
    let body = Steps::of([DATA, Step::Pending]);
    assert_eq!(follow(response(body), get("/"), 2), [IN_FLIGHT, IN_FLIGHT, IN_FLIGHT, CANCELLED]);
}

#[test]
fn body_that_fails_is_an_exception() {
    let body = Steps::of([DATA, Step::Error, DATA]);
    let seen = follow(response(body), get("/"), 3);
    assert_eq!(seen, [IN_FLIGHT, IN_FLIGHT, EXCEPTION, EXCEPTION, EXCEPTION]);
}

#[test]
fn body_that_panics_is_an_exception_also_if_the_panic_is_caught() {
    let registry = registry();
    let mut service = layer(&registry).layer(answering(response(Steps::of([Step::Panic]))));
    let mut body = poll_now(service.call(get("/"))).unwrap().into_body();
    let caught = catch_unwind(AssertUnwindSafe(|| poll_body(&mut body)));
    assert!(caught.is_err());
    drop(body);
    assert_eq!(endings_of(&registry, "/"), EXCEPTION);
}

#[test]
fn status_of_grpc_is_read_from_the_trailers() {
    let trailers = |code: &'static str| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", code.parse().unwrap());
        Step::Trailers(trailers)
    };
    let grpc = |steps: Vec<Step>| {
        let head = Response::builder().header(CONTENT_TYPE, "application/grpc+proto");
        head.body(Steps::of(steps)).unwrap()
    };
    for (code, ending) in
        [("0", SUCCESS), ("5", SUCCESS), ("13", EXCEPTION), ("1", CANCELLED), ("x", EXCEPTION)]
    {
        let seen = follow(grpc(vec![DATA, trailers(code)]), get("/"), 2);
        assert_eq!(seen, [IN_FLIGHT, IN_FLIGHT, ending, ending], "status {code}");
    }
    let without = follow(grpc(vec![DATA]), get("/"), 2);
    assert_eq!(without, [IN_FLIGHT, IN_FLIGHT, EXCEPTION, EXCEPTION]);
    assert_eq!(follow(grpc(vec![DATA]), get("/"), 1), [IN_FLIGHT, IN_FLIGHT, CANCELLED]);
}

#[test]
fn response_of_grpc_that_ends_without_a_status_is_an_exception() {
    let grpc =
        |body| Response::builder().header(CONTENT_TYPE, "application/grpc").body(body).unwrap();
    let empty = grpc(Steps::default().that_says_its_end());
    assert_eq!(follow(empty, get("/"), 0), [EXCEPTION; 2]);
    // A server that is told that the body has ended need not poll it again.
    let data = grpc(Steps::of([DATA]).that_says_its_end());
    assert_eq!(follow(data, get("/"), 1), [IN_FLIGHT, IN_FLIGHT, EXCEPTION]);
}

#[test]
fn status_of_grpc_without_a_body_is_in_the_head() {
    for (code, ending) in [("0", SUCCESS), ("14", EXCEPTION)] {
        let head = Response::builder()
            .header(CONTENT_TYPE, "application/grpc")
            .header("grpc-status", code);
        let response = head.body(Steps::default().that_says_its_end()).unwrap();
        assert_eq!(follow(response, get("/"), 0), [ending; 2], "status {code}");
    }
}

#[test]
fn event_stream_ends_with_its_head_and_is_open_until_it_is_dropped() {
    for has_deadline in [false, true] {
        let registry = registry();
        let head = Response::builder().header(CONTENT_TYPE, "text/event-stream");
        let response = head.body(Steps::of([DATA, Step::Pending])).unwrap();
        let mut layer = layer(&registry);
        if has_deadline {
            layer = layer.timeout_around(Duration::from_secs(1));
        }
        let mut service = layer.layer(answering(response));
        let mut bodies = [(); 2].map(|()| poll_now(service.call(get("/"))).unwrap().into_body());
        let resource = registry.get("/").unwrap();
        assert_eq!((endings_of(&registry, "/"), open_streams(&resource)), ([2, 0, 0, 0, 0], 2));
        assert!(matches!(poll_body(&mut bodies[0]), Poll::Ready(Some(Ok(_)))));
        drop(bodies);
        assert_eq!((endings_of(&registry, "/"), open_streams(&resource)), ([2, 0, 0, 0, 0], 0));
    }
}

#[test]
fn event_stream_without_a_body_is_never_open() {
    let registry = registry();
    let head = Response::builder().header(CONTENT_TYPE, "text/event-stream");
    let response = head.body(Steps::of([DATA])).unwrap();
    let mut service = layer(&registry).layer(answering(response));
    let _body = poll_now(service.call(Request::head("/").body(()).unwrap())).unwrap();
    assert_eq!(open_streams(&registry.get("/").unwrap()), 0);
}

#[test]
fn body_passes_frames_and_hints_on() {
    let registry = registry();
    let body = Steps::of([DATA, Step::Trailers(HeaderMap::new())]).with_length(4);
    let layer = ResourceLayer::new(registry, by_path).unwrap();
    let mut service = layer.layer(answering(response(body)));
    let mut body = poll_now(service.call(get("/"))).unwrap().into_body();
    assert_eq!(body.size_hint().exact(), Some(4));
    let Poll::Ready(Some(Ok(frame))) = poll_body(&mut body) else { panic!("a frame") };
    assert_eq!(frame.into_data().ok(), Some(&b"data"[..]));
    let Poll::Ready(Some(Ok(frame))) = poll_body(&mut body) else { panic!("a frame") };
    assert!(frame.is_trailers());
    assert!(matches!(poll_body(&mut body), Poll::Ready(None)));
}

#[test]
fn trailers_of_grpc_web_are_part_of_its_body() {
    let web = |content_type| {
        let body = Steps::of([DATA]);
        Response::builder().header(CONTENT_TYPE, content_type).body(body).unwrap()
    };
    let web_ends = [IN_FLIGHT, IN_FLIGHT, SUCCESS, SUCCESS];
    assert_eq!(follow(web("application/grpc-web+proto"), get("/"), 2), web_ends);
    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc; x=y"] {
        let ends = [IN_FLIGHT, IN_FLIGHT, EXCEPTION, EXCEPTION];
        assert_eq!(follow(web(content_type), get("/"), 2), ends, "{content_type}");
    }
}

#[test]
fn body_shorter_than_its_length_is_an_exception() {
    let announced = |body| Response::builder().header(CONTENT_LENGTH, 5).body(body).unwrap();
    let says_end = announced(Steps::of([DATA]).that_says_its_end());
    assert_eq!(follow(says_end, get("/"), 1), [IN_FLIGHT, EXCEPTION, EXCEPTION]);
    let ends_with_a_poll = announced(Steps::of([DATA]));
    let ends = [IN_FLIGHT, IN_FLIGHT, EXCEPTION, EXCEPTION];
    assert_eq!(follow(ends_with_a_poll, get("/"), 2), ends);
    let trailers = announced(Steps::of([DATA, Step::Trailers(HeaderMap::new())]));
    assert_eq!(follow(trailers, get("/"), 2), ends);
}

/// A body that learns between two polls that it has ended.
#[derive(Clone)]
struct Late(Arc<AtomicBool>);

impl Body for Late {
    type Data = &'static [u8];
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<&'static [u8]>, Infallible>>> {
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn body_that_has_ended_before_its_drop_has_ended() {
    for content_type in ["text/plain", "application/grpc"] {
        let registry = registry();
        let ended = Arc::new(AtomicBool::new(false));
        let late = Late(Arc::clone(&ended));
        let response = Response::builder().header(CONTENT_TYPE, content_type).body(late).unwrap();
        let mut service = layer(&registry).layer(answering(response));
        let mut body = poll_now(service.call(get("/"))).unwrap().into_body();
        assert!(poll_body(&mut body).is_pending());
        ended.store(true, Ordering::Relaxed);
        assert_eq!(endings_of(&registry, "/"), IN_FLIGHT);
        drop(body);
        // A response of gRPC without a status has failed.
        let expected = if content_type == "text/plain" { SUCCESS } else { EXCEPTION };
        assert_eq!(endings_of(&registry, "/"), expected);
    }
}

/// Each request ends with its trailers, as a success.
#[derive(Clone)]
struct ByTrailers;

impl<E> Classify<E> for ByTrailers {
    fn head(&self, _: &Parts) -> End {
        End::AtTrailers
    }

    fn trailers(&self, _: Option<&HeaderMap>) -> Outcome {
        Outcome::Success
    }

    fn error(&self, _: &E) -> Outcome {
        Outcome::Exception
    }
}

#[test]
fn body_that_panics_is_an_exception_by_every_classification() {
    let panics = || response(Steps::of([Step::Panic]).that_says_its_end());
    for is_caught_first in [true, false] {
        let registry = registry();
        let mut service = layer(&registry).classify(ByTrailers).layer(answering(panics()));
        let mut body = poll_now(service.call(get("/"))).unwrap().into_body();
        if is_caught_first {
            catch_unwind(AssertUnwindSafe(|| drop(poll_body(&mut body)))).unwrap_err();
            drop(body);
        } else {
            let poll_and_drop = move || drop(poll_body(&mut body));
            catch_unwind(AssertUnwindSafe(poll_and_drop)).unwrap_err();
        }
        assert_eq!(endings_of(&registry, "/"), EXCEPTION);
    }
}

/// A classification with a bug: for heads, or else for trailers.
#[derive(Clone)]
struct Buggy {
    is_in_head: bool,
}

impl<E> Classify<E> for Buggy {
    fn head(&self, _: &Parts) -> End {
        assert!(!self.is_in_head, "a bug");
        End::AtTrailers
    }

    fn trailers(&self, _: Option<&HeaderMap>) -> Outcome {
        panic!("a bug")
    }

    fn error(&self, _: &E) -> Outcome {
        panic!("a bug")
    }
}

#[test]
fn classification_that_panics_is_an_exception_also_if_the_panic_is_caught() {
    let no_trailers = response(Steps::default());
    let trailers = response(Steps::of([Step::Trailers(HeaderMap::new())]));
    for (answer, is_in_head) in [(&no_trailers, true), (&no_trailers, false), (&trailers, false)] {
        let registry = registry();
        let classify = Buggy { is_in_head };
        let mut service = layer(&registry).classify(classify).layer(answering(answer.clone()));
        let mut future = Box::pin(service.call(get("/")));
        let poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Ready(Ok(response))) => {
                let mut body = response.into_body();
                catch_unwind(AssertUnwindSafe(|| drop(poll_body(&mut body)))).unwrap_err();
            }
            polled => assert!(is_in_head && polled.is_err()),
        }
        drop(future);
        assert_eq!(endings_of(&registry, "/"), EXCEPTION, "in the head: {is_in_head}");
    }
    let registry = registry();
    let fails = service_fn(async |_| Err::<Response<Steps>, _>(()));
    let mut service = layer(&registry).classify(Buggy { is_in_head: false }).layer(fails);
    let mut future = Box::pin(service.call(get("/")));
    let poll = || drop(future.as_mut().poll(&mut Context::from_waker(Waker::noop())));
    catch_unwind(AssertUnwindSafe(poll)).unwrap_err();
    drop(future);
    assert_eq!(endings_of(&registry, "/"), EXCEPTION, "in the error");
}
