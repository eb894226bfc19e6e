//! Counters only grow.

use std::sync::Arc;
use std::time::Duration;

use leaparray::NodeConfig;
use leaparray_prometheus::RegistryCollector;

use crate::{Read, Samples, registry, succeed};

#[test]
fn resource_that_is_listed_again_begins_at_zero_and_the_registry_does_not() {
    let registry = registry();
    let scrape = || Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
    for _ in 0..5 {
        succeed(&registry, "orders", 10);
    }
    let before = scrape();
    registry.clock().advance(Duration::from_secs(3_600));
    assert_eq!(registry.evict_idle(Duration::from_secs(60)), 1);
    let evicted = scrape();
    succeed(&registry, "orders", 10);
    let again = scrape();

    let of_registry =
        |samples: &Samples| samples.number("leaparray_registry_success", &[("kind", "inbound")]);
    assert_eq!([&before, &evicted, &again].map(of_registry), [5.0, 5.0, 6.0]);
    assert_eq!(before.of_resource("leaparray_success", "orders"), 5.0);
    assert_eq!(again.of_resource("leaparray_success", "orders"), 1.0);
    assert!(evicted.0.keys().all(|(family, _)| family != "leaparray_success"));
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

#[test]
fn scrape_leaves_no_handle_behind() {
    let registry = registry();
    succeed(&registry, "orders", 10);
    let collector = Arc::new(RegistryCollector::new(Arc::clone(&registry)));
    for _ in 0..2 {
        assert!(!prometheus::core::Collector::collect(&*collector).is_empty());
    }
    registry.clock().advance(Duration::from_secs(3_600));
    assert_eq!(registry.evict_idle(Duration::from_secs(60)), 1);
}
