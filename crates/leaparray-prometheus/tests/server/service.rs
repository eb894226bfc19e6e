//! A service that exposes its registry.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use leaparray::flow::{AdaptiveBreaker, BreakerConfig, ConcurrencyLimiter};
use leaparray::{HistogramConfig, NodeConfig, Registry, RegistryConfig};
use leaparray_prometheus::RegistryCollector;
use prometheus_client::encoding::{prometheus_protobuf, text};

const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A running service. Its thread runs to the end of the process.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Arc<Registry>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let node = NodeConfig::default().with_histogram(HistogramConfig::default());
        let registry = Arc::new(Registry::with_config(RegistryConfig::default().node(node)));
        let mut exposed = prometheus_client::registry::Registry::default();
        let breaker = AdaptiveBreaker::new(BreakerConfig::default());
        let collector = RegistryCollector::new(Arc::clone(&registry))
            .limiter("database", Arc::new(ConcurrencyLimiter::new(20)))
            .breaker("database", Arc::new(breaker));
        exposed.register_collector(Box::new(collector));
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(|| serve(listener, Arc::new(exposed)));
        Self { address, registry }
    }
}

fn serve(listener: std::net::TcpListener, exposed: Arc<prometheus_client::registry::Registry>) {
    let routes = get(async move |headers: HeaderMap| expose(&headers, &exposed));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, Router::new().route("/metrics", routes)).await.unwrap();
    });
}

/// Answers in Protocol Buffers if the scraper takes them, as a server with native histograms does.
fn expose(headers: &HeaderMap, exposed: &prometheus_client::registry::Registry) -> Response {
    let accepts = headers[ACCEPT].to_str().unwrap();
    if accepts.contains("application/vnd.google.protobuf") {
        let body = prometheus_protobuf::encode_to_vec(exposed).unwrap();
        ([(CONTENT_TYPE, PROTOBUF)], body).into_response()
    } else {
        let mut body = String::new();
        text::encode(&mut body, exposed).unwrap();
        ([(CONTENT_TYPE, TEXT)], body).into_response()
    }
}
