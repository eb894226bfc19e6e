//! Crates from the registry.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use metrics::{Key, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use sentinel_core::base::{MetricEvent, ReadStat, ResourceType, WriteStat};
use sentinel_core::stat::get_or_create_resource_node;

use super::{Peer, RT_NANOS};
use crate::harness::Suite;

pub(super) const SENTINEL: Peer = Peer {
    name: "sentinel-core",
    what: "`ResourceNode`, 20 × 500 ms, read over 2; milliseconds by the system's clock",
    in_threads_plot: true,
};
pub(super) const PROMETHEUS: Peer = Peer {
    name: "prometheus",
    what: "`IntCounter`, and a `Histogram` for the request; no window: who scrapes it makes the rate",
    in_threads_plot: true,
};
pub(super) const PROMETHEUS_CLIENT: Peer = Peer {
    name: "prometheus-client",
    what: "`Counter`, and a `Histogram` for the request; no window, as above",
    in_threads_plot: false,
};
pub(super) const METRICS: Peer = Peer {
    name: "metrics + exporter",
    what: "handles of metrics-exporter-prometheus's recorder; no window, as above",
    in_threads_plot: false,
};
pub(super) const GOVERNOR_ADMITTED: Peer = Peer {
    name: "governor, admitted",
    what: "a direct limiter's `check`; decides, but counts nothing: no rate to read",
    in_threads_plot: false,
};
pub(super) const GOVERNOR_REFUSED: Peer =
    Peer { name: "governor, refused", what: "the same, the quota used up", in_threads_plot: false };

/// What has to be done from time to time while the peers are measured, outside of the samples.
pub(crate) struct Upkeep(PrometheusHandle);

impl Upkeep {
    /// The exporter keeps every response time until somebody moves it into its histogram.
    pub(crate) fn run(&self) {
        self.0.run_upkeep();
    }
}

pub(super) fn add(suite: &mut Suite, cores: usize) -> Upkeep {
    sentinel(suite, cores);
    prometheus(suite, cores);
    prometheus_client(suite, cores);
    governor(suite, cores);
    metrics(suite, cores)
}

fn sentinel(suite: &mut Suite, cores: usize) {
    let node = get_or_create_resource_node(&"perf".to_owned(), &ResourceType::Common);
    let (record, request) = (Arc::clone(&node), Arc::clone(&node));
    let record = move || record.add_count(MetricEvent::Pass, black_box(1));
    SENTINEL.add_record(suite, cores, record.clone());
    SENTINEL.add_request(suite, move || {
        request.add_count(MetricEvent::Complete, 1);
        request.add_count(MetricEvent::Rt, RT_NANOS / 1_000_000 + 1);
    });
    SENTINEL.add_rate(suite, move || node.qps(MetricEvent::Pass), record.clone(), record);
}

fn prometheus(suite: &mut Suite, cores: usize) {
    let counter = prometheus::IntCounter::new("requests", "requests").expect("a valid name");
    let rt = prometheus::Histogram::with_opts(prometheus::HistogramOpts::new("rt", "rt"));
    let rt = rt.expect("valid options");
    let record = counter.clone();
    PROMETHEUS.add_record(suite, cores, move || record.inc());
    PROMETHEUS.add_request(suite, move || {
        counter.inc();
        rt.observe(black_box(0.000_25));
    });
}

fn prometheus_client(suite: &mut Suite, cores: usize) {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::histogram::Histogram;

    let counter = Counter::<u64>::default();
    // prometheus's default buckets.
    let rt = Histogram::new(prometheus::DEFAULT_BUCKETS.iter().copied());
    let record = counter.clone();
    PROMETHEUS_CLIENT.add_record(suite, cores, move || {
        record.inc();
    });
    PROMETHEUS_CLIENT.add_request(suite, move || {
        counter.inc();
        rt.observe(black_box(0.000_25));
    });
}

fn metrics(suite: &mut Suite, cores: usize) -> Upkeep {
    let buckets = PrometheusBuilder::new().set_buckets(prometheus::DEFAULT_BUCKETS);
    let recorder = buckets.expect("some buckets").build_recorder();
    let about = Metadata::new("perf", Level::INFO, None);
    let counter = recorder.register_counter(&Key::from_name("requests"), &about);
    let rt = recorder.register_histogram(&Key::from_name("rt"), &about);
    let record = counter.clone();
    METRICS.add_record(suite, cores, move || record.increment(black_box(1)));
    METRICS.add_request(suite, move || {
        counter.increment(1);
        rt.record(black_box(0.000_25));
    });
    Upkeep(recorder.handle())
}

fn governor(suite: &mut Suite, cores: usize) {
    add_check(suite, cores, &GOVERNOR_ADMITTED, governor_plenty());
    add_check(suite, cores, &GOVERNOR_REFUSED, governor_used_up());
}

/// Admits everyone.
pub(crate) fn governor_plenty() -> DefaultDirectRateLimiter {
    // One a nanosecond: more than can be asked for.
    let billion = NonZeroU32::new(1_000_000_000).expect("not zero");
    RateLimiter::direct(Quota::per_second(billion))
}

/// Refuses everyone for an hour.
pub(crate) fn governor_used_up() -> DefaultDirectRateLimiter {
    let none = RateLimiter::direct(Quota::per_hour(NonZeroU32::MIN));
    while none.check().is_ok() {}
    none
}

fn add_check(suite: &mut Suite, cores: usize, peer: &Peer, limiter: DefaultDirectRateLimiter) {
    let limiter = Arc::new(limiter);
    peer.add_record(suite, cores, move || {
        let _ = black_box(limiter.check());
    });
}
