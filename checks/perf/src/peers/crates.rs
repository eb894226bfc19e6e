//! Crates from the registry.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use metrics::{Key, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};
use sentinel_core::base::{MetricEvent, ReadStat, ResourceType, WriteStat};
use sentinel_core::stat::get_or_create_resource_node;

use super::{EVENT, Peer, REQUEST, RT_NANOS};
use crate::harness::Suite;

/// `ResourceNode`, 20 × 500 ms, the rate over 2 of them; the system's clock, in milliseconds.
pub(super) const SENTINEL: Peer = Peer { name: "sentinel-core" };
/// `IntCounter`, and a `Histogram` for the request; no window: the scraper computes the rate.
pub(super) const PROMETHEUS: Peer = Peer { name: "prometheus" };
/// `Counter`, and a `Histogram` for the request; no window, as above.
pub(super) const PROMETHEUS_CLIENT: Peer = Peer { name: "prometheus-client" };
/// Handles of metrics-exporter-prometheus's recorder; no window, as above.
pub(super) const METRICS: Peer = Peer { name: "metrics + exporter" };
/// A direct limiter's `check`; it decides and counts nothing, so there is no rate.
pub(super) const GOVERNOR_ADMITTED: Peer = Peer { name: "governor, admitted" };
/// The same, with a quota that is used up.
pub(super) const GOVERNOR_REFUSED: Peer = Peer { name: "governor, refused" };

/// The maintenance that the peers need between samples.
pub(crate) struct Upkeep(PrometheusHandle);

impl Upkeep {
    /// Moves the recorded response times into the exporter's histogram. Until then, the exporter
    /// keeps each of them.
    pub(crate) fn run(&self) {
        self.0.run_upkeep();
    }
}

pub(super) fn add(suite: &mut Suite) -> Upkeep {
    sentinel(suite);
    prometheus(suite);
    prometheus_client(suite);
    check(suite, &GOVERNOR_ADMITTED, governor_plenty());
    check(suite, &GOVERNOR_REFUSED, governor_used_up());
    metrics(suite)
}

fn sentinel(suite: &mut Suite) {
    SENTINEL.add_window(
        suite,
        || get_or_create_resource_node(&"perf".to_owned(), &ResourceType::Common),
        |node| node.add_count(MetricEvent::Pass, black_box(1)),
        |node| {
            node.add_count(MetricEvent::Complete, 1);
            node.add_count(MetricEvent::Rt, RT_NANOS / 1_000_000 + 1);
        },
        |node| node.qps(MetricEvent::Pass),
        |node| node.add_count(MetricEvent::Pass, 1),
    );
}

fn prometheus(suite: &mut Suite) {
    let counter = prometheus::IntCounter::new("requests", "requests").expect("a valid name");
    let rt = prometheus::Histogram::with_opts(prometheus::HistogramOpts::new("rt", "rt"));
    let rt = rt.expect("valid options");
    let events = counter.clone();
    PROMETHEUS.add(suite, EVENT, move || events.inc());
    PROMETHEUS.add(suite, REQUEST, move || {
        counter.inc();
        rt.observe(black_box(0.000_25));
    });
}

fn prometheus_client(suite: &mut Suite) {
    let counter = Counter::<u64>::default();
    let rt = Histogram::new(prometheus::DEFAULT_BUCKETS.iter().copied());
    let events = counter.clone();
    PROMETHEUS_CLIENT.add(suite, EVENT, move || {
        events.inc();
    });
    PROMETHEUS_CLIENT.add(suite, REQUEST, move || {
        counter.inc();
        rt.observe(black_box(0.000_25));
    });
}

fn metrics(suite: &mut Suite) -> Upkeep {
    let buckets = PrometheusBuilder::new().set_buckets(prometheus::DEFAULT_BUCKETS);
    let recorder = buckets.expect("some buckets").build_recorder();
    let about = Metadata::new("perf", Level::INFO, None);
    let counter = recorder.register_counter(&Key::from_name("requests"), &about);
    let rt = recorder.register_histogram(&Key::from_name("rt"), &about);
    let events = counter.clone();
    METRICS.add(suite, EVENT, move || events.increment(black_box(1)));
    METRICS.add(suite, REQUEST, move || {
        counter.increment(1);
        rt.record(black_box(0.000_25));
    });
    Upkeep(recorder.handle())
}

fn check(suite: &mut Suite, peer: &Peer, limiter: DefaultDirectRateLimiter) {
    let limiter = Arc::new(limiter);
    peer.add(suite, EVENT, move || drop(black_box(limiter.check())));
}

/// Creates a limiter that admits every request.
pub(crate) fn governor_plenty() -> DefaultDirectRateLimiter {
    // A permit for each nanosecond: more than the threads can take.
    let billion = NonZeroU32::new(1_000_000_000).expect("not zero");
    RateLimiter::direct(Quota::per_second(billion))
}

/// Creates a limiter that refuses every request for an hour.
pub(crate) fn governor_used_up() -> DefaultDirectRateLimiter {
    let none = RateLimiter::direct(Quota::per_hour(NonZeroU32::MIN));
    while none.check().is_ok() {}
    none
}
