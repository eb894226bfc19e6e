//! Native histograms, as a Prometheus server receives them.

use std::sync::Arc;

use leaparray::NodeConfig;
use leaparray_prometheus::RegistryCollector;
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::Metric;

use crate::{registry, succeed};

#[test]
fn native_buckets_are_the_bins() {
    let registry = registry();
    for millis in [1, 2, 2, 3, 50, 51, 52, 1_000, 60_000] {
        succeed(&registry, "orders", millis);
    }
    let mut client = prometheus_client::registry::Registry::default();
    client.register_collector(Box::new(RegistryCollector::new(Arc::clone(&registry))));
    let families = prometheus_protobuf::encode(&client).unwrap();
    let family = families.iter().find(|it| it.name == "leaparray_response_time_seconds");
    let histogram = family.unwrap().metric[0].histogram.as_ref().unwrap();

    let expected = registry.get("orders").unwrap().lifetime_histogram().unwrap();
    assert_eq!(histogram.schema, i32::from(expected.scale()));
    assert_eq!(histogram.sample_count, expected.count());
    // The format says: the index of a span is relative to the end of the last one, and a delta to
    // the count before it.
    let (mut index, mut count, mut deltas) = (0, 0, histogram.positive_delta.iter());
    let mut buckets = Vec::new();
    for span in &histogram.positive_span {
        index += span.offset;
        for _ in 0..span.length {
            count += deltas.next().unwrap();
            buckets.push((index, count.unsigned_abs()));
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    let bins: Vec<_> = expected.buckets().map(|bin| (bin.index + 1, bin.count)).collect();
    assert_eq!(buckets, bins);
}

#[test]
fn response_time_of_zero_is_in_the_zero_bucket() {
    let registry = registry();
    succeed(&registry, "orders", 0);
    succeed(&registry, "orders", 1_000);
    let mut client = prometheus_client::registry::Registry::default();
    client.register_collector(Box::new(RegistryCollector::new(Arc::clone(&registry))));
    let families = prometheus_protobuf::encode(&client).unwrap();
    let family = families.iter().find(|it| it.name == "leaparray_response_time_seconds");
    let histogram = family.unwrap().metric[0].histogram.as_ref().unwrap();
    assert_eq!((histogram.sample_count, histogram.zero_count), (2, 1));
    assert_eq!(histogram.zero_threshold, 0.0, "without a width");
    assert_eq!((&histogram.positive_delta[..], histogram.positive_span[0].offset), (&[1][..], 0));
}

#[test]
fn response_times_in_no_bin_are_in_the_infinite_bucket() {
    let registry = registry();
    succeed(&registry, "orders", 1);
    registry.reconfigure(NodeConfig::default());
    succeed(&registry, "orders", 1);
    let mut client = prometheus_client::registry::Registry::default();
    client.register_collector(Box::new(RegistryCollector::new(Arc::clone(&registry))));
    let families = prometheus_protobuf::encode(&client).unwrap();
    let family = families.iter().find(|it| it.name == "leaparray_response_time_seconds");
    let histogram = family.unwrap().metric[0].histogram.as_ref().unwrap();
    // A server refuses a native histogram whose buckets are not as many as its count.
    assert_eq!((histogram.sample_count, &histogram.positive_delta[..]), (2, &[1, 0][..]));
    let [bin, unknown] = &histogram.positive_span[..] else {
        panic!("{:?}", histogram.positive_span)
    };
    // The bounds are the powers of 2^2^-schema, so the finite ones end at 2^1024.
    let index = bin.offset + 1 + unknown.offset;
    assert_eq!(index, (1_024 << histogram.schema) + 1);
    assert_eq!(histogram.bucket.last().unwrap().cumulative_count, 2);
}

/// Prometheus takes all histograms of a family for what the first one is.
#[test]
fn histograms_of_a_family_are_of_one_kind() {
    let registry = registry();
    let mut client = prometheus_client::registry::Registry::default();
    client.register_collector(Box::new(RegistryCollector::new(Arc::clone(&registry))));
    let are_native = || -> Vec<bool> {
        let families = prometheus_protobuf::encode(&client).unwrap();
        let family = families.iter().find(|it| it.name == "leaparray_response_time_seconds");
        let is_native = |metric: &Metric| {
            let histogram = metric.histogram.as_ref().unwrap();
            let is_native = !histogram.positive_span.is_empty();
            let mut last = 0;
            let in_buckets = histogram.positive_delta.iter().map(|delta| {
                last += delta;
                last.unsigned_abs()
            });
            let in_buckets = in_buckets.sum::<u64>() + histogram.zero_count;
            assert!(!is_native || in_buckets == histogram.sample_count);
            is_native
        };
        family.unwrap().metric.iter().map(is_native).collect()
    };
    // One of them has ended no request.
    for number in 0..8 {
        let plain = format!("plain {number}");
        let plain = registry.resource_with(&plain, NodeConfig::default()).unwrap();
        (0..number).for_each(|_| plain.enter().success());
    }
    assert_eq!(are_native(), [false; 8]);
    succeed(&registry, "orders", 1);
    assert_eq!(are_native(), [true; 9]);
}
