//! The messages of OTLP.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use leaparray::flow::watch::WatchedMetric;
use leaparray::registry::{Series, SeriesKey, SeriesReader, WatchedLimiter};
use leaparray::{Clock, LatencyHistogram, MetricEvent, MonotonicClock, Registry};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource as Source;

use crate::convention::{
    self, CODE, Kind, LIMITER, ONE, PERMITS, REFUSED_BY, REQUESTS, RESPONSE_UNIT, RESPONSES,
};

/// A source of OTLP messages with what the resources of a [`Registry`] have counted: the counters
/// of each resource and each context, the requests in flight, and the response times of those with
/// a histogram, as exponential histograms. Their buckets are the bins of the resource's histogram,
/// so no resolution is lost. Response times that were recorded under a
/// [geometry](leaparray::ResourceNode::reconfigure) without a histogram have no bin, and are not
/// in the point: its count is then below that of the requests that ended. The limiters that the
/// registry [watches](Registry::watch) have gauges and counters. The start of such a counter is
/// not known: the limiter has begun at 0 at an earlier time.
///
/// The message is the body of a request to the path `/v1/metrics` of a collector, as `prost`
/// encodes it, or the request of its gRPC service. The service sends it.
///
/// The sums are those of the [series](leaparray::registry::SeriesReader) of the registry: a
/// resource that is evicted or removed, and listed again, goes on. If it has counted something
/// since the last message and is no longer listed, the message has its points once more. The start
/// time of a point is the time [since](leaparray::registry::Series::since) which the series counts.
/// So all sources of a registry, and one that is made again while there is another, send the same
/// points. The clock of the registry must tell the time of day, as a [`MonotonicClock`] does. The
/// source keeps the registry.
///
/// ```
/// use leaparray::Registry;
/// use leaparray_opentelemetry::OtlpSource;
/// use prost::Message;
/// use std::sync::Arc;
///
/// let registry = Arc::new(Registry::new());
/// let source = OtlpSource::new(Arc::clone(&registry)).attribute("service.name", "shop");
/// registry.resource("GET /orders")?.enter().success();
/// let body = source.request().encode_to_vec();
/// assert!(!body.is_empty());
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
pub struct OtlpSource<C = MonotonicClock> {
    registry: Arc<Registry<C>>,
    /// The attributes of the service.
    attributes: Vec<KeyValue>,
    last: Mutex<Last<C>>,
}

/// The last message. Times are in nanoseconds since the epoch.
struct Last<C> {
    series: SeriesReader<C>,
    /// The time of the message; 0 before the first message.
    time: u64,
    /// The start times of the series. The start time is the time since which the series counts. A
    /// series that was forgotten and is listed again has another one, which tells the collector
    /// that the counters were reset. So it is not before the last message, although the clocks of
    /// the registry and of the messages differ.
    starts: HashMap<SeriesKey, u64>,
}

/// The data points, grouped by metric.
#[derive(Default)]
struct Points {
    counters: [Vec<NumberDataPoint>; MetricEvent::OF_PERMITS.len()],
    refused_by: Vec<NumberDataPoint>,
    responses: Vec<NumberDataPoint>,
    in_flight: [Vec<NumberDataPoint>; Kind::ALL.len()],
    response_times: [Vec<ExponentialHistogramDataPoint>; Kind::ALL.len()],
    /// In the order of [`WatchedMetric::ALL`].
    watched: Vec<Vec<NumberDataPoint>>,
}

/// The start time and the time of a point, in nanoseconds since the epoch.
#[derive(Clone, Copy)]
struct Times {
    start: u64,
    now: u64,
}

