//! Services of one layer, which share it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use leaparray::flow::{Rate, TokenBucket};
use leaparray::node::OnDrop;
use leaparray::{HistogramConfig, NodeConfig, RegistryConfig};
use leaparray_tower::FirstByte;
use tower::{Layer, Service, service_fn};

use crate::service::{
    CANCELLED, Steps, answering, endings_of, get, layer, poll_now, registry, registry_with,
};

/// The layer has a service already, with the choices before the change.
#[test]
fn changed_layer_has_its_own_choices() {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let registry = registry_with(RegistryConfig::default().node(node));
    let bucket =
        TokenBucket::with_clock(Rate::per_second(10).unwrap(), 10, registry.clock().clone());
    let response = Response::new(Steps::default().that_says_its_end());
    let before = layer(&registry).limit(Arc::new(bucket));
    let mut service = before.layer(answering(response.clone()));
    let answer = poll_now(service.call(get("/"))).unwrap();
    assert!(!answer.headers().contains_key("ratelimit"));
    let has_times = || FirstByte::of(&registry.get("/").unwrap()).is_some();
    assert!(!has_times());

    let mut with_headers = before.clone().quota_headers(true).layer(answering(response.clone()));
    let answer = poll_now(with_headers.call(get("/"))).unwrap();
    assert!(answer.headers().contains_key("ratelimit"));
    assert!(!has_times());

    let mut with_times = before.clone().first_byte(true).layer(answering(response));
    poll_now(with_times.call(get("/"))).unwrap();
    assert!(has_times());
}

#[test]
fn layer_with_a_changed_policy_applies_it() {
    let never = service_fn(|_: Request<()>| pending::<Result<Response<Steps>, ()>>());
    let second = Duration::from_secs(1);
    for is_timeout in [false, true] {
        let registry = registry();
        let before = layer(&registry);
        let drop_late = |mut service: _| {
            let call = Service::call(&mut service, get("/"));
            registry.clock().advance(second);
            drop(call);
        };
        drop_late(before.layer(never));
        assert_eq!(endings_of(&registry, "/"), CANCELLED);
        let changed = before.clone();
        let changed = if is_timeout {
            changed.timeout_around(second)
        } else {
            changed.on_drop(OnDrop::Exception)
        };
        drop_late(changed.layer(never));
        assert_eq!(endings_of(&registry, "/"), [0, 1, 1, 0, 0]);
        drop_late(before.layer(never));
        assert_eq!(endings_of(&registry, "/"), [0, 1, 2, 0, 0]);
    }
}
