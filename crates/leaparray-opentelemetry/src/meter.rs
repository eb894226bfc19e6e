//! The instruments of a meter.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use leaparray::{Clock, Registry, Resource, TrafficType};
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
        let sums = Mutex::new(Sums::default());
        let counter = counter.with_unit(PERMITS).with_callback(move |observer| {
            // A callback that panicked has left the sums as they were.
            let mut before = sums.lock().unwrap_or_else(PoisonError::into_inner);
            let mut sums = Sums::default();
            for_each(&registry, |resource| {
                let sum = before.continued(resource, resource.lifetime().sum(event));
                observer.observe(sum.value(), &attributes(resource));
                sums.0.insert(Key::of(resource), sum);
            });
            *before = sums;
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

/// The names of a node: those of the resource and of the context, and the direction.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    resource: String,
    context: Option<String>,
    is_outbound: bool,
}

impl Key {
    fn of<C>(resource: &Resource<C>) -> Self {
        Self {
            resource: resource.name().to_owned(),
            context: resource.context().map(str::to_owned),
            is_outbound: resource.traffic_type() == TrafficType::Outbound,
        }
    }
}

/// The identity of a node, which lives with it: a resource that is listed again has another one.
struct Identity(u64);

impl Identity {
    fn of<C>(resource: &Resource<C>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the numbers only have to be distinct.
        resource.data_or_insert_with(|| Self(NEXT.fetch_add(1, Ordering::Relaxed))).0
    }
}

/// The sum of a counter at a collection.
#[derive(Clone, Copy)]
struct Sum {
    node: u64,
    /// The sum of former nodes with the same names.
    base: u64,
    of_node: u64,
}

impl Sum {
    const fn value(self) -> u64 {
        self.base.saturating_add(self.of_node)
    }
}

/// The sums of a counter at the last collection.
#[derive(Default)]
struct Sums(HashMap<Key, Sum>);

impl Sums {
    /// Returns the sum of a node. It continues the sum of another node with the same names.
    fn continued<C>(&self, resource: &Resource<C>, of_node: u64) -> Sum {
        let node = Identity::of(resource);
        let base = match self.0.get(&Key::of(resource)) {
            None => 0,
            Some(before) if before.node == node => before.base,
            Some(before) => before.value(),
        };
        Sum { node, base, of_node }
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