impl<C: Clock + Clone> OtlpSource<C> {
    /// Creates a source of all resources of `registry`, and of their contexts.
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>) -> Self {
        let last = Last { series: registry.series(), time: 0, starts: HashMap::new() };
        Self { registry, attributes: Vec::new(), last: Mutex::new(last) }
    }

    /// Adds an attribute of the service, such as `service.name`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push(attribute(name, value));
        self
    }

    /// Returns a message with the lifetime totals at this moment. All its sums are cumulative.
    ///
    /// The times of messages ascend: if the clock was set back, a message is a nanosecond later
    /// than the one before, until the clock has caught up.
    #[must_use]
    pub fn request(&self) -> ExportMetricsServiceRequest {
        self.message(SystemTime::now)
    }

    /// Like [`request`](Self::request), at `now`.
    #[must_use]
    pub fn request_at(&self, now: SystemTime) -> ExportMetricsServiceRequest {
        self.message(|| now)
    }

    fn lock(&self) -> MutexGuard<'_, Last<C>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn message(&self, now: impl FnOnce() -> SystemTime) -> ExportMetricsServiceRequest {
        // Before the lock: this calls code of the user.
        let watched = self.registry.watched();
        let mut last = self.lock();
        let Last { series, time, starts } = &mut *last;
        // Under the lock, so that the messages of two threads have the order of their times.
        let now = now();
        let now = nanos(now).max(time.saturating_add(1));
        let mut points = Points::default();
        let reading = series.read(&self.registry);
        let mut before = mem::take(starts);
        for series in &reading {
            let first_start = || series.since().as_nanos().max(*time).min(now);
            let start = before.remove(series.key()).filter(|_| !series.is_first());
            let start = start.unwrap_or_else(first_start);
            starts.insert(series.key().clone(), start);
            points.add(series, Times { start, now });
        }
        drop(reading);
        points.add_watched(&watched, now);
        *time = now;
        drop(last);
        let scope = InstrumentationScope {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        let metrics = ScopeMetrics {
            scope: Some(scope),
            metrics: points.into_metrics(),
            ..Default::default()
        };
        let source = Source { attributes: self.attributes.clone(), ..Default::default() };
        let of_source = ResourceMetrics {
            resource: Some(source),
            scope_metrics: vec![metrics],
            ..Default::default()
        };
        ExportMetricsServiceRequest { resource_metrics: vec![of_source] }
    }
}

impl Points {
    /// Adds the points of a series: also of one that was delisted, if it has counted since the last
    /// message.
    fn add<C: Clock + Clone>(&mut self, series: &Series<C>, times: Times) {
        if series.resource().is_none() && !series.has_changed() {
            return;
        }
        let mut attributes = Vec::new();
        convention::attributes(series.key(), |name, value| attributes.push(attribute(name, value)));
        let counts = series.counts();
        let number = |value| NumberDataPoint {
            attributes: attributes.clone(),
            start_time_unix_nano: times.start,
            time_unix_nano: times.now,
            value: Some(integer(value)),
            ..Default::default()
        };
        for (points, event) in self.counters.iter_mut().zip(MetricEvent::OF_PERMITS) {
            points.push(number(counts.totals.sum(*event)));
        }
        self.refused_by.extend(counts.refused_by.iter().map(|(limiter, count)| {
            let mut point = number(count);
            point.attributes.push(attribute(LIMITER, limiter));
            point
        }));
        let responses = counts.responses.iter().filter(|_| counts.responses.sum() > 0);
        self.responses.extend(responses.map(|(class, count)| {
            let mut point = number(count);
            point.attributes.push(attribute(CODE, class.name()));
            point
        }));
        let kind = Kind::of(series.key()) as usize;
        self.in_flight[kind].push(number(series.in_flight()));
        if let Some(histogram) = counts.histogram() {
            let point = exponential(&histogram, attributes, times);
            self.response_times[kind].push(point);
        }
    }

    fn add_watched(&mut self, limiters: &[WatchedLimiter], now: u64) {
        for &metric in WatchedMetric::ALL {
            let mut points = Vec::new();
            convention::watched(metric, limiters, |attributes, value| {
                let attributes = attributes.iter();
                let value = if metric.is_counter() {
                    integer(convention::count(value))
                } else {
                    Number::AsDouble(value)
                };
                points.push(NumberDataPoint {
                    attributes: attributes.map(|(key, text)| attribute(key, *text)).collect(),
                    time_unix_nano: now,
                    value: Some(value),
                    ..Default::default()
                });
            });
            self.watched.push(points);
        }
    }

