//! The collector for `prometheus-client`.

use std::fmt;

use leaparray::Clock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NativeHistogram, NativeHistogramBuckets, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use crate::RegistryCollector;
use crate::family::{Family, Kind, Value};
use crate::native::ZERO_THRESHOLD;
use crate::reading::{Reading, ResponseTime};

impl<C> Collector for RegistryCollector<C>
where
    C: Clock + Clone + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let reading = self.read();
        Family::with_samples(&reading)
            .try_for_each(|family| encode_family(family, &reading, &mut encoder))
    }
}

fn encode_family(
    family: Family,
    reading: &Reading,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let metric_type = match family.kind() {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let name = family.name();
    let mut metric = encoder.encode_descriptor(&name, family.help(), None, metric_type)?;
    family.samples(reading, &mut |labels, value| {
        let labels = labels.pairs();
        let mut metric = metric.encode_family(&labels)?;
        match value {
            Value::Counter(count) => metric.encode_counter::<NoLabelSet, _, f64>(&count, None),
            Value::Gauge(value) => metric.encode_gauge(&value),
            Value::Histogram(times) => encode_histogram(&mut metric, times, reading),
        }
    })
}

fn encode_histogram(
    metric: &mut MetricEncoder<'_>,
    times: &ResponseTime,
    reading: &Reading,
) -> fmt::Result {
    let buckets = reading.buckets(times);
    if !reading.is_native {
        return metric.encode_histogram::<NoLabelSet>(times.sum, times.count, buckets, None);
    }
    let native = &times.native;
    let natives = reading.native_buckets();
    let none = NativeHistogramBuckets { spans: &[], deltas: &[] };
    let positive =
        NativeHistogramBuckets { spans: natives.spans(native), deltas: natives.deltas(native) };
    let native = NativeHistogram {
        schema: native.schema,
        zero_threshold: ZERO_THRESHOLD,
        zero_count: native.zero_count,
        negative: none,
        positive,
        created: None,
    };
    metric.encode_histogram_with_native::<NoLabelSet>(times.sum, times.count, buckets, None, native)
}
