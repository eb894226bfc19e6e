//! Ten thousand requests, of which a third is cut at a random byte.

mod http1;
mod http2;

use std::convert::Infallible;
use std::ops::AddAssign;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{StreamExt, future, stream};
use leaparray::Registry;
use leaparray::flow::ConcurrencyLimiter;
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clients::server::{Server, Version, endings, until};

const REQUESTS: usize = 10_000;

const CHUNK: &[u8] = &[b'x'; 200];
/// The chunks of a body before its last one.
const CHUNKS: usize = 4;
const LAST: &[u8] = b"end";
const BODY: usize = CHUNK.len() * CHUNKS + LAST.len();

/// Where a client cuts a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The handler never answers. The client leaves once the handler has the request.
    BeforeHead,
    /// The last chunk never comes. The client leaves at a byte before it.
    BeforeEnd,
}

/// A request, before it is sent.
#[derive(Clone, Copy)]
struct Plan {
    number: usize,
    /// Whether the length of the body is announced.
    is_announced: bool,
    cut: Option<Cut>,
}

impl Plan {
    fn random(number: usize, random: &mut fastrand::Rng) -> Self {
        let cut = (random.u8(..3) == 0).then(|| match random.u8(..8) {
            0 => Cut::BeforeHead,
            _ => Cut::BeforeEnd,
        });
        Self { number, is_announced: random.bool(), cut }
    }

    /// Returns the headers by which the handler knows its part.
    fn headers(self) -> impl Iterator<Item = (&'static str, String)> {
        let cut = self.cut.map(|cut| match cut {
            Cut::BeforeHead => ("cut", "before-head".to_owned()),
            Cut::BeforeEnd => ("cut", "before-end".to_owned()),
        });
        let announced = self.is_announced.then(|| ("announced", "1".to_owned()));
        [("number", self.number.to_string())].into_iter().chain(announced).chain(cut)
    }
}

/// A semaphore for each request, which has a permit once the handler has the request.
struct Arrivals(Vec<Semaphore>);

impl Arrivals {
    fn new() -> Self {
        Self((0..REQUESTS).map(|_| Semaphore::new(0)).collect())
    }

    /// Waits until the handler has a request.
    async fn wait(&self, number: usize) {
        let _permit = self.0[number].acquire().await.unwrap();
    }

    /// Returns how many requests have reached the handler.
    fn count(&self) -> usize {
        self.0.iter().map(Semaphore::available_permits).sum()
    }
}

/// The handler. If a request will be cut, its response never ends. So each cut is before the end of
/// the body, whichever byte it is at.
async fn answer(arrivals: &Arrivals, headers: &HeaderMap) -> Response {
    let number: usize = headers["number"].to_str().unwrap().parse().unwrap();
    arrivals.0[number].add_permits(1);
    let cut = headers.get("cut");
    if cut.is_some_and(|cut| cut == "before-head") {
        future::pending::<()>().await;
    }
    let is_cut = cut.is_some();
    let chunks = stream::iter((0..CHUNKS).map(|_| Bytes::from_static(CHUNK)));
    let last = stream::once(async move {
        if is_cut {
            future::pending::<()>().await;
        }
        Bytes::from_static(LAST)
    });
    let body = Body::from_stream(chunks.chain(last).map(Ok::<_, Infallible>));
    if headers.contains_key("announced") {
        ([(CONTENT_LENGTH, BODY.to_string())], body).into_response()
    } else {
        body.into_response()
    }
}

fn routes(arrivals: Arc<Arrivals>) -> Router {
    let handler = async move |headers: HeaderMap| answer(&arrivals, &headers).await;
    Router::new().route("/body", get(handler))
}

/// What the clients have counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    whole: usize,
    cut: usize,
    /// Requests that the server has not taken, because it stops.
    unanswered: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.whole += other.whole;
        self.cut += other.cut;
        self.unanswered += other.unanswered;
    }
}

/// The server and its clients.
struct Load {
    server: Server,
    /// Has a permit for each request, so that it refuses none.
    limiter: Arc<ConcurrencyLimiter>,
    arrivals: Arc<Arrivals>,
    clients: JoinSet<Counts>,
}

