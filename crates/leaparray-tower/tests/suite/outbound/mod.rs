//! What a circuit breaker around a client learns from each way in which a call can fail, by real
//! clients over loopback.

mod server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use leaparray::Outcome::{self, Cancelled, Exception, Success};
use leaparray::flow::circuit::CircuitState;
use leaparray::flow::{CircuitBreaker, CircuitConfig};
use leaparray::{MetricEvent, Registry};
use leaparray_tower::{ByStatus, CallError, Fail, ResourceLayer, SharedLimiter};
use tonic::client::{Grpc, GrpcService};
use tonic::transport::Endpoint;
use tower::timeout::Timeout;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::timeout::{ResponseBodyTimeoutLayer, TimeoutLayer};

use crate::text::Text;

/// The deadline of a call that hangs.
const DEADLINE: Duration = Duration::from_millis(50);

/// A deadline that only a defect reaches.
const PATIENCE: Duration = Duration::from_secs(20);

/// The use that a caller makes of the body of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Read,
    /// Dropped, unread.
    Unread,
    /// Dropped after its first frame.
    HalfRead,
}

use Fate::{HalfRead, Read, Unread};

const FATES: [Fate; 3] = [Read, Unread, HalfRead];

/// The number of exceptions in a row at which the breaker opens.
const LIMIT: u64 = 3;

type Breaker = SharedLimiter<Arc<CircuitBreaker>>;
type Outbound<A> = ResourceLayer<fn(&Request<A>, &mut String), ByStatus, Breaker, Fail>;

/// A resource of a backend, and its breaker.
struct Backend {
    registry: Arc<Registry>,
    breaker: Arc<CircuitBreaker>,
}

impl Backend {
    fn new() -> Self {
        let registry = Arc::new(Registry::new());
        let config = CircuitConfig::default().consecutive_exceptions(LIMIT);
        let breaker = CircuitBreaker::with_clock(config, registry.clock().clone());
        Self { registry, breaker: Arc::new(breaker) }
    }

    fn layer<A>(&self) -> Outbound<A> {
        let name: fn(&Request<A>, &mut String) = |_, name| name.push_str("backend");
        let layer = ResourceLayer::outbound(Arc::clone(&self.registry), name).unwrap();
        layer.limit(Arc::clone(&self.breaker)).refuse(Fail)
    }

    /// Makes as many calls as open the breaker if they are exceptions. Returns what the breaker and
    /// the resource have learned, if it is not that each call has ended with `outcome`.
    async fn mismatch(&self, outcome: Outcome, mut call: impl AsyncFnMut()) -> Option<Learned> {
        for _ in 0..LIMIT {
            call().await;
        }
        let resource = self.registry.get("backend").unwrap();
        let totals = resource.lifetime();
        let learned = Learned {
            breaker: self.breaker.state(),
            endings: ENDINGS.map(|it| totals.sum(it.event())),
            refused: totals.sum(MetricEvent::Block),
            in_flight: resource.concurrency(),
        };
        let open = outcome == Exception;
        let expected = Learned {
            breaker: if open { CircuitState::Open } else { CircuitState::Closed },
            endings: ENDINGS.map(|it| if it == outcome { LIMIT } else { 0 }),
            refused: 0,
            in_flight: 0,
        };
        (learned != expected).then_some(learned)
    }
}

const ENDINGS: [Outcome; 3] = [Success, Exception, Cancelled];

#[derive(Debug, PartialEq, Eq)]
struct Learned {
    breaker: CircuitState,
    /// The number of each of [`ENDINGS`].
    endings: [u64; 3],
    refused: u64,
    in_flight: u64,
}

/// The calls over HTTP that fail: what the server does, what becomes of the body, and how the
/// request ends.
fn http_calls() -> Vec<(String, Fate, Outcome)> {
    let mut calls = vec![
        ("breaks/200".to_owned(), Read, Exception),
        // The caller has the head that it wants, and does not learn that the rest is missing.
        ("breaks/200".to_owned(), Unread, Success),
        // As if the caller had given up.
        ("breaks/200".to_owned(), HalfRead, Cancelled),
    ];
    for fate in FATES {
        for status in [408, 500, 503, 504] {
            calls.push((format!("ends/{status}"), fate, Exception));
        }
        calls.push(("breaks/500".to_owned(), fate, Exception));
        calls.push(("hangs".to_owned(), fate, Exception));
    }
    calls.push(("body-hangs/200".to_owned(), Read, Exception));
    calls.push(("ends/200".to_owned(), Read, Success));
    calls.push(("ends/404".to_owned(), Unread, Success));
    calls
}

