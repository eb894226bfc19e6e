#!/usr/bin/env bash
# opentelemetry_sdk: what a callback leaves out once is counted again, with delta temporality
#
# Guess: the increment of an observable counter is the difference to the last value that was
# observed. If the callback leaves a set of attributes out of one collection, the next increment
# covers both.
# Behaviour: the values of a collection replace those of the one before, so the SDK forgets the set.
# When it returns, its increment is the whole total, which a backend adds to the earlier increments.
# Version: opentelemetry_sdk 0.33.1.
# Here: `observe` of leaparray-opentelemetry reports evicted and removed resources too, at each
# collection, with their last values. A callback of your own should do the same.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
opentelemetry = { version = "=0.33.1", default-features = false, features = ["metrics"] }
opentelemetry_sdk = { version = "=0.33.1", default-features = false, features = ["metrics", "testing"] }
END

program() { cargo_program <<'END'; }
use opentelemetry::{KeyValue, metrics::MeterProvider};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporterBuilder, PeriodicReader, SdkMeterProvider, Temporality};
use std::sync::{Arc, Mutex};

/// The totals at each collection of two resources with the same requests.
const TOTALS: [(u64, Option<u64>); 5] =
    [(100, Some(100)), (110, Some(110)), (110, None), (120, Some(120)), (125, Some(125))];

fn main() {
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        let exporter = InMemoryMetricExporterBuilder::new().with_temporality(temporality).build();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let now = Arc::new(Mutex::new(TOTALS[0]));
        let observed = Arc::clone(&now);
        let meter = provider.meter("finding");
        let counter = meter.u64_observable_counter("requests");
        let counter = counter.with_callback(move |observer| {
            let (always, sometimes) = *observed.lock().unwrap();
            observer.observe(always, &[KeyValue::new("resource", "always")]);
            if let Some(total) = sometimes {
                observer.observe(total, &[KeyValue::new("resource", "sometimes")]);
            }
        });
        let _counter = counter.build();

        let mut seen = [Vec::new(), Vec::new()];
        for totals in TOTALS {
            *now.lock().unwrap() = totals;
            exporter.reset();
            provider.force_flush().unwrap();
            let finished = exporter.get_finished_metrics().unwrap();
            let mut metrics = finished.iter().flat_map(|it| it.scope_metrics()).flat_map(|it| it.metrics());
            let AggregatedMetrics::U64(MetricData::Sum(sum)) = metrics.next().unwrap().data() else { unreachable!() };
            for (resource, seen) in ["always", "sometimes"].iter().zip(&mut seen) {
                let point = sum.data_points().find(|it| it.attributes().any(|it| it.value.as_str() == *resource));
                seen.push(point.map(|it| it.value()));
            }
        }
        for (resource, seen) in ["always", "sometimes"].iter().zip(&seen) {
            let text: Vec<_> = seen.iter().map(|it| it.map_or("-".to_owned(), |it| it.to_string())).collect();
            println!("{temporality:?}, {resource}: {}", text.join(" "));
            if temporality == Temporality::Delta {
                println!("  sum of the increments: {} of 125", seen.iter().flatten().sum::<u64>());
            }
        }
    }
}
END

expect program <<'END'
Cumulative, always: 100 110 110 120 125
Cumulative, sometimes: 100 110 - 120 125
Delta, always: 100 10 0 10 5
  sum of the increments: 125 of 125
Delta, sometimes: 100 10 - 120 5
  sum of the increments: 235 of 125
END
