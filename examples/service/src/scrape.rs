//! `/metrics`, which a Prometheus server scrapes.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::routing::{MethodRouter, get};
use leaparray_prometheus::{Exposition, RegistryCollector};
use prometheus_client::registry::Registry;

use crate::metrics::Metrics;

pub(crate) const PATH: &str = "/metrics";

/// Serves all resources, and the watched limiters.
pub(crate) fn metrics(metrics: &Metrics) -> MethodRouter {
    let collector = RegistryCollector::new(Arc::clone(&metrics.registry));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let exposition = Exposition::new(registry);
    get(async move |headers: HeaderMap| exposition.respond(&headers))
}
