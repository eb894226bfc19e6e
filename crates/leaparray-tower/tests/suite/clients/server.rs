//! A server whose routes are recorded, and a client.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use leaparray::{MetricEvent, Registry};
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long a condition may take to come true. Only a defect reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Arc<Registry>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Server {
    /// Serves routes on loopback, each recorded by its method and its path.
    pub(crate) async fn start(routes: Router) -> Self {
        let registry = Arc::new(Registry::new());
        let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
        Self::start_with(registry, routes.layer(layer)).await
    }

    /// Serves routes that are recorded in a registry.
    pub(crate) async fn start_with(registry: Arc<Registry>, routes: Router) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = axum::serve(listener, routes).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let running = tokio::spawn(async { serving.await.unwrap() });
        Self { address, registry, stop, running }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the successes, exceptions and cancellations of a resource, and its requests in
    /// flight.
    pub(crate) fn endings(&self, name: &str) -> [u64; 4] {
        endings(&self.registry, name)
    }

    /// Waits until a resource has these endings, and nothing else.
    pub(crate) async fn expect(&self, name: &str, expected: [u64; 4]) {
        until(|| self.endings(name) == expected, || format!("{name}: {:?}", self.endings(name)))
            .await;
    }

    /// Takes no further connections, and waits until those that are open have ended.
    pub(crate) async fn stop(self) -> Arc<Registry> {
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.running).await.expect("the server does not stop").unwrap();
        self.registry
    }
}

pub(crate) fn endings(registry: &Registry, name: &str) -> [u64; 4] {
    let Some(resource) = registry.get(name) else { return [0; 4] };
    let totals = resource.lifetime();
    let [success, exception, cancelled] =
        [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled]
            .map(|event| totals.sum(event));
    [success, exception, cancelled, resource.concurrency()]
}

/// Waits until a condition holds.
pub(crate) async fn until(condition: impl Fn() -> bool, state: impl FnOnce() -> String) {
    let holds = async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = timeout(PATIENCE, holds).await.is_ok();
    assert!(in_time, "{}", state());
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

impl Version {
    pub(crate) const ALL: [Self; 2] = [Self::Http1, Self::Http2];

    pub(crate) fn client(self) -> Client<HttpConnector, Body> {
        Client::builder(TokioExecutor::new()).http2_only(self == Self::Http2).build_http()
    }
}
