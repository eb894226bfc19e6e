//! The server: four methods without generated code, which a layer records and limits.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::Request as HttpRequest;
use axum::{Router, routing::any};
use leaparray::flow::SlidingWindowLimiter;
use leaparray::{Registry, Resource};
use leaparray_tower::{GrpcMethod, ResourceLayer};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::transport::server::{Server as Builder, TcpIncoming};
use tonic::{Request, Response, Status};
use tower::service_fn;

use crate::codec::Number;
use crate::{COUNT, DOUBLE, FAILING, LIMITED};

/// How long the connections and the streams may take to end.
const GRACE: Duration = Duration::from_secs(3);

type Counted = Pin<Box<dyn Stream<Item = Result<u64, Status>> + Send>>;

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    registry: Arc<Registry>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    /// Starts a server whose method [`LIMITED`] admits at most `limit` requests in a second.
    pub(crate) fn start(limit: u64) -> Result<Self, Box<dyn Error>> {
        let registry = Arc::new(Registry::new());
        let limiter = move |resource: &Resource| {
            let (second, clock) = (Duration::from_secs(1), resource.clock().clone());
            let limiter = SlidingWindowLimiter::with_clock(second, limit, clock);
            let is_limited = LIMITED.ends_with(resource.name());
            is_limited.then(|| Arc::new(limiter.expect("a valid interval")))
        };
        let layer = ResourceLayer::new(Arc::clone(&registry), GrpcMethod)?.limit_each(limiter);
        // Without `TCP_NODELAY`, a frame of a stream waits until the client has acknowledged the
        // last one.
        let any_port = (Ipv4Addr::LOCALHOST, 0).into();
        let incoming = TcpIncoming::bind(any_port)?.with_nodelay(Some(true));
        let address = incoming.local_addr()?;
        let router = Builder::builder().layer(layer).add_routes(routes().into());
        let (stop, stopped) = oneshot::channel();
        let serving = router.serve_with_incoming_shutdown(incoming, async {
            // Resolves when `stop` is called, or when its sender is dropped.
            let _ = stopped.await;
        });
        Ok(Self { address, registry, stop, running: tokio::spawn(serving) })
    }

    /// Waits for the end of all streams, and returns the registry.
    pub(crate) async fn stop(self) -> Arc<Registry> {
        // Fails if the server has already ended.
        let _ = self.stop.send(());
        let ended = async {
            let _ = self.running.await;
            // A stream is a task of its own, which may end after its connection.
            while self.registry.now().inbound().concurrency > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        // A stream that is open after the grace period is a difference.
        let _ = timeout(GRACE, ended).await;
        self.registry
    }
}

fn routes() -> Router {
    let doubled = any(async |request: HttpRequest| grpc().unary(service_fn(double), request).await);
    let counted =
        any(async |request: HttpRequest| grpc().server_streaming(service_fn(count), request).await);
    let calls = Arc::new(AtomicU64::new(0));
    let failing = any(async move |request: HttpRequest| {
        let third = calls.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        let fail = async |_| Err::<Response<u64>, _>(Status::internal("every third"));
        if third {
            grpc().unary(service_fn(fail), request).await
        } else {
            grpc().unary(service_fn(double), request).await
        }
    });
    Router::new()
        .route(DOUBLE, doubled.clone())
        .route(LIMITED, doubled)
        .route(COUNT, counted)
        .route(FAILING, failing)
        .fallback(async || Status::unimplemented("no such method").into_http::<Body>())
}

fn grpc() -> tonic::server::Grpc<Number> {
    tonic::server::Grpc::new(Number)
}

async fn double(request: Request<u64>) -> Result<Response<u64>, Status> {
    Ok(Response::new(request.into_inner().wrapping_mul(2)))
}

/// Streams the numbers from 1 to that of the request, one each millisecond.
async fn count(request: Request<u64>) -> Result<Response<Counted>, Status> {
    let numbers = tokio_stream::iter(1..=request.into_inner()).map(Ok);
    Ok(Response::new(Box::pin(numbers.throttle(Duration::from_millis(1)))))
}
