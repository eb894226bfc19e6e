#!/usr/bin/env bash
# opentelemetry_sdk: the overflow of an observable counter is one value instead of a sum
#
# Guess: above the limit of cardinality, the point `otel.metric.overflow` has the sum of all sets
# without a point of their own, so that the sum over all points is right, as it is for a counter.
# Behaviour: an observation is assigned and not added, so the point has the last one alone. If the
# callback observes the sets in another order, as of a hash map, a monotonic sum decreases.
# Version: opentelemetry_sdk 0.33.1.
# Here: `observe` of leaparray-opentelemetry needs a limit above the number of resources and
# contexts.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
opentelemetry = { version = "=0.33.1", default-features = false, features = ["metrics"] }
opentelemetry_sdk = { version = "=0.33.1", default-features = false, features = ["metrics", "testing"] }
END

program() { cargo_program <<'END'; }
use opentelemetry::{KeyValue, metrics::MeterProvider};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, Instrument, PeriodicReader, SdkMeterProvider, Stream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static COLLECTIONS: AtomicU64 = AtomicU64::new(0);

fn main() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let limit = |_: &Instrument| Stream::builder().with_cardinality_limit(3).build().ok();
    let provider = SdkMeterProvider::builder().with_reader(reader).with_view(limit).build();
    let meter = provider.meter("finding");
    let resource = |number: u64| [KeyValue::new("resource", number.to_string())];

    // Five resources with 10, 20, 30, 40 and 50 requests.
    let added = meter.u64_counter("added").build();
    (1..=5).for_each(|number| added.add(10 * number, &resource(number)));
    let _observed = meter.u64_observable_counter("observed").with_callback(move |observer| {
        let is_first = COLLECTIONS.fetch_add(1, Relaxed) == 0;
        for number in 1..=5 {
            let number = if is_first { number } else { 6 - number };
            observer.observe(10 * number, &resource(number));
        }
    });
    let _observed = _observed.build();

    for _collection in 0..2 {
        exporter.reset();
        provider.force_flush().unwrap();
        let finished = exporter.get_finished_metrics().unwrap();
        let scopes = finished.iter().flat_map(|resource| resource.scope_metrics());
        let mut lines: Vec<_> = scopes.flat_map(|scope| scope.metrics()).map(|metric| {
            let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() else { unreachable!() };
            let mut points = sum.data_points();
            let total: u64 = sum.data_points().map(|point| point.value()).sum();
            let overflow = points.find(|point| point.attributes().any(|it| it.key.as_str() == "otel.metric.overflow"));
            format!("{}: overflow {}, all points {total} of 150", metric.name(), overflow.unwrap().value())
        }).collect();
        lines.sort();
        println!("{}", lines.join("; "));
    }
}
END

expect program <<'END'
added: overflow 90, all points 150 of 150; observed: overflow 50, all points 110 of 150
added: overflow 90, all points 150 of 150; observed: overflow 10, all points 130 of 150
END