/// Calls a server in each way, and servers that cannot be reached, with clients that have a
/// deadline.
async fn check_http<S, A, B>(
    client: impl Fn(Duration) -> S,
    request: impl Fn(String, Duration) -> Request<A>,
) where
    S: Service<Request<A>, Response = Response<B>, Error: std::fmt::Debug> + Clone,
    A: 'static,
    B: Body<Data: 'static, Error: std::fmt::Debug> + Unpin,
{
    let answering = server::start().await;
    let closed = [server::start_resetting().await, server::refusing()]
        .map(|address| (address, String::new(), Read, Exception));
    let calls = http_calls().into_iter().map(|(path, fate, end)| (answering, path, fate, end));
    let mut wrong = Vec::new();
    for (address, path, fate, outcome) in calls.chain(closed) {
        let backend = Backend::new();
        let deadline = if path.contains("hangs") { DEADLINE } else { PATIENCE };
        let mut service = backend.layer().layer(client(deadline));
        let url = format!("http://{address}/{path}");
        let call = async || {
            let response =
                service.ready().await.unwrap().call(request(url.clone(), deadline)).await;
            match response {
                Ok(response) => end(response.into_body(), fate).await,
                Err(CallError::Service(_)) => {}
                Err(refused) => panic!("{refused:?}"),
            }
        };
        if let Some(learned) = backend.mismatch(outcome, call).await {
            wrong.push(format!("{url}, {fate:?}: {learned:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn end<B: Body<Error: std::fmt::Debug> + Unpin>(mut body: B, fate: Fate) {
    match fate {
        Read => while let Some(Ok(_)) = body.frame().await {},
        Unread => {}
        HalfRead => {
            // The answer of a time-out has no body.
            if let Some(frame) = body.frame().await {
                frame.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn breaker_around_hyper_opens_after_its_number_of_failures() {
    let get = |url, _| Request::get(url).body(Empty::new()).unwrap();
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let http2: Client<_, Empty<Bytes>> =
        Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let with_timeout = |client: &Client<_, _>, deadline| {
        ServiceBuilder::new()
            // Boxed, since the body with the time-out is neither `Unpin` nor `Default`.
            .map_response(|response: Response<_>| response.map(axum::body::Body::new))
            .layer(ResponseBodyTimeoutLayer::new(deadline))
            .service(client.clone())
    };
    // tower's time-out is an error, and tower-http's is a response.
    for client in [&client, &http2] {
        let fails = |deadline| Timeout::new(with_timeout(client, deadline), deadline);
        check_http(fails, get).await;
    }
    for status in [StatusCode::REQUEST_TIMEOUT, StatusCode::GATEWAY_TIMEOUT] {
        let answers = |deadline| TimeoutLayer::with_status_code(status, deadline);
        let answers = |deadline| answers(deadline).layer(with_timeout(&client, deadline));
        check_http(answers, get).await;
    }
}

#[tokio::test]
async fn breaker_around_reqwest_opens_after_its_number_of_failures() {
    // A proxy of the environment would be between this client and the server.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = |url, deadline| {
        let request = client.get::<String>(url).timeout(deadline).build().unwrap();
        Request::<reqwest::Body>::try_from(request).unwrap()
    };
    let client = client.clone();
    let adapted = service_fn(move |request: Request<reqwest::Body>| {
        let client = client.clone();
        async move {
            let response = client.execute(request.try_into()?).await?;
            Ok::<_, reqwest::Error>(Response::<reqwest::Body>::from(response))
        }
    });
    check_http(|_| adapted.clone(), get).await;
}

/// Makes a streaming call.
async fn call_grpc<S>(grpc: &mut Grpc<S>, path: &str, fate: Fate, timeout: Option<Duration>)
where
    S: GrpcService<tonic::body::Body, ResponseBody: Send + 'static, Error: std::fmt::Debug>,
    <S::ResponseBody as Body>::Error: Into<BoxError>,
{
    if grpc.ready().await.is_err() {
        return;
    }
    let mut request = tonic::Request::new(String::new());
    if let Some(timeout) = timeout {
        request.set_timeout(timeout);
    }
    let path = format!("/{path}").parse().unwrap();
    let Ok(response) = grpc.server_streaming(request, path, Text).await else { return };
    let mut messages = response.into_inner();
    match fate {
        Read => while let Ok(Some(_)) = messages.message().await {},
        Unread => {}
        HalfRead => assert!(messages.message().await.unwrap().is_some()),
    }
}

#[tokio::test]
async fn breaker_around_tonic_opens_after_its_number_of_failures() {
    let answering = server::start().await;
    let impatient = server::start_with_deadline(DEADLINE).await;
    let closed = [server::start_resetting().await, server::refusing()];
    let by = |path, fate, outcome| (answering, path, fate, None, None, outcome);
    let mut calls = vec![
        by("grpc/trailers/13", Read, Exception),
        // The status is in the trailers, which the caller has not read.
        by("grpc/trailers/13", Unread, Cancelled),
        by("grpc/trailers/13", HalfRead, Cancelled),
        by("grpc/breaks/0", Read, Exception),
        by("grpc/head/1", Read, Cancelled),
        by("grpc/trailers/0", Read, Success),
        (impatient, "hangs", Read, None, None, Exception),
        // Both deadlines expire at once: either the client's or the server's answer is first.
        (impatient, "hangs", Read, Some(DEADLINE), None, Exception),
        (impatient, "hangs", Read, None, Some(DEADLINE), Exception),
        (answering, "hangs", Read, Some(DEADLINE), None, Exception),
        (answering, "hangs", Read, None, Some(DEADLINE), Exception),
        (closed[0], "", Read, None, None, Exception),
        (closed[1], "", Read, None, None, Exception),
    ];
    for fate in FATES {
        for path in ["grpc/head/4", "grpc/head/13", "grpc/head/14"] {
            calls.push(by(path, fate, Exception));
        }
    }
    calls.extend([by("ends/503", Read, Exception), by("ends/503", Unread, Exception)]);
    let mut wrong = Vec::new();
    for (address, path, fate, of_call, of_channel, outcome) in calls {
        let backend = Backend::new();
        let channel = channel(address, of_channel);
        let mut grpc = Grpc::new(backend.layer().layer(channel));
        let call = async || call_grpc(&mut grpc, path, fate, of_call).await;
        if let Some(learned) = backend.mismatch(outcome, call).await {
            let deadlines = format!("deadlines {of_call:?}, {of_channel:?}");
            wrong.push(format!("{address}/{path}, {fate:?}, {deadlines}: {learned:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn channel(address: SocketAddr, deadline: Option<Duration>) -> tonic::transport::Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    match deadline {
        Some(deadline) => endpoint.timeout(deadline),
        None => endpoint,
    }
    .connect_lazy()
}
