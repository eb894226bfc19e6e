//! The services that are measured: axum with one route, alone and with each middleware.

use std::convert::identity;
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::routing::get;
use axum::{Error, Router};
use axum_prometheus::PrometheusMetricLayer;
use axum_prometheus::metrics_exporter_prometheus::PrometheusHandle;
use http_body_util::BodyExt;
use http_body_util::combinators::MapErr;
use leaparray::flow::{Rate, TokenBucket};
use leaparray::{HistogramConfig, NodeConfig, Registry, RegistryConfig};
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tower::layer::util::Identity;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::GlobalKeyExtractor;
use tower_http::map_response_body::MapResponseBodyLayer;
use tower_http::trace::TraceLayer;

/// The path of all requests.
pub(crate) const PATH: &str = "/orders/7";

/// The requests per second that the limiters admit: more than the threads can send.
const PLENTY: u32 = 1_000_000_000;

/// A service: its name in the cases, and a function that creates it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    pub(crate) name: &'static str,
    make: fn() -> Router,
}

/// A router with one route, whose handler returns a static string.
pub(crate) const BARE: Stack = Stack { name: "axum alone", make: bare };
/// `Identity` of tower: axum boxes the future of each layer.
pub(crate) const NOTHING: Stack =
    Stack { name: "a layer that does nothing", make: || bare().layer(Identity::new()) };
/// `MapResponseBodyLayer` of tower-http, with a body that adds nothing: axum also boxes the body.
pub(crate) const BODY: Stack =
    Stack { name: "a layer with a body of its own", make: || bare().layer(own_body()) };
/// `ResourceLayer` with `MatchedRoute`: counts, response times, requests in flight.
pub(crate) const OURS: Stack =
    Stack { name: "leaparray-tower", make: || bare().layer(layer(RegistryConfig::default())) };
/// The same, with a histogram of response times.
pub(crate) const OURS_WITH_HISTOGRAM: Stack = Stack {
    name: "leaparray-tower, histogram",
    make: || {
        let node = NodeConfig::default().with_histogram(HistogramConfig::default());
        bare().layer(layer(RegistryConfig::default().node(node)))
    },
};
/// `ResourceLayer` with a `TokenBucket` that admits every request.
pub(crate) const OURS_WITH_LIMITER: Stack = Stack {
    name: "leaparray-tower, token bucket",
    make: || {
        let rate = Rate::per_second(PLENTY.into()).expect("not zero");
        let bucket = TokenBucket::new(rate, PLENTY.into());
        bare().layer(layer(RegistryConfig::default()).limit(Arc::new(bucket)))
    },
};
/// The default layer of axum-prometheus: counts, a histogram of response times, requests in flight.
pub(crate) const PROMETHEUS: Stack =
    Stack { name: "axum-prometheus", make: || bare().layer(EXPORTER.layer.clone()) };
/// `TraceLayer::new_for_http` of tower-http, without a subscriber.
pub(crate) const TRACE: Stack =
    Stack { name: "TraceLayer", make: || bare().layer(TraceLayer::new_for_http()) };
/// `GovernorLayer` with one key, whose quota admits every request; it counts nothing and leaves
/// the response as it is.
pub(crate) const GOVERNOR: Stack =
    Stack { name: "tower_governor", make: || bare().layer(governor()) };
/// Both, as a service that counts and limits combines them.
pub(crate) const PROMETHEUS_AND_GOVERNOR: Stack = Stack {
    name: "axum-prometheus and tower_governor",
    make: || bare().layer(governor()).layer(EXPORTER.layer.clone()),
};
/// Measured after all others, because the subscriber remains until the process ends.
/// `TraceLayer` with the `Registry` of tracing-subscriber, which stores spans and prints nothing.
pub(crate) const TRACE_WITH_SUBSCRIBER: Stack = Stack {
    name: "TraceLayer, subscriber",
    make: || {
        tracing_subscriber::util::SubscriberInitExt::init(tracing_subscriber::registry());
        (TRACE.make)()
    },
};

/// The services without a subscriber.
pub(crate) const WITHOUT_SUBSCRIBER: [Stack; 10] = [
    BARE,
    NOTHING,
    BODY,
    OURS,
    OURS_WITH_HISTOGRAM,
    OURS_WITH_LIMITER,
    PROMETHEUS,
    TRACE,
    GOVERNOR,
    PROMETHEUS_AND_GOVERNOR,
];

/// The other crates, one at a time. The goal is to add less than each of them.
pub(crate) const PEERS: [Stack; 3] = [PROMETHEUS, TRACE, GOVERNOR];

/// Returns all services, in the order of the tables.
pub(crate) fn all() -> impl Iterator<Item = Stack> {
    WITHOUT_SUBSCRIBER.into_iter().chain([TRACE_WITH_SUBSCRIBER])
}

impl Stack {
    /// Creates the service. A router without its state would apply the layer to each request anew.
    pub(crate) fn router(&self) -> Router {
        (self.make)().with_state(())
    }
}

pub(crate) fn bare() -> Router {
    Router::new().route("/orders/{id}", get(async || "an order"))
}

/// A body that adds nothing to its inner one.
type OwnBody = MapErr<Body, fn(Error) -> Error>;

/// Returns the layer of [`BODY`].
pub(crate) fn own_body() -> MapResponseBodyLayer<fn(Body) -> OwnBody> {
    MapResponseBodyLayer::new(|body| body.map_err(identity))
}

pub(crate) fn layer(config: RegistryConfig) -> ResourceLayer<MatchedRoute> {
    let registry = Arc::new(Registry::with_config(config));
    ResourceLayer::new(registry, MatchedRoute).expect("room for the first resource")
}

fn governor() -> GovernorLayer<
    GlobalKeyExtractor,
    governor::middleware::NoOpMiddleware<governor::clock::QuantaInstant>,
    Body,
> {
    let mut config = GovernorConfigBuilder::default();
    let mut config = config.per_nanosecond(1).burst_size(PLENTY).key_extractor(GlobalKeyExtractor);
    GovernorLayer::new(config.finish().expect("not zero"))
}

/// The layer of axum-prometheus. It installs the recorder of the process, so there is one.
struct Exporter {
    layer: PrometheusMetricLayer<'static>,
    handle: PrometheusHandle,
}

static EXPORTER: LazyLock<Exporter> = LazyLock::new(|| {
    // The layer starts a task for the upkeep, which ends with this runtime: `upkeep` does its work
    // between samples.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();
    let (layer, handle) = PrometheusMetricLayer::pair();
    Exporter { layer, handle }
});

/// Moves the recorded response times into the exporter's histogram. Until then, the exporter keeps
/// each of them.
pub(crate) fn upkeep() {
    EXPORTER.handle.run_upkeep();
}
