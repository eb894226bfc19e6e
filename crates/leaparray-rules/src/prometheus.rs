//! The state of rules for Prometheus.

use std::fmt;
use std::sync::{Arc, Weak};

use leaparray::MonotonicClock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::limiter::RuleClock;
use crate::rules::{Rules, Shared};
use crate::source::SourceState;

/// A collector that exposes the state of rules and of their source to Prometheus: a `Collector` of
/// the crate `prometheus-client`. The registry watches their limiters, so
/// `leaparray-prometheus` exposes these. It exposes nothing once the rules are dropped.
///
/// | name | labels | value |
/// |---|---|---|
/// | `leaparray_rules_in_force` | | gauge: the number of rules |
/// | `leaparray_rules_applied_total` | | counter: how often rules were applied |
/// | `leaparray_rules_refused_total` | `rule` | counter: the requests that it has refused |
/// | `leaparray_rules_source_state` | `source`, `state`: `good`, `away`, `wrong` | gauge: 1 for the state of the source, and 0 for the others |
/// | `leaparray_rules_source_age_seconds` | `source` | gauge: the time since a reading of the source ended, also while it does not answer |
/// | `leaparray_rules_source_readings_total` | `source` | counter: the readings that ended |
/// | `leaparray_rules_source_failures_total` | `source` | counter: the readings that returned no text |
///
/// ```
/// use leaparray::Registry;
/// use leaparray_rules::{Follow, Rules, RulesCollector};
/// use prometheus_client::encoding::text;
/// use std::sync::Arc;
///
/// let rules = Rules::new(Arc::new(Registry::new()));
/// rules.follow(Follow::file("/no/such/file").may_be_away())?;
/// let mut metrics = prometheus_client::registry::Registry::default();
/// metrics.register_collector(Box::new(RulesCollector::new(&rules)));
/// let mut body = String::new();
/// text::encode(&mut body, &metrics)?;
/// let away = r#"leaparray_rules_source_state{source="/no/such/file",state="away"} 1"#;
/// assert!(body.contains(away), "{body}");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct RulesCollector<C: RuleClock = MonotonicClock>(Weak<Shared<C>>);

impl<C: RuleClock> RulesCollector<C> {
    /// Creates a collector of the state of these rules. It is no handle to them.
    #[must_use]
    pub fn new(rules: &Rules<C>) -> Self {
        Self(Arc::downgrade(&rules.shared))
    }
}

impl<C: RuleClock> fmt::Debug for RulesCollector<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesCollector").finish_non_exhaustive()
    }
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Encodes metrics.
struct Metrics<'a>(DescriptorEncoder<'a>);

impl Metrics<'_> {
    fn gauges(&mut self, name: &str, help: &str, samples: &[(Labels<'_>, f64)]) -> fmt::Result {
        let mut all = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            all.encode_family(labels)?.encode_gauge(value)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, labels: &Labels<'_>, value: u64) -> fmt::Result {
        self.counters(name, help, [(labels.clone(), value)])
    }

    fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> fmt::Result {
        let mut all = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            all.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }
}

impl<C: RuleClock> Collector for RulesCollector<C> {
    #[expect(clippy::cast_precision_loss, reason = "a number of rules")]
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        let rules = Rules::of(shared);
        let (status, now) = (rules.status(), rules.registry().clock().now());
        let mut metrics = Metrics(encoder);
        let number = [(Vec::new(), status.rules as f64)];
        metrics.gauges("leaparray_rules_in_force", "Rules in force", &number)?;
        let help = "How often rules were applied";
        metrics.counter("leaparray_rules_applied", help, &Vec::new(), status.version)?;
        let help = "Requests that the rule has refused";
        let refused = status.refused.iter().map(|(rule, count)| (vec![("rule", &**rule)], *count));
        metrics.counters("leaparray_rules_refused", help, refused)?;
        let Some(source) = status.source else { return Ok(()) };
        let state = match source.state {
            SourceState::Good => "good",
            SourceState::Away { .. } => "away",
            SourceState::Wrong(_) => "wrong",
        };
        let labels = vec![("source", &*source.name)];
        let each = ["good", "away", "wrong"].map(|it| {
            let labels = [labels.clone(), vec![("state", it)]].concat();
            (labels, f64::from(u8::from(it == state)))
        });
        metrics.gauges("leaparray_rules_source_state", "Whether the source is so", &each)?;
        let age = [(labels.clone(), now.saturating_since(source.read_at).as_secs_f64())];
        let help = "Seconds since a reading of the source ended";
        metrics.gauges("leaparray_rules_source_age_seconds", help, &age)?;
        let help = "Readings of the source that ended";
        metrics.counter("leaparray_rules_source_readings", help, &labels, source.readings)?;
        let help = "Readings of the source that returned no text";
        metrics.counter("leaparray_rules_source_failures", help, &labels, source.failures)
    }
}
