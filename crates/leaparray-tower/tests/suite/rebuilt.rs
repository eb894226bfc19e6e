//! Routers that are built again, nested and merged, whose requests end in every way: what two
//! layers have counted is what has happened.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, Response};
use axum::routing::any;
use http_body::Frame;
use leaparray::{Clock, ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tower::Service;

type Manual = Registry<ManualClock>;

/// Random numbers, by xorshift.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// A body of unknown length.
struct Chunks(Vec<Result<Frame<Bytes>, &'static str>>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.0.pop())
    }
}

/// How a request ends: the response, how many of its frames the client reads, and the outcome.
#[derive(Clone, Copy, Debug)]
struct Ending {
    status: u16,
    content_type: &'static str,
    content_length: Option<&'static str>,
    body: Sent,
    read: usize,
    outcome: MetricEvent,
}

#[derive(Clone, Copy, Debug)]
enum Sent {
    Empty,
    Whole,
    Chunks { fails: bool, grpc: Option<&'static str> },
}

const ALL: usize = 9;
const CHUNKS: Sent = Sent::Chunks { fails: false, grpc: None };
const FAILS: Sent = Sent::Chunks { fails: true, grpc: None };

const fn grpc(code: &'static str) -> Sent {
    Sent::Chunks { fails: false, grpc: Some(code) }
}

const ENDINGS: [Ending; 20] = {
    const fn of(status: u16, body: Sent, read: usize, outcome: MetricEvent) -> Ending {
        Ending { status, content_type: "text/plain", content_length: None, body, read, outcome }
    }
    use MetricEvent::{Cancelled, Exception, Success};
    const fn typed(content_type: &'static str, ending: Ending) -> Ending {
        Ending { content_type, ..ending }
    }
    const fn long(content_length: &'static str, ending: Ending) -> Ending {
        Ending { content_length: Some(content_length), ..ending }
    }
    [
        of(200, Sent::Whole, ALL, Success),
        of(200, Sent::Whole, 1, Success),
        of(200, Sent::Whole, 0, Cancelled),
        of(500, Sent::Whole, 0, Exception),
        of(408, Sent::Whole, ALL, Exception),
        of(204, Sent::Empty, 0, Success),
        of(304, CHUNKS, 0, Success),
        of(200, Sent::Empty, 0, Success),
        long("0", of(200, CHUNKS, 0, Success)),
        long("6", of(200, CHUNKS, 2, Success)),
        long("7", of(200, CHUNKS, ALL, Exception)),
        of(200, CHUNKS, ALL, Success),
        of(200, CHUNKS, 2, Cancelled),
        of(404, FAILS, ALL, Exception),
        of(503, FAILS, 0, Exception),
        typed("text/event-stream", of(200, FAILS, 1, Success)),
        typed("application/grpc+proto", of(200, grpc("0"), ALL, Success)),
        typed("application/grpc", of(200, grpc("13"), ALL, Exception)),
        typed("application/grpc", of(200, grpc("0"), 2, Cancelled)),
        typed("application/graphql", of(200, CHUNKS, ALL, Success)),
    ]
};

impl Ending {
    fn response(self) -> Response<Body> {
        let body = match self.body {
            Sent::Empty => Body::empty(),
            Sent::Whole => Body::from("whole"),
            Sent::Chunks { fails, grpc } => {
                let mut frames = Vec::new();
                if let Some(code) = grpc {
                    let trailers = HeaderMap::from_iter([(
                        "grpc-status".parse().unwrap(),
                        code.parse().unwrap(),
                    )]);
                    frames.push(Ok(Frame::trailers(trailers)));
                }
                if fails {
                    frames.push(Err("broken"));
                }
                frames.extend(["two", "one"].map(|it| Ok(Frame::data(it.into()))));
                Body::new(Chunks(frames))
            }
        };
        let mut response = Response::builder().status(self.status);
        response = response.header("content-type", self.content_type);
        if let Some(length) = self.content_length {
            response = response.header("content-length", length);
        }
        response.body(body).unwrap()
    }
}

/// Polls a future once, which is then complete.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not complete"),
    }
}

fn registry() -> Arc<Manual> {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    Arc::new(Registry::with_clock(RegistryConfig::default(), clock))
}

