//! Histograms of all inbound resources.

use std::time::Duration;

use leaparray::{
    Clock, HistogramConfig, LatencyHistogram, ManualClock, NodeConfig, Outcome, Registry,
    RegistryConfig, Resource, TrafficType,
};

use crate::registry::{SECOND, registry, registry_of};

fn node(scale: u8) -> NodeConfig {
    NodeConfig::default().with_histogram(HistogramConfig::with_scale(scale).unwrap())
}

fn registry_with_histograms() -> (Registry<ManualClock>, ManualClock) {
    registry_of(RegistryConfig::default().node(node(4)))
}

/// Records a response time that ends now, and returns it.
fn record(resource: &Resource<ManualClock>, micros: u64) -> Duration {
    let (end, rt) = (resource.clock().now(), Duration::from_micros(micros));
    resource.enter_at(end.saturating_sub(rt)).end_at(end, Outcome::Success);
    rt
}

fn histogram_of(scale: u8, rts: &[Duration]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(scale).unwrap());
    for &rt in rts {
        histogram.record(rt);
    }
    histogram
}

#[test]
fn inbound_histogram_is_the_merge_of_all_inbound_nodes() {
    let (registry, _clock) = registry_with_histograms();
    let orders = registry.resource("orders").unwrap();
    let web = orders.in_context("web").unwrap();
    let users = registry.resource("users").unwrap();
    let database = registry.resource_with("database", TrafficType::Outbound).unwrap();
    let expected = [(&orders, 100), (&web, 20_000), (&users, 300), (&users, 7_000_000)]
        .map(|(resource, micros)| record(resource, micros));
    record(&database, 90_000);

    let expected = Some(histogram_of(4, &expected));
    assert_eq!(registry.now().short().histogram(), expected);
    assert_eq!(registry.now().long().histogram(), expected);
}

#[test]
fn each_window_has_the_response_times_of_its_time() {
    let (registry, clock) = registry_with_histograms();
    let early = record(&registry.resource("orders").unwrap(), 100);
    clock.advance(SECOND * 10);
    let late = record(&registry.resource("users").unwrap(), 300);

    let now = clock.now();
    assert_eq!(registry.at(now).short().histogram(), Some(histogram_of(4, &[late])));
    assert_eq!(registry.at(now).long().histogram(), Some(histogram_of(4, &[early, late])));
    clock.advance(SECOND * 60);
    assert_eq!(registry.now().long().histogram(), Some(histogram_of(4, &[])), "both have expired");
    assert_eq!(registry.at(now).short().histogram(), Some(histogram_of(4, &[late])));
    assert_eq!(registry.at(now).long().histogram(), Some(histogram_of(4, &[early, late])));
}

#[test]
fn inbound_histogram_has_the_coarsest_scale_of_the_nodes_with_response_times() {
    // Often enough that, in some registry, an idle resource is read first, and in some, last.
    for _ in 0..32 {
        let (registry, _clock) = registry();
        let of = |name, scale| registry.resource_with(name, node(scale)).unwrap();
        let (fine, coarse, _idle) = (of("fine", 5), of("coarse", 3), of("idle", 2));
        let rts = [record(&fine, 100), record(&coarse, 9_000)];
        assert_eq!(registry.now().short().histogram(), Some(histogram_of(3, &rts)));
    }
}

#[test]
fn buffer_is_replaced_if_a_resource_has_a_histogram_and_left_as_it_is_otherwise() {
    let (registry, clock) = registry();
    let _idle = registry.resource("idle").unwrap();
    let earlier = histogram_of(6, &[SECOND]);
    let mut buffer = earlier.clone();
    assert!(!registry.at(clock.now()).short().histogram_into(&mut buffer));
    assert!(!registry.at(clock.now()).long().histogram_into(&mut buffer));
    assert_eq!(buffer, earlier);
    assert_eq!(registry.now().short().histogram(), None);

    let rt = record(&registry.resource_with("orders", node(4)).unwrap(), 300);
    assert!(registry.at(clock.now()).short().histogram_into(&mut buffer));
    assert_eq!(buffer, histogram_of(4, &[rt]));
}

