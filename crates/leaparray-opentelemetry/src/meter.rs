//! The instruments of a meter.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use leaparray::{Clock, Registry, Resource};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use crate::convention::{self, COUNTERS, Kind, PERMITS, REQUESTS};
use crate::series::AllSeries;

/// Registers instruments with `meter` that read the registry at each collection: a counter for each
/// event, and the requests in flight. The README has their names.
///
/// The instruments do not keep the registry alive. Once it is dropped, they report no points.
/// OpenTelemetry cannot remove them, so call this once for each registry and meter.
///
/// # Counters of evicted and removed resources
///
/// The SDK has one start time for all points of an instrument, so a counter must not begin at 0
/// again. If a resource is evicted or removed, the counters of its labels keep their last values,
/// and continue if a resource with these labels is listed again. The counts between the last
/// collection and the eviction or removal are missing, and so are counts through handles to a
/// removed resource.
///
/// The number of labels that are kept in this way is [`Registry::max_resources`], or the largest
/// number of resources and contexts at a collection, if that is larger. The oldest are forgotten
/// first, and their counters begin at 0 if they are listed again. A reader with delta temporality
/// subtracts the values of two collections. If a provider has such a reader and a second reader,
/// whose collection has forgotten the labels, the difference is negative, and the increment is
/// wrong.
///
/// # Limits of the SDK
///
/// The SDK has no observable histogram: for response times, see `OtlpSource`. By default, it keeps
/// at most 2,000 sets of attributes of an instrument. For all others, it keeps one point, with the
/// value of one of them, which may decrease. With delta temporality, this decrease makes a wrong
/// increment, so raise the limit above the number of resources and contexts, by a view with
/// `Stream::builder().with_cardinality_limit`. `findings/opentelemetry-overflow.sh` in the
/// repository shows the point.
///
/// ```
/// use leaparray::Registry;
/// use opentelemetry::metrics::MeterProvider;
/// use opentelemetry_sdk::metrics::{
///     InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
/// };
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
    let series = Arc::new(Mutex::new(AllSeries::default()));
    for (event, name, description) in COUNTERS {
        let (registry, series) = (Arc::downgrade(registry), Arc::clone(&series));
        let counter = meter.u64_observable_counter(name).with_description(description);
        let counter = counter.with_unit(PERMITS).with_callback(move |observer| {
            let Some(registry) = registry.upgrade() else { return };
            // The series after a panic are valid: each was read or was not.
            let mut series = series.lock().unwrap_or_else(PoisonError::into_inner);
            series.read(&registry);
            for (sum, attributes) in series.sums(event) {
                observer.observe(sum, attributes);
            }
        });
        counter.build();
    }
    for kind in Kind::ALL {
        let registry = Arc::downgrade(registry);
        let gauge = meter.i64_observable_up_down_counter(kind.in_flight());
        let gauge = gauge.with_description(kind.in_flight_description()).with_unit(REQUESTS);
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

/// Calls `visit` with each resource and each context, unless the registry was dropped.
fn for_each<C: Clock + Clone>(registry: &Weak<Registry<C>>, mut visit: impl FnMut(&Resource<C>)) {
    let Some(registry) = registry.upgrade() else { return };
    for resource in &*registry {
        resource.contexts().for_each(|context| visit(&context));
        visit(&resource);
    }
}

pub(crate) fn attributes<C>(resource: &Resource<C>) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    convention::attributes(resource, |name, value| {
        attributes.push(KeyValue::new(name, value.to_owned()));
    });
    attributes
}
