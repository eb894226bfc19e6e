//! Metrics of the server, beside those of the registry.

use std::fmt;
use std::sync::Arc;

use leaparray_prometheus::{Exposition, RegistryCollector};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::rlqs::QuotaServer;
use crate::service::{By, Code, Decision};

/// Counts of requests.
#[derive(Debug, Default)]
pub(super) struct Counts {
    within: Counter,
    over: Counter,
    pub(super) invalid: Counter,
    unknown_domain: Counter,
    handed_out: Counter,
    fallback_open: Counter,
    fallback_closed: Counter,
    pub(super) reloads: Counter,
    pub(super) reload_errors: Counter,
}

impl Counts {
    pub(super) fn count(&self, decision: &Decision) {
        if decision.over { &self.over } else { &self.within }.inc();
        if decision.unknown_domain {
            self.unknown_domain.inc();
        }
        for status in decision.statuses() {
            if let Some(quota) = &status.quota {
                self.handed_out.inc_by(quota.requests.into());
            }
            if matches!(status.by, By::StoreAway | By::NoRoom | By::TooManyWaiting) {
                let is_open = status.code == Code::Ok;
                if is_open { &self.fallback_open } else { &self.fallback_closed }.inc();
            }
        }
    }
}

/// Returns the exposition of all metrics.
pub(super) fn exposition(
    resources: &Arc<leaparray::Registry>,
    counts: &Arc<Counts>,
    quotas: &QuotaServer,
) -> Exposition {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(RegistryCollector::new(Arc::clone(resources))));
    let (counts, quotas) = (Arc::clone(counts), quotas.clone());
    registry.register_collector(Box::new(Own { counts, quotas }));
    Exposition::new(registry)
}

/// The values of a label, with their counts.
type Samples<'a> = &'a [(&'a str, u64)];

#[derive(Debug)]
struct Own {
    counts: Arc<Counts>,
    quotas: QuotaServer,
}

impl Collector for Own {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Counts { within, over, invalid, unknown_domain, handed_out, .. } = &*self.counts;
        let Counts { fallback_open, fallback_closed, reloads, reload_errors, .. } = &*self.counts;
        let quotas = self.quotas.counts();
        let gauge = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let families: [(&str, &str, &str, Samples<'_>); 9] = [
            (
                "leaparray_envoy_requests",
                "Requests for a decision",
                "code",
                &[("OK", within.get()), ("OVER_LIMIT", over.get())],
            ),
            (
                "leaparray_envoy_request_errors",
                "Requests that were invalid, or for a domain without a configuration",
                "error",
                &[("invalid", invalid.get()), ("unknown_domain", unknown_domain.get())],
            ),
            (
                "leaparray_envoy_handed_out",
                "Requests in quotas of RLS, which are charged whether they are used or not",
                "",
                &[("", handed_out.get())],
            ),
            (
                "leaparray_envoy_fallbacks",
                "Descriptors that no limit has decided on: the store was away, too many requests \
                 waited for it, or a key had no room",
                "policy",
                &[("open", fallback_open.get()), ("closed", fallback_closed.get())],
            ),
            (
                "leaparray_envoy_reloads",
                "Changes of the configuration",
                "result",
                &[("good", reloads.get()), ("wrong", reload_errors.get())],
            ),
            (
                "leaparray_envoy_quota_requests",
                "Requests that clients have decided on by quotas, by their reports",
                "decision",
                &[("allowed", quotas.allowed), ("denied", quotas.denied)],
            ),
            (
                "leaparray_envoy_quota_actions",
                "Actions that were sent to clients",
                "action",
                &[("assign", quotas.assignments), ("abandon", quotas.abandoned)],
            ),
            ("leaparray_envoy_quota_reports", "Reports of buckets", "", &[("", quotas.reports)]),
            (
                "leaparray_envoy_quota_refused",
                "Streams and reports that were refused",
                "",
                &[("", quotas.refused)],
            ),
        ];
        for (name, help, label, values) in families {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for &(value, count) in values {
                let labels = [(label, value)];
                let labels = if label.is_empty() { &labels[..0] } else { &labels[..] };
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        for (name, help, value) in [
            ("leaparray_envoy_quota_streams", "Open streams", quotas.streams),
            ("leaparray_envoy_quota_buckets", "Buckets of all streams", quotas.subscriptions),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            family.encode_gauge(&gauge(value))?;
        }
        Ok(())
    }
}
