//! `/metrics`, which a Prometheus server scrapes.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use leaparray_prometheus::RegistryCollector;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::metrics::Metrics;

pub(crate) const PATH: &str = "/metrics";

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves all resources, and the watched limiters.
pub(crate) fn metrics(metrics: &Metrics) -> MethodRouter {
    let collector = RegistryCollector::new(Arc::clone(&metrics.registry));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let registry = Arc::new(registry);
    get(async move || expose(&registry))
}

fn expose(registry: &Registry) -> Response {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
