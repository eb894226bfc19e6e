//! The collector for `prometheus`.

use leaparray::Clock;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, LabelPair, Metric, MetricFamily, MetricType};

use crate::RegistryCollector;
use crate::family::{Family, Kind, Value};
use crate::reading::Reading;

impl<C> Collector for RegistryCollector<C>
where
    C: Clock + Clone + Send + Sync + 'static,
{
    /// Returns one description, which identifies this collector to the registry. The families are
    /// not described.
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let reading = self.read();
        Family::with_samples(&reading).map(|family| collect(family, &reading)).collect()
    }
}

fn collect(family: Family, reading: &Reading) -> MetricFamily {
    let mut metrics = Vec::new();
    let taken = family.samples(reading, &mut |labels, value| {
        let labels = labels.pairs().iter().map(|&(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value.to_owned());
            pair
        });
        let mut labels: Vec<_> = labels.collect();
        // As the client sorts the labels of its own metrics.
        labels.sort_unstable();
        let mut metric = Metric::from_label(labels);
        match value {
            Value::Counter(count) => {
                let mut counter = proto::Counter::default();
                counter.set_value(float(count));
                metric.set_counter(counter);
            }
            Value::Gauge(value) => {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            Value::Histogram(times) => {
                let mut histogram = proto::Histogram::default();
                histogram.set_sample_sum(times.sum);
                histogram.set_sample_count(times.count);
                let mut reached = 0_u64;
                // Without the infinite bucket, as the client's own histograms: its text encoder adds
                // the bucket. It writes the bound of one that it is given as "inf", not as "+Inf".
                let finite = reading.buckets(times).iter().filter(|(bound, _)| bound.is_finite());
                let buckets = finite.map(|&(bound, count)| {
                    reached = reached.saturating_add(count);
                    let mut bucket = proto::Bucket::default();
                    bucket.set_upper_bound(bound);
                    bucket.set_cumulative_count(reached);
                    bucket
                });
                histogram.set_bucket(buckets.collect());
                metric.set_histogram(histogram);
            }
        }
        metrics.push(metric);
        Ok(())
    });
    debug_assert!(taken.is_ok(), "nothing above fails");
    let mut collected = MetricFamily::default();
    let (suffix, kind) = match family.kind() {
        Kind::Counter => ("_total", MetricType::COUNTER),
        Kind::Gauge => ("", MetricType::GAUGE),
        Kind::Histogram => ("", MetricType::HISTOGRAM),
    };
    collected.set_name(format!("{}{suffix}", family.name()));
    collected.set_help(family.help().to_owned());
    collected.set_field_type(kind);
    collected.set_metric(metrics);
    collected
}

/// Returns a count as the nearest floating-point number. It is exact up to 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "values are floating-point numbers")]
const fn float(count: u64) -> f64 {
    count as f64
}