impl Load {
    /// Starts a server, and clients that send all requests. The seeds are fixed, so each run has
    /// the same plans.
    async fn start(version: Version) -> Self {
        let arrivals = Arc::new(Arrivals::new());
        let limiter = Arc::new(ConcurrencyLimiter::new(REQUESTS as u64));
        let registry = Arc::new(Registry::new());
        let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
        let routes = routes(Arc::clone(&arrivals)).layer(layer.limit(Arc::clone(&limiter)));
        let server = Server::start_with(registry, routes).await;
        let address = server.address;
        let lengths = http1::Lengths::measure().await;
        let connections = match version {
            Version::Http1 => http1::CONNECTIONS,
            Version::Http2 => http2::CONNECTIONS,
        };
        let share = REQUESTS / connections;
        let mut clients = JoinSet::new();
        for client in 0..connections {
            let mut random = fastrand::Rng::with_seed(client as u64);
            let numbers = client * share..(client + 1) * share;
            let plans = numbers.map(|number| Plan::random(number, &mut random)).collect();
            let arrivals = Arc::clone(&arrivals);
            match version {
                Version::Http1 => {
                    clients.spawn(http1::drive(address, arrivals, plans, random, lengths))
                }
                Version::Http2 => clients.spawn(http2::drive(address, arrivals, plans, random)),
            };
        }
        Self { server, limiter, arrivals, clients }
    }

    /// Returns the sum of what the clients have counted.
    async fn counts(clients: JoinSet<Counts>) -> Counts {
        let mut sum = Counts::default();
        for counts in clients.join_all().await {
            sum += counts;
        }
        sum
    }
}

async fn all_permits_are_back(limiter: &ConcurrencyLimiter) {
    // A request is counted before it gives its permit back.
    until(|| limiter.in_use() == 0, || format!("{} permits are in use", limiter.in_use())).await;
}

async fn counts_of_clients_equal_those_of_the_resource(version: Version) {
    let Load { server, limiter, arrivals, clients } = Load::start(version).await;
    let counts = Load::counts(clients).await;
    assert_eq!((counts.whole + counts.cut, counts.unanswered), (REQUESTS, 0), "{counts:?}");
    assert_eq!(arrivals.count(), REQUESTS);
    assert!((3_000..3_700).contains(&counts.cut), "{counts:?}");
    server.expect("GET /body", [counts.whole as u64, 0, counts.cut as u64, 0]).await;
    all_permits_are_back(&limiter).await;
    // The route, and the resource of requests without a route.
    assert_eq!(server.registry.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_clients_equal_those_of_the_resource_over_http1() {
    counts_of_clients_equal_those_of_the_resource(Version::Http1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_clients_equal_those_of_the_resource_over_http2() {
    counts_of_clients_equal_those_of_the_resource(Version::Http2).await;
}

/// The server stops while requests are in flight. It answers those that it has, and no others.
async fn counts_are_equal_after_a_shutdown(version: Version) {
    let Load { server, limiter, arrivals, clients } = Load::start(version).await;
    until(|| arrivals.count() >= REQUESTS / 5, || "the clients do not send".to_owned()).await;
    let registry = server.stop().await;
    let counts = Load::counts(clients).await;
    assert!(counts.unanswered > 0, "the server has stopped after the last request: {counts:?}");
    assert_eq!(arrivals.count(), counts.whole + counts.cut, "{counts:?}");
    // Over HTTP/2, hyper runs each request in a task, which it does not join when its connection
    // ends.
    let expected = [counts.whole as u64, 0, counts.cut as u64, 0];
    let ended = || endings(&registry, "GET /body");
    until(|| ended() == expected, || format!("{:?}, not {expected:?}", ended())).await;
    all_permits_are_back(&limiter).await;
    assert_eq!(registry.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_equal_after_a_shutdown_over_http1() {
    counts_are_equal_after_a_shutdown(Version::Http1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_equal_after_a_shutdown_over_http2() {
    counts_are_equal_after_a_shutdown(Version::Http2).await;
}