    fn into_metrics(self) -> Vec<Metric> {
        let cumulative = AggregationTemporality::Cumulative.into();
        let sum = |data_points, is_monotonic| {
            Data::Sum(Sum { data_points, aggregation_temporality: cumulative, is_monotonic })
        };
        let counters = self.counters.into_iter().zip(MetricEvent::OF_PERMITS);
        let counters = counters.map(|(points, event)| {
            let name = convention::counter(*event);
            metric(&name, event.description(), PERMITS, sum(points, true))
        });
        let in_flight = self.in_flight.into_iter().zip(Kind::ALL);
        let in_flight = in_flight.map(|(points, kind)| {
            metric(kind.in_flight(), kind.in_flight_description(), REQUESTS, sum(points, false))
        });
        let response_times = self.response_times.into_iter().zip(Kind::ALL);
        let response_times = response_times.map(|(data_points, kind)| {
            let histogram =
                ExponentialHistogram { data_points, aggregation_temporality: cumulative };
            let data = Data::ExponentialHistogram(histogram);
            metric(kind.response_time(), kind.response_time_description(), "s", data)
        });
        let watched = self.watched.into_iter().zip(WatchedMetric::ALL);
        let watched = watched.map(|(data_points, &of)| {
            let is_counter = of.is_counter();
            let gauge = |data_points| Data::Gauge(Gauge { data_points });
            let data = if is_counter { sum(data_points, true) } else { gauge(data_points) };
            metric(&convention::watched_name(of), of.description(), ONE, data)
        });
        let [name, description] = REFUSED_BY;
        let refused_by = metric(name, description, PERMITS, sum(self.refused_by, true));
        let [name, description] = RESPONSES;
        let responses = metric(name, description, RESPONSE_UNIT, sum(self.responses, true));
        let metrics = counters
            .chain([refused_by, responses])
            .chain(in_flight)
            .chain(response_times)
            .chain(watched);
        metrics.filter(has_points).collect()
    }
}

fn metric(name: &str, description: &str, unit: &str, data: Data) -> Metric {
    Metric {
        name: name.to_owned(),
        description: description.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Default::default()
    }
}

/// Returns a count, at most `i64::MAX`.
fn integer(count: u64) -> Number {
    Number::AsInt(i64::try_from(count).unwrap_or(i64::MAX))
}

fn has_points(metric: &Metric) -> bool {
    match &metric.data {
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        Some(Data::ExponentialHistogram(histogram)) => !histogram.data_points.is_empty(),
        _ => false,
    }
}

/// The bin of 0 ns and 1 ns has this lower bound or a lower one, in seconds, and no other bin has.
/// Its response times are rounded to 0, in the zero bucket.
const ONE_NANOSECOND: f64 = 1e-9;

/// The bound of the zero bucket: it has no width, so a quantile in it is 0 for every backend. With
/// a width, some interpolate between the bounds, the negative one included.
const ZERO_THRESHOLD: f64 = 0.0;

/// Converts a histogram. Its bins have the indices of OpenTelemetry's buckets.
fn exponential(
    histogram: &LatencyHistogram,
    attributes: Vec<KeyValue>,
    times: Times,
) -> ExponentialHistogramDataPoint {
    let (mut positive, mut zero_count) = (Buckets::default(), 0);
    for bin in histogram.buckets() {
        if bin.lower < ONE_NANOSECOND {
            zero_count = bin.count;
            continue;
        }
        if positive.bucket_counts.is_empty() {
            positive.offset = bin.index;
        }
        let place = usize::try_from(bin.index - positive.offset).expect("the indices ascend");
        positive.bucket_counts.resize(place, 0);
        positive.bucket_counts.push(bin.count);
    }
    ExponentialHistogramDataPoint {
        attributes,
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: histogram.count(),
        sum: Some(histogram.sum().as_secs_f64()),
        scale: histogram.scale().into(),
        zero_count,
        zero_threshold: ZERO_THRESHOLD,
        positive: Some(positive),
        min: histogram.min().map(|min| min.as_secs_f64()),
        max: histogram.max().map(|max| max.as_secs_f64()),
        ..Default::default()
    }
}

fn attribute(name: impl Into<String>, value: impl Into<String>) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.into())) };
    KeyValue { key: name.into(), value: Some(value), ..Default::default() }
}

/// Returns the nanoseconds since the epoch; 0 before it, and `u64::MAX` after the year 2554.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl<C> fmt::Debug for OtlpSource<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpSource")
            .field("registry", &self.registry)
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}