#[test]
fn inbound_histogram_is_of_all_response_times_beside_resources_without_a_histogram() {
    // Often enough that, in some registry, the plain resource is read first, and in some, last.
    for _ in 0..32 {
        let (registry, clock) = registry();
        let (plain, orders) =
            (registry.resource("plain").unwrap(), registry.resource_with("orders", node(4)));
        let early = record(orders.as_ref().unwrap(), 300);
        assert_eq!(registry.now().short().histogram(), Some(histogram_of(4, &[early])));

        record(&plain, 100);
        assert_eq!(registry.now().short().histogram(), None);
        assert_eq!(registry.now().long().histogram(), None);

        // The response time of the plain resource leaves the short window.
        clock.advance(SECOND * 10);
        let late = record(orders.as_ref().unwrap(), 500);
        assert_eq!(registry.now().short().histogram(), Some(histogram_of(4, &[late])));
        assert_eq!(registry.now().long().histogram(), None);

        // And the long one, beside the context of a resource without a histogram.
        clock.advance(SECOND * 60);
        let web = plain.in_context("web").unwrap();
        assert_eq!(registry.now().long().histogram(), Some(histogram_of(4, &[])));
        record(&web, 100);
        assert_eq!(registry.now().long().histogram(), None);
    }
}

#[test]
fn inbound_histogram_is_none_until_the_response_times_from_before_it_have_expired() {
    let (registry, clock) = registry();
    let [orders, users] = ["orders", "users"].map(|name| registry.resource(name).unwrap());
    for _ in 0..1_000 {
        record(&orders, 400_000);
    }
    registry.reconfigure(node(4));
    let early = record(&users, 1_000);
    let total = registry.now().inbound().short.totals;
    assert_eq!((total.rt_count(), early), (1_001, Duration::from_millis(1)));
    assert_eq!(registry.now().short().histogram(), None, "it would miss 1,000 of 1,001");
    assert_eq!(registry.now().long().histogram(), None);

    clock.advance(SECOND * 10);
    let late = record(&orders, 2_000);
    assert_eq!(registry.now().short().histogram(), Some(histogram_of(4, &[late])));
    assert_eq!(registry.now().long().histogram(), None);
    clock.advance(SECOND * 55);
    assert_eq!(registry.now().long().histogram(), Some(histogram_of(4, &[late])));
}

#[test]
fn inbound_histogram_does_not_miss_response_times_of_outbound_resources() {
    let (registry, _clock) = registry();
    let database = registry.resource_with("database", TrafficType::Outbound).unwrap();
    record(&database, 90_000);
    let rt = record(&registry.resource_with("orders", node(4)).unwrap(), 300);
    assert_eq!(registry.now().short().histogram(), Some(histogram_of(4, &[rt])));
}

#[test]
fn inbound_histogram_leaves_out_removed_resources() {
    let (registry, _clock) = registry_with_histograms();
    let orders = registry.resource("orders").unwrap();
    record(&orders, 100);
    registry.remove("orders");
    assert_eq!(registry.now().long().histogram(), None);
}

#[test]
fn total_has_quantiles_only_if_all_its_response_times_are_in_a_histogram() {
    let (registry, _clock) = registry();
    let orders = registry.resource("orders").unwrap();
    record(&orders, 400_000);
    registry.reconfigure(node(4));
    record(&orders, 1_000);
    let total = registry.now().snapshot().total();
    assert_eq!((total.short.totals.rt_count(), total.short.quantiles), (2, None));
    assert_eq!((total.long.totals.rt_count(), total.long.quantiles), (2, None));
    assert_eq!(registry.now().inbound().short.quantiles, None);
}
