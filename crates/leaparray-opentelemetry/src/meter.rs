//! The instruments of a meter.

use std::sync::{Arc, Weak};

use leaparray::{Clock, Registry, Resource};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use crate::convention::{self, COUNTERS, Kind, PERMITS, REQUESTS};

/// Observes a registry by instruments of `meter`, each time that its provider collects: a counter for each event, and the requests
/// in flight. The README has their names.
///
/// The instruments do not keep the registry alive. When it has been dropped, they observe nothing. OpenTelemetry cannot
/// remove them, so call this once for each registry and meter.
///
/// The SDK has no observable histogram: for response times, see `OtlpSource`. By default, it keeps at most 2,000 sets of
/// attributes of an instrument, and adds up the others.
///
/// ```
/// use leaparray::Registry;
/// use opentelemetry::metrics::MeterProvider;
/// use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
/// use std::sync::Arc;
///
/// let exporter = InMemoryMetricExporter::default();
/// let reader = PeriodicReader::builder(exporter.clone()).build();
/// let provider = SdkMeterProvider::builder().with_reader(reader).build();
///
/// let registry = Arc::new(Registry::new());
/// leaparray_opentelemetry::observe(&registry, &provider.meter("service"));
/// registry.resource("GET /orders")?.enter().success();
/// provider.force_flush()?;
/// assert_eq!(exporter.get_finished_metrics()?.len(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn observe<C>(registry: &Arc<Registry<C>>, meter: &Meter)
where
    C: Clock + Clone + Send + Sync + 'static,
{
    for (event, name, description) in COUNTERS {
        let registry = Arc::downgrade(registry);
        let counter = meter.u64_observable_counter(name).with_description(description);
        let counter = counter.with_unit(PERMITS).with_callback(move |observer| {
            for_each(&registry, |resource| {
                observer.observe(resource.lifetime().sum(event), &attributes(resource));
            });
        });
        counter.build();
    }
    for kind in Kind::ALL {
        let registry = Arc::downgrade(registry);
        let gauge = meter.i64_observable_up_down_counter(kind.in_flight());
        let gauge = gauge.with_description("Requests in flight").with_unit(REQUESTS);
        let gauge = gauge.with_callback(move |observer| {
            for_each(&registry, |resource| {
                if Kind::of(resource) == kind {
                    let in_flight = i64::try_from(resource.concurrency()).unwrap_or(i64::MAX);
                    observer.observe(in_flight, &attributes(resource));
                }
            });
        });
        gauge.build();
    }
}

/// Calls `look` with each resource and each context, unless the registry was dropped.
fn for_each<C: Clock + Clone>(registry: &Weak<Registry<C>>, mut look: impl FnMut(&Resource<C>)) {
    let Some(registry) = registry.upgrade() else { return };
    for resource in &*registry {
        resource.contexts().for_each(|context| look(&context));
        look(&resource);
    }
}

fn attributes<C>(resource: &Resource<C>) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    convention::attributes(resource, |name, value| {
        attributes.push(KeyValue::new(name, value.to_owned()));
    });
    attributes
}
