//! A service that exposes its registry.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{AdaptiveBreaker, ConcurrencyLimiter};
use leaparray::{HistogramConfig, NodeConfig, Registry, RegistryConfig};
use leaparray_prometheus::{Exposition, RegistryCollector};
use prometheus_client::encoding::{prometheus_protobuf, prometheus_text};

/// Where the collector for `prometheus-client` is exposed, and the one for `prometheus`.
pub(crate) const CLIENT: &str = "/metrics";
pub(crate) const OTHER: &str = "/other";

/// The upper bounds of the buckets, one of which is no bound of a bin.
const BOUNDS: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// A running service. Its thread runs to the end of the process.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Arc<Registry>,
    pub(crate) exposed: Arc<Exposed>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let node = NodeConfig::default().with_histogram(HistogramConfig::default());
        let registry = Arc::new(Registry::with_config(RegistryConfig::default().node(node)));
        let breaker = AdaptiveBreaker::new(AdaptiveBreakerConfig::default());
        registry.watch("database", Arc::new(ConcurrencyLimiter::new(20))).unwrap();
        registry.watch_at("database", "database breaker", Arc::new(breaker)).unwrap();
        let collector = || RegistryCollector::new(Arc::clone(&registry)).buckets(BOUNDS);
        let client = || {
            let mut client = prometheus_client::registry::Registry::default();
            client.register_collector(Box::new(collector()));
            client
        };
        let other = prometheus::Registry::new();
        other.register(Box::new(collector())).unwrap();
        let exposed = Arc::new(Exposed { client: client(), other });
        let exposition = Exposition::new(client())
            .with_protobuf(|registry| prometheus_protobuf::encode_to_vec(registry).ok());
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::clone(&exposed);
        std::thread::spawn(|| serve(listener, exposition, served));
        Self { address, registry, exposed }
    }
}

/// The registries of both clients.
pub(crate) struct Exposed {
    client: prometheus_client::registry::Registry,
    other: prometheus::Registry,
}

impl Exposed {
    /// Returns the exposition of each client in the text format of Prometheus.
    pub(crate) fn texts(&self) -> [String; 2] {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.client).unwrap();
        [text, self.text_of_other()]
    }

    fn text_of_other(&self) -> String {
        prometheus::TextEncoder::new().encode_to_string(&self.other.gather()).unwrap()
    }
}

fn serve(listener: std::net::TcpListener, exposition: Exposition, other: Arc<Exposed>) {
    let routes = Router::new()
        .route(CLIENT, get(async move |headers: HeaderMap| exposition.respond(&headers)))
        .route(OTHER, get(async move || other.text_of_other()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, routes).await.unwrap();
    });
}
