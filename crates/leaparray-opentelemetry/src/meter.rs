//! The instruments of a meter.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leaparray::flow::watch::WatchedMetric;
use leaparray::registry::{SeriesKey, WatchedLimiter};
use leaparray::{Clock, MetricEvent, Registry};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use crate::convention::{
    self, CODE, Kind, LIMITER, ONE, PERMITS, REFUSED_BY, REQUESTS, RESPONSE_UNIT, RESPONSES,
};

/// Registers instruments with `meter` that read the registry at each collection: a counter for each
/// event, the refusals by limiter, the responses by class, the requests in flight, and the numbers
/// of the limiters that the registry [watches](Registry::watch). The README has their names.
///
/// The instruments do not keep the registry alive. Once it is dropped, they report no points.
/// OpenTelemetry cannot remove them, so call this once for each registry and meter.
///
/// # Counters of evicted and removed resources
///
/// The SDK has one start time for all points of an instrument, so a counter must not begin at 0
/// again. The counters are those of the [series](leaparray::registry::SeriesReader): if a resource
/// is evicted or removed, they keep their last values, and continue if its names are listed again.
/// No count is missing.
///
/// The registry keeps the series of [`Registry::max_resources`] resources that are not listed.
/// Those that departed first are forgotten first, and their counters begin at 0 if they are listed
/// again. A reader with delta temporality subtracts the values of two collections. If a provider
/// has such a reader and a second reader, whose collection no longer has a series, the difference
/// is negative, and the increment is wrong.
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
    let series = Arc::new(Mutex::new(registry.series().without_histograms()));
    for &event in MetricEvent::OF_PERMITS {
        let (registry, series) = (Arc::downgrade(registry), Arc::clone(&series));
        let counter = meter.u64_observable_counter(convention::counter(event));
        let counter = counter.with_description(event.description());
        let counter = counter.with_unit(PERMITS).with_callback(move |observer| {
            let Some(registry) = registry.upgrade() else { return };
            let mut series = series.lock().unwrap_or_else(PoisonError::into_inner);
            for series in &series.read(&registry) {
                observer.observe(series.counts().totals.sum(event), &attributes(series.key()));
            }
        });
        counter.build();
    }
    let (weak, of_refusals) = (Arc::downgrade(registry), Arc::clone(&series));
    let [name, description] = REFUSED_BY;
    let counter = meter.u64_observable_counter(name).with_description(description);
    let counter = counter.with_unit(PERMITS).with_callback(move |observer| {
        let Some(registry) = weak.upgrade() else { return };
        let mut series = of_refusals.lock().unwrap_or_else(PoisonError::into_inner);
        for series in &series.read(&registry) {
            for (limiter, count) in series.counts().refused_by.iter() {
                let mut attributes = attributes(series.key());
                attributes.push(KeyValue::new(LIMITER, limiter.to_owned()));
                observer.observe(count, &attributes);
            }
        }
    });
    counter.build();
    let (weak, of_responses) = (Arc::downgrade(registry), Arc::clone(&series));
    let [name, description] = RESPONSES;
    let counter = meter.u64_observable_counter(name).with_description(description);
    let counter = counter.with_unit(RESPONSE_UNIT).with_callback(move |observer| {
        let Some(registry) = weak.upgrade() else { return };
        let mut series = of_responses.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = series.read(&registry);
        for series in reading.iter().filter(|it| it.counts().responses.sum() > 0) {
            for (class, count) in series.counts().responses.iter() {
                let mut attributes = attributes(series.key());
                attributes.push(KeyValue::new(CODE, class.name()));
                observer.observe(count, &attributes);
            }
        }
    });
    counter.build();
    for kind in Kind::ALL {
        let (registry, series) = (Arc::downgrade(registry), Arc::clone(&series));
        let gauge = meter.i64_observable_up_down_counter(kind.in_flight());
        let gauge = gauge.with_description(kind.in_flight_description()).with_unit(REQUESTS);
        let gauge = gauge.with_callback(move |observer| {
            let Some(registry) = registry.upgrade() else { return };
            let mut series = series.lock().unwrap_or_else(PoisonError::into_inner);
            let reading = series.read(&registry);
            let of_kind = reading.iter().filter(|it| Kind::of(it.key()) == kind);
            for series in of_kind.filter(|it| it.resource().is_some()) {
                let in_flight = i64::try_from(series.in_flight()).unwrap_or(i64::MAX);
                observer.observe(in_flight, &attributes(series.key()));
            }
        });
        gauge.build();
    }
    let watched = Arc::new(Watched::default());
    for &metric in WatchedMetric::ALL {
        let (name, description) = (convention::watched_name(metric), metric.description());
        let (registry, watched) = (Arc::downgrade(registry), Arc::clone(&watched));
        let observe = move |take: &mut dyn FnMut(&[KeyValue], f64)| {
            let Some(registry) = registry.upgrade() else { return };
            let limiters = watched.read(metric, &registry);
            convention::watched(metric, &limiters, |attributes, value| {
                let pairs = attributes.iter();
                let pairs = pairs.map(|(key, text)| KeyValue::new(key.clone(), (*text).to_owned()));
                take(&pairs.collect::<Vec<_>>(), value);
            });
        };
        if metric.is_counter() {
            let counter = meter.u64_observable_counter(name).with_description(description);
            let counter = counter.with_unit(ONE).with_callback(move |observer| {
                observe(&mut |pairs, value| observer.observe(convention::count(value), pairs));
            });
            counter.build();
        } else {
            let gauge = meter.f64_observable_gauge(name).with_description(description);
            let gauge = gauge.with_unit(ONE).with_callback(move |observer| {
                observe(&mut |pairs, value| observer.observe(value, pairs));
            });
            gauge.build();
        }
    }
}

/// One reading of the watched limiters for all metrics of a collection.
#[derive(Default)]
struct Watched(Mutex<Option<WatchedReading>>);

struct WatchedReading {
    at: Instant,
    limiters: Arc<[WatchedLimiter]>,
    /// The metrics that were observed.
    observed: Vec<WatchedMetric>,
}

impl Watched {
    /// The most time between two metrics of a collection.
    const MAX_AGE: Duration = Duration::from_millis(100);

    /// Returns the reading of this collection. A collection observes each metric at most once, so
    /// this reads again for a metric that was observed. It also does so after the maximum age: a
    /// view may drop different metrics for two readers.
    fn read<C>(&self, metric: WatchedMetric, registry: &Registry<C>) -> Arc<[WatchedLimiter]> {
        if let Some(reading) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)
            && !reading.observed.contains(&metric)
            && reading.at.elapsed() < Self::MAX_AGE
        {
            reading.observed.push(metric);
            return Arc::clone(&reading.limiters);
        }
        // Without the lock: this calls code of the user.
        let limiters: Arc<[_]> = registry.watched().into();
        let at = Instant::now();
        let reading =
            WatchedReading { at, limiters: Arc::clone(&limiters), observed: vec![metric] };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
        limiters
    }
}

fn attributes(key: &SeriesKey) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    convention::attributes(key, |name, value| {
        attributes.push(KeyValue::new(name, value.to_owned()));
    });
    attributes
}
