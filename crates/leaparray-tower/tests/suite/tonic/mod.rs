//! The layer around a server and a client of tonic, over loopback.

mod shop;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{AdaptiveBreaker, FixedWindowLimiter, Reason};
use leaparray::{MetricEvent, MonotonicClock, Registry};
use leaparray_tower::{
    Answer, ByStatus, CallError, Fail, GrpcMethod, ResourceLayer, ResourceService, SharedLimiter,
    Unlimited,
};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Status, Streaming};
use tower::Layer;

use crate::text::Text;
use shop::Shop;

type Layered<L, R> = ResourceLayer<GrpcMethod, ByStatus, L, R>;

fn layer(registry: &Arc<Registry>) -> Layered<Unlimited, Answer> {
    ResourceLayer::new(Arc::clone(registry), GrpcMethod).unwrap()
}

type Breaker = SharedLimiter<Arc<AdaptiveBreaker>>;
type Client = Grpc<ResourceService<Channel, GrpcMethod, ByStatus, Breaker, Fail>>;

/// A server and a client, each with a registry.
struct Pair {
    server: Arc<Registry>,
    client: Arc<Registry>,
    grpc: Client,
}

impl Pair {
    async fn start() -> Self {
        let server = Arc::new(Registry::new());
        let (incoming, address) = listen().await;
        let serving = Server::builder().layer(layer(&server)).add_service(Shop);
        tokio::spawn(serving.serve_with_incoming(incoming));
        Self::with_client(server, address).await
    }

    /// A server that admits one request, and refuses the others.
    async fn start_limited() -> Self {
        let server = Arc::new(Registry::new());
        let hour = Duration::from_secs(3_600);
        let limiter = FixedWindowLimiter::with_clock(hour, 1, server.clock().clone()).unwrap();
        let (incoming, address) = listen().await;
        let layer = layer(&server).limit(Arc::new(limiter));
        tokio::spawn(
            Server::builder().layer(layer).add_service(Shop).serve_with_incoming(incoming),
        );
        Self::with_client(server, address).await
    }

    async fn with_client(server: Arc<Registry>, address: SocketAddr) -> Self {
        let client = Arc::new(Registry::new());
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await;
        let breaker =
            AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), client.clock().clone());
        let layer = layer(&client).limit(Arc::new(breaker)).refuse(Fail);
        let grpc = Grpc::new(layer.layer(channel.unwrap()));
        Self { server, client, grpc }
    }

    async fn call(
        &mut self,
        method: &'static str,
        request: Request<String>,
    ) -> Result<String, Status> {
        self.grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(method);
        Ok(self.grpc.unary(request, path, Text).await?.into_inner())
    }

    async fn place(&mut self, text: &str) -> Result<String, Status> {
        self.call("/shop.Orders/Place", Request::new(text.to_owned())).await
    }

    async fn watch(&mut self, text: &str) -> Streaming<String> {
        self.grpc.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/shop.Orders/Watch");
        let request = Request::new(text.to_owned());
        self.grpc.server_streaming(request, path, Text).await.unwrap().into_inner()
    }

    /// Waits until the requests to a method have ended so, on both sides: successes, exceptions,
    /// cancellations, in flight.
    async fn expect(&self, method: &str, server: [u64; 4], client: [u64; 4]) {
        let seen = || [endings(&self.server, method), endings(&self.client, method)];
        let equal = async {
            while seen() != [server, client] {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = timeout(Duration::from_secs(20), equal).await.is_ok();
        assert!(in_time, "{method}: {:?}", seen());
    }
}

async fn listen() -> (TcpListenerStream, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (TcpListenerStream::new(listener), address)
}

fn endings(registry: &Registry<MonotonicClock>, method: &str) -> [u64; 4] {
    let Some(resource) = registry.get(method) else { return [0; 4] };
    let totals = resource.lifetime();
    let [success, exception, cancelled] =
        [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled]
            .map(|event| totals.sum(event));
    [success, exception, cancelled, resource.concurrency()]
}

#[tokio::test]
async fn status_of_a_single_response_decides() {
    let mut pair = Pair::start().await;
    assert_eq!(pair.place("tea").await.unwrap(), "tea");
    assert_eq!(pair.place("fail").await.unwrap_err().code(), Code::Internal);
    pair.expect("shop.Orders/Place", [1, 1, 0, 0], [1, 1, 0, 0]).await;
}

#[tokio::test]
async fn status_of_a_stream_decides_at_its_end() {
    let mut pair = Pair::start().await;
    let mut ends = pair.watch("end").await;
    assert_eq!(endings(&pair.client, "shop.Orders/Watch"), [0, 0, 0, 1]);
    for text in ["1", "2", "3"] {
        assert_eq!(ends.message().await.unwrap().unwrap(), text);
    }
    assert_eq!(ends.message().await.unwrap(), None);
    pair.expect("shop.Orders/Watch", [1, 0, 0, 0], [1, 0, 0, 0]).await;
    let mut fails = pair.watch("fail").await;
    while let Ok(Some(_)) = fails.message().await {}
    pair.expect("shop.Orders/Watch", [1, 1, 0, 0], [1, 1, 0, 0]).await;
}

#[tokio::test]
async fn stream_that_is_dropped_is_cancelled_on_both_sides() {
    let mut pair = Pair::start().await;
    let mut waits = pair.watch("wait").await;
    assert_eq!(waits.message().await.unwrap().unwrap(), "1");
    assert_eq!(endings(&pair.server, "shop.Orders/Watch"), [0, 0, 0, 1]);
    drop(waits);
    pair.expect("shop.Orders/Watch", [0, 0, 1, 0], [0, 0, 1, 0]).await;
}

/// A deadline that is far longer than the way of a request to the server.
const DEADLINE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn deadline_of_a_call_is_an_exception_on_both_sides() {
    let mut pair = Pair::start().await;
    for calls in 1..=2 {
        let mut request = Request::new("wait".to_owned());
        request.set_timeout(DEADLINE);
        assert!(pair.call("/shop.Orders/Place", request).await.is_err());
        pair.expect("shop.Orders/Place", [0, calls, 0, 0], [0, calls, 0, 0]).await;
    }
}

#[tokio::test]
async fn deadline_of_a_server_is_an_exception_on_both_sides() {
    let server = Arc::new(Registry::new());
    let (incoming, address) = listen().await;
    let layer = layer(&server).timeout_around(DEADLINE);
    let serving = Server::builder().timeout(DEADLINE).layer(layer).add_service(Shop);
    tokio::spawn(serving.serve_with_incoming(incoming));
    let mut pair = Pair::with_client(server, address).await;
    let status = pair.place("wait").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Cancelled, "Timeout expired"));
    pair.expect("shop.Orders/Place", [0, 1, 0, 0], [0, 1, 0, 0]).await;
}

