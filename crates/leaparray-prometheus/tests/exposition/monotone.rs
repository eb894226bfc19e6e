//! Counters only grow.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::Reason;
use leaparray::{Clock, HistogramConfig, NodeConfig, RegistryConfig};
use leaparray_prometheus::RegistryCollector;

use crate::{Read, Samples, registry, registry_with, succeed};

#[test]
fn resource_that_is_listed_again_continues_its_counters() {
    let registry = registry();
    let collector = Arc::new(RegistryCollector::new(Arc::clone(&registry)));
    let scrape = || Samples::scrape_shared(&collector);
    let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound")];
    let response_times = |samples: &Samples| {
        let Some(Read::Histogram { count, buckets, .. }) =
            samples.value("leaparray_response_time_seconds", &labels)
        else {
            panic!("{samples:?}")
        };
        let in_buckets: Vec<_> = buckets.iter().map(|bucket| bucket.1).collect();
        (*count, in_buckets)
    };
    let refused = |samples: &Samples| {
        let labels = [&labels[..], &[("reason", "queue_full")]].concat();
        samples.number("leaparray_refusals", &labels)
    };
    let evict = || {
        registry.clock().advance(Duration::from_secs(3_600));
        assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::from_secs(60)), 1);
    };
    for _ in 0..5 {
        succeed(&registry, "orders", 10);
    }
    registry.get("orders").unwrap().refuse(Reason::QueueFull);
    let before = scrape();
    evict();
    let evicted = scrape();
    succeed(&registry, "orders", 10);
    let again = scrape();
    // Also without a scrape in between.
    evict();
    succeed(&registry, "orders", 10);
    succeed(&registry, "orders", 10);
    let third = scrape();

    let of_registry =
        |samples: &Samples| samples.number("leaparray_registry_success", &[("kind", "inbound")]);
    assert_eq!([&before, &evicted, &again, &third].map(of_registry), [5.0, 5.0, 6.0, 8.0]);
    assert!(evicted.0.keys().all(|(family, _)| family != "leaparray_success"));
    for (samples, expected) in [(&before, 5_u32), (&again, 6), (&third, 8)] {
        let success = samples.of_resource("leaparray_success", "orders");
        assert_eq!(success, f64::from(expected));
        let (count, in_buckets) = response_times(samples);
        assert_eq!(count, u64::from(expected));
        // In the buckets up to 1 ms, 2 ms, 4 ms and 8 ms, there are none.
        assert_eq!(in_buckets[3..6], [0.0, f64::from(expected), f64::from(expected)]);
        assert_eq!(refused(samples), 1.0);
    }
}

#[test]
fn counts_of_the_resources_that_were_delisted_last_are_kept() {
    const KEPT: usize = 8;
    let registry = registry_with(RegistryConfig::default().max_resources(KEPT));
    let collector = Arc::new(RegistryCollector::new(Arc::clone(&registry)));
    let names: Vec<_> = (0..3 * KEPT).map(|number| number.to_string()).collect();
    for name in &names {
        succeed(&registry, name, 10);
        Samples::scrape_shared(&collector);
        assert!(registry.remove(name));
        Samples::scrape_shared(&collector);
    }
    let listed_again = |name: &String| {
        succeed(&registry, name, 10);
        let samples = Samples::scrape_shared(&collector);
        registry.remove(name);
        samples.of_resource("leaparray_success", name)
    };
    let (forgotten, kept) = names.split_at(2 * KEPT);
    let successes: Vec<_> = kept.iter().rev().map(listed_again).collect();
    assert_eq!(successes, [2.0; KEPT]);
    assert_eq!(listed_again(&forgotten[0]), 1.0);
}

#[test]
fn contexts_of_a_resource_that_is_listed_again_continue_their_counters() {
    let registry = registry_with(RegistryConfig::default().max_resources(1));
    let collector = Arc::new(RegistryCollector::new(Arc::clone(&registry)));
    // The second round has a scrape without the resource.
    for (sum, without) in [(1.0, false), (2.0, true), (3.0, false)] {
        let jobs = registry.resource("jobs").unwrap();
        for context in ["day", "evening", "night"] {
            jobs.in_context(context).unwrap().enter().success();
        }
        let samples = Samples::scrape_shared(&collector);
        for context in ["day", "evening", "night"] {
            let labels = [("resource", "jobs"), ("context", context), ("kind", "inbound")];
            assert_eq!(samples.number("leaparray_success", &labels), sum, "{context}");
        }
        assert!(registry.remove("jobs"));
        if without {
            Samples::scrape_shared(&collector);
        }
    }
}

