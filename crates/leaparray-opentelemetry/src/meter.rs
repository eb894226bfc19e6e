//! The instruments of a meter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use leaparray::{Clock, Registry, Resource, ResourceId, TrafficType};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use crate::convention::{self, COUNTERS, Kind, PERMITS, REQUESTS};

/// Registers instruments with `meter` that read the registry at each collection: a counter for each event, and the requests in flight.
/// The README has their names.
///
/// The instruments do not keep the registry alive. Once it is dropped, they report no points. OpenTelemetry cannot
/// remove them, so call this once for each registry and meter.
///
/// If a resource is evicted and listed again between two collections, its counters continue: the SDK has one start time for all
/// points, and with delta temporality it subtracts the values of two collections. If there was a collection without it, they begin at
/// 0. All readers of a provider share these collections, so use at most one reader with delta temporality.
///
/// The SDK has no observable histogram: for response times, see `OtlpSource`. By default, it keeps at most 2,000 sets of
/// attributes of an instrument. For all others, it keeps one point, with the value of one of them, which may decrease. For more resources and
/// contexts, raise the limit by a view with `Stream::builder().with_cardinality_limit`.
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
        let sums = Mutex::new(HashMap::<Names, Sum>::new());
        let counter = counter.with_unit(PERMITS).with_callback(move |observer| {
            // A callback that panicked has left the sums as they were.
            let mut last = sums.lock().unwrap_or_else(PoisonError::into_inner);
            let mut sums = HashMap::with_capacity(last.len());
            for_each(&registry, |resource| {
                let names = Names::of(resource);
                let of_node = resource.lifetime().sum(event);
                let sum = Sum::continued(last.get(&names), resource.id(), of_node);
                observer.observe(sum.value(), &attributes(resource));
                sums.insert(names, sum);
            });
            *last = sums;
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

/// The names of a node: of the resource and of the context, and the direction.
#[derive(PartialEq, Eq, Hash)]
struct Names {
    resource: String,
    context: Option<String>,
    is_outbound: bool,
}

impl Names {
    fn of<C>(resource: &Resource<C>) -> Self {
        Self {
            resource: resource.name().to_owned(),
            context: resource.context().map(str::to_owned),
            is_outbound: resource.traffic_type() == TrafficType::Outbound,
        }
    }
}

/// The sum of a counter at a collection.
#[derive(Clone, Copy)]
struct Sum {
    node: ResourceId,
    /// The sum of former nodes with the same names.
    base: u64,
    of_node: u64,
}

impl Sum {
    /// Returns the sum of a node. It continues the sum of the last node with the same names.
    fn continued(last: Option<&Self>, node: ResourceId, of_node: u64) -> Self {
        let base = match last {
            None => 0,
            Some(last) if last.node == node => last.base,
            Some(last) => last.value(),
        };
        Self { node, base, of_node }
    }

    const fn value(self) -> u64 {
        self.base.saturating_add(self.of_node)
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

fn attributes<C>(resource: &Resource<C>) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    convention::attributes(resource, |name, value| {
        attributes.push(KeyValue::new(name, value.to_owned()));
    });
    attributes
}