#[tokio::test]
async fn unknown_method_is_recorded_by_its_name() {
    let mut pair = Pair::start().await;
    for method in ["/shop.Orders/One", "/shop.Orders/Two", "/shop.Users/One"] {
        let status = pair.call(method, Request::new(String::new())).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        pair.expect(&method[1..], [0, 1, 0, 0], [0, 1, 0, 0]).await;
    }
    assert_eq!((pair.server.len(), pair.client.len()), (4, 4), "one for all others");
}

#[tokio::test]
async fn refused_request_gets_a_status_that_says_when_to_ask_again() {
    let mut pair = Pair::start_limited().await;
    pair.place("tea").await.unwrap();
    let status = pair.place("tea").await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, "the limit is reached")
    );
    let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
    assert!(pushback.parse::<u64>().unwrap() <= 3_600_000, "{pushback}");
    pair.expect("shop.Orders/Place", [1, 0, 0, 0], [2, 0, 0, 0]).await;
    assert_eq!(pair.server.get("shop.Orders/Place").unwrap().refusals()[Reason::LimitReached], 1);
}

#[tokio::test]
async fn breaker_of_a_client_refuses_without_a_call() {
    let mut pair = Pair::start().await;
    let mut refused = 0;
    for _ in 0..1_000 {
        let status = pair.place("fail").await.unwrap_err();
        refused += u64::from(status.code() != Code::Internal);
    }
    assert!(refused > 0);
    pair.expect("shop.Orders/Place", [0, 1_000 - refused, 0, 0], [0, 1_000 - refused, 0, 0]).await;
    assert_eq!(pair.client.get("shop.Orders/Place").unwrap().refusals()[Reason::Failing], refused);
}

/// Calls through a service that refuses the call, and returns the status.
async fn refused<S>(service: S) -> Status
where
    S: GrpcService<Body, ResponseBody: Send + 'static>,
    <S::ResponseBody as http_body::Body>::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let path = http::uri::PathAndQuery::from_static("/shop.Orders/Place");
    let mut grpc = Grpc::new(service);
    assert!(grpc.ready().await.is_ok());
    grpc.unary(Request::new(String::new()), path, Text).await.unwrap_err()
}

#[tokio::test]
async fn refusal_by_a_client_is_a_status_or_the_source_of_one() {
    let registry = Arc::new(Registry::new());
    let hour = Duration::from_secs(3_600);
    let limiter = FixedWindowLimiter::with_clock(hour, 0, registry.clock().clone()).unwrap();
    let layer = layer(&registry).limit(Arc::new(limiter));
    // There is no server: the call does not reach the channel.
    let channel = Endpoint::from_static("http://[::1]:1").connect_lazy();
    let answered = refused(layer.layer(channel.clone())).await;
    assert_eq!(
        (answered.code(), answered.message()),
        (Code::ResourceExhausted, "the request asks for more than the limit")
    );
    let failed = refused(layer.refuse(Fail).layer(channel)).await;
    assert_eq!(failed.code(), Code::Unknown);
    let source = failed.source().and_then(|it| it.downcast_ref());
    assert!(matches!(source, Some(CallError::<tonic::transport::Error>::Refused(_))), "{source:?}");
}