#[test]
fn oldest_counts_are_forgotten_although_later_ones_have_one_age() {
    const KEPT: usize = 4;
    // With one collector, the order of its map may hide an error.
    for _ in 0..32 {
        let registry = registry_with(RegistryConfig::default().max_resources(KEPT));
        let collector = Arc::new(RegistryCollector::new(Arc::clone(&registry)));
        let names = ["old", "a", "b", "c", "d", "e", "f"].map(str::to_owned);
        let (old, later) = names.split_at(1);
        let (second, third) = later.split_at(KEPT - 1);
        for names in [old, second, third] {
            for name in names {
                succeed(&registry, name, 10);
            }
            Samples::scrape_shared(&collector);
            for name in names {
                assert!(registry.remove(name));
            }
            Samples::scrape_shared(&collector);
        }
        succeed(&registry, "old", 10);
        let samples = Samples::scrape_shared(&collector);
        assert_eq!(samples.of_resource("leaparray_success", "old"), 1.0);
    }
}

#[test]
fn number_of_response_times_grows_over_geometries_with_and_without_a_histogram() {
    let registry = registry();
    let with_histogram = registry.config();
    let without = NodeConfig::default();
    let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound")];
    let mut expected = 0_u32;
    for config in [with_histogram, without, with_histogram] {
        registry.reconfigure(config);
        succeed(&registry, "orders", 100);
        succeed(&registry, "orders", 100);
        expected += 2;
        let samples = Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
        let Some(Read::Histogram { count, sum, buckets }) =
            samples.value("leaparray_response_time_seconds", &labels)
        else {
            panic!("{samples:?}")
        };
        assert_eq!(*count, u64::from(expected));
        let expected_sum = 0.1 * f64::from(expected);
        assert!((sum - expected_sum).abs() < 1e-9, "{sum}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, f64::from(expected))));
    }
}

/// Bins of scale 0 are octaves: the bin of 9 ms, from 7.8 ms to 15.6 ms, is in the bucket above 10
/// ms, and its finer bins are in the one below.
#[test]
fn buckets_only_grow_although_the_scale_becomes_coarser() {
    let scale = |scale| {
        let histogram = HistogramConfig::with_scale(scale).unwrap();
        NodeConfig::default().with_histogram(histogram)
    };
    for is_listed_again in [false, true] {
        let registry = registry_with(RegistryConfig::default().node(scale(6)));
        let bounds = [1, 10, 100].map(Duration::from_millis);
        let collector = RegistryCollector::new(Arc::clone(&registry)).buckets(bounds);
        let collector = Arc::new(collector);
        let buckets = || {
            let samples = Samples::scrape_shared(&collector);
            let labels = [("resource", "orders"), ("context", ""), ("kind", "inbound")];
            let Some(Read::Histogram { count, buckets, .. }) =
                samples.value("leaparray_response_time_seconds", &labels)
            else {
                panic!("{samples:?}")
            };
            assert_eq!(buckets.last().unwrap().1, f64::from(u32::try_from(*count).unwrap()));
            [1, 2, 3].map(|bucket| buckets[bucket].1)
        };
        let set_scale = |config| {
            if is_listed_again {
                assert!(registry.remove("orders"));
                registry.resource_with("orders", config).unwrap();
            } else {
                registry.reconfigure(config);
            }
        };
        for _ in 0..1_000 {
            succeed(&registry, "orders", 2);
            succeed(&registry, "orders", 9);
        }
        assert_eq!(buckets(), [2_000.0, 2_000.0, 2_000.0]);
        set_scale(scale(0));
        assert_eq!(buckets(), [2_000.0; 3]);
        succeed(&registry, "orders", 2);
        assert_eq!(buckets(), [2_001.0; 3]);
        succeed(&registry, "orders", 9);
        assert_eq!(buckets(), [2_001.0, 2_002.0, 2_002.0], "the new one is in an octave");
        set_scale(scale(6));
        succeed(&registry, "orders", 9);
        assert_eq!(buckets(), [2_002.0, 2_003.0, 2_003.0]);
        set_scale(NodeConfig::default());
        succeed(&registry, "orders", 9);
        assert_eq!(buckets(), [2_002.0, 2_003.0, 2_004.0], "of unknown length");
    }
}

#[test]
fn scrape_leaves_no_handle_behind() {
    let registry = registry();
    succeed(&registry, "orders", 10);
    let collector = Arc::new(RegistryCollector::new(Arc::clone(&registry)));
    for _ in 0..2 {
        assert!(!prometheus::core::Collector::collect(&*collector).is_empty());
    }
    registry.clock().advance(Duration::from_secs(3_600));
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::from_secs(60)), 1);
}