/// Makes a router with some of 40 routes, and the template of each.
fn router(draw: &mut Draw) -> (Router, Vec<String>) {
    async fn answer(request: Request<Body>) -> Response<Body> {
        let number: usize = request.headers()["ending"].to_str().unwrap().parse().unwrap();
        ENDINGS[number].response()
    }
    let (mut parts, mut routes) = ([Router::new(), Router::new(), Router::new()], Vec::new());
    for route in 0..40 {
        if draw.below(3) > 0 {
            let at = draw.below(3);
            let template = format!("/{at}/{route}{}/{{id}}", "x".repeat(route % 9));
            let nested = &template[if at == 2 { 2 } else { 0 }..];
            parts[at] = std::mem::take(&mut parts[at]).route(nested, any(answer));
            routes.push(template);
        }
    }
    let [first, second, third] = parts;
    (first.merge(second).nest("/2", third), routes)
}

#[test]
fn requests_of_routers_that_are_built_again_are_counted_as_they_end() {
    let draw = &mut Draw(7);
    // Two of them take turns, and the inner layer has names of a function.
    let outer = [(); 2].map(|()| registry());
    let inner = registry();
    let mut counted = HashMap::<(usize, String), [u64; 3]>::new();
    for _ in 0..60 {
        let (built, routes) = router(draw);
        let number = draw.below(2);
        let by_path = |request: &Request<Body>, name: &mut String| {
            let path = request.uri().path();
            name.push_str(&path[..path.rfind('/').unwrap_or_default()]);
        };
        let mut app: Router = built
            .layer(ResourceLayer::new(Arc::clone(&inner), by_path).unwrap())
            .layer(ResourceLayer::new(Arc::clone(&outer[number]), MatchedRoute).unwrap());
        for _ in 0..draw.below(200) {
            let route = &routes[draw.below(routes.len())];
            let (at, method) = (draw.below(ENDINGS.len()), draw.below(4));
            let method = [Method::GET, Method::GET, Method::POST, Method::HEAD][method].clone();
            let request = Request::builder().method(&method).header("ending", at.to_string());
            let request = request.uri(route.replace("{id}", "17")).body(Body::empty()).unwrap();
            let response: Result<_, Infallible> = now(app.call(request));
            let mut body = response.unwrap().into_body();
            let ending = ENDINGS[at];
            for _ in 0..ending.read {
                let mut context = Context::from_waker(Waker::noop());
                match http_body::Body::poll_frame(Pin::new(&mut body), &mut context) {
                    Poll::Ready(Some(Ok(_))) => {}
                    _ => break,
                }
            }
            drop(body);
            let outcome = match (&method, ending.outcome, ending.content_type) {
                // Without a body: neither an error, nor trailers.
                (&Method::HEAD, _, "application/grpc" | "application/grpc+proto") => {
                    MetricEvent::Exception
                }
                (&Method::HEAD, _, _) if ending.status < 408 => MetricEvent::Success,
                (_, outcome, _) => outcome,
            };
            let at = [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled]
                .iter()
                .position(|it| *it == outcome)
                .unwrap();
            counted.entry((number, format!("{method} {route}"))).or_default()[at] += 1;
            let name = route[..route.rfind('/').unwrap()].to_owned();
            counted.entry((2, name)).or_default()[at] += 1;
        }
        drop(app);
        for (number, registry) in [&outer[0], &outer[1], &inner].into_iter().enumerate() {
            for listed in registry.iter() {
                let Some(counts) = counted.get(&(number, listed.name().to_owned())) else {
                    assert_eq!(listed.lifetime().sum(MetricEvent::Pass), 0, "{}", listed.name());
                    continue;
                };
                let found = [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled]
                    .map(|event| listed.lifetime().sum(event));
                assert_eq!(found, *counts, "{} of {number}", listed.name());
                assert_eq!(listed.concurrency(), 0);
            }
        }
        let of = |number: usize| if number == 2 { &inner } else { &outer[number] };
        counted.retain(|(number, name), _| {
            assert!(of(*number).get(name).is_some(), "{name} of {number}");
            if draw.below(4) == 0 {
                assert!(of(*number).remove(name));
                return false;
            }
            true
        });
        if draw.below(4) == 0 {
            let registry = of(draw.below(3));
            registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
            counted.retain(|(number, name), _| of(*number).get(name).is_some());
        }
    }
}
