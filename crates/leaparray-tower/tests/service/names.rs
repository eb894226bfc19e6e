//! The resources of requests.

use std::sync::Arc;

use http::{Request, Response};
use leaparray::{Registry, RegistryConfig, RegistryError, TrafficType};
use leaparray_tower::{Name, OTHER, OTHER_OUTBOUND, ResourceLayer};
use tower::{Layer, Service};

use crate::{SUCCESS, Steps, answering, endings_of, get, layer, poll_now, registry, registry_with};

fn empty() -> Response<Steps> {
    Response::new(Steps::default().that_says_its_end())
}

#[test]
fn request_without_a_name_is_recorded_in_one_resource_with_all_others() {
    let registry = registry();
    let layer =
        ResourceLayer::new(Arc::clone(&registry), |_: &Request<()>, _: &mut String| ()).unwrap();
    let mut service = layer.layer(answering(empty()));
    for scan in 0..1_000 {
        poll_now(service.call(get(&format!("/{scan}")))).unwrap();
    }
    assert_eq!((registry.len(), registry.refused()), (1, 0));
    assert_eq!(endings_of(&registry, OTHER), [1_000, 0, 0, 0, 0]);
}

#[test]
fn names_beyond_the_cap_share_one_resource_and_are_counted() {
    let registry = registry_with(RegistryConfig::default().max_resources(3));
    let mut service = layer(&registry).layer(answering(empty()));
    for path in ["/1", "/2", "/3", "/4", "/1"] {
        poll_now(service.call(get(path))).unwrap();
    }
    assert_eq!((registry.len(), registry.refused()), (3, 2));
    assert_eq!(endings_of(&registry, "/1"), [2, 0, 0, 0, 0]);
    assert_eq!(endings_of(&registry, OTHER), [2, 0, 0, 0, 0]);
}

#[test]
fn resources_of_a_client_are_outbound() {
    let registry = registry();
    let mut server = layer(&registry).layer(answering(empty()));
    poll_now(server.call(get("/server"))).unwrap();
    let name = |request: &Request<()>, name: &mut String| {
        name.push_str(request.uri().path().trim_start_matches("/other"));
    };
    let layer = ResourceLayer::outbound(Arc::clone(&registry), name).unwrap();
    let mut client = layer.layer(answering(empty()));
    for path in ["/client", "/other"] {
        poll_now(client.call(get(path))).unwrap();
    }
    let traffic = |name| (registry.get(name).unwrap().traffic_type(), endings_of(&registry, name));
    assert_eq!(traffic("/server"), (TrafficType::Inbound, SUCCESS));
    assert_eq!(traffic("/client"), (TrafficType::Outbound, SUCCESS));
    assert_eq!(traffic(OTHER_OUTBOUND), (TrafficType::Outbound, SUCCESS));
    assert_eq!(traffic(OTHER), (TrafficType::Inbound, [0; 5]));
}

#[test]
fn registry_without_room_is_an_error() {
    let registry = Arc::new(Registry::with_config(RegistryConfig::default().max_resources(0)));
    let error = ResourceLayer::new(registry, |_: &Request<()>, _: &mut String| ()).unwrap_err();
    assert_eq!(error, RegistryError::Full { max: 0, name: OTHER.into() });
}

#[test]
fn invalid_name_is_recorded_with_the_others() {
    let registry = registry();
    let name = |_: &Request<()>, name: &mut String| name.push_str("a line\nbreak");
    let layer = ResourceLayer::new(Arc::clone(&registry), name).unwrap();
    poll_now(layer.layer(answering(empty())).call(get("/"))).unwrap();
    assert_eq!(endings_of(&registry, OTHER), SUCCESS);
    assert_eq!(registry.refused(), 1);
}

/// Says that the path `/unknown` was unknown, after the response.
#[derive(Clone)]
struct Knows;

impl Name<()> for Knows {
    fn write(&self, request: &Request<()>, name: &mut String) {
        name.push_str(request.uri().path());
    }

    fn is_unknown(&self, response: &http::response::Parts) -> bool {
        response.headers.contains_key("unknown")
    }
}

#[test]
fn resource_of_an_unknown_request_is_removed_again() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), Knows).unwrap();
    let unknown = Response::builder().header("unknown", "").body(empty().into_body()).unwrap();
    let [mut knows, mut scans] =
        [empty(), unknown].map(|response| layer.layer(answering(response)));
    for scan in 0..10 {
        poll_now(scans.call(get(&format!("/{scan}")))).unwrap();
    }
    assert_eq!(registry.len(), 1);
    assert_eq!(registry.lifetime().sum(leaparray::MetricEvent::Success), 10);
    // A resource that was known before stays.
    poll_now(knows.call(get("/known"))).unwrap();
    poll_now(scans.call(get("/known"))).unwrap();
    assert_eq!(endings_of(&registry, "/known"), [2, 0, 0, 0, 0]);
}

#[test]
fn resource_with_a_success_is_not_unknown() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), Knows).unwrap();
    let unknown = Response::builder().header("unknown", "").body(empty().into_body()).unwrap();
    let [mut knows, mut scans] =
        [empty(), unknown].map(|response| layer.layer(answering(response)));
    let first = scans.call(get("/known"));
    poll_now(knows.call(get("/known"))).unwrap();
    poll_now(first).unwrap();
    assert_eq!(endings_of(&registry, "/known"), [2, 0, 0, 0, 0]);
}

#[test]
fn resource_that_was_listed_anew_in_the_meantime_is_not_removed() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), Knows).unwrap();
    let unknown = Response::builder().header("unknown", "").body(empty().into_body()).unwrap();
    let first = layer.layer(answering(unknown)).call(get("/path"));
    assert!(registry.remove("/path"));
    let anew = registry.resource("/path").unwrap();
    poll_now(first).unwrap();
    assert!(!anew.is_removed());
    assert_eq!(registry.len(), 2);
}

/// Calls a service while it writes the name of a request.
#[derive(Clone)]
struct Calls<S>(S);

impl<S: Service<Request<()>, Future: Future> + Clone> Name<()> for Calls<S> {
    fn write(&self, request: &Request<()>, name: &mut String) {
        name.push_str("outer ");
        drop(poll_now(self.0.clone().call(request.clone())));
        name.push_str(request.uri().path());
    }
}

#[test]
fn name_can_call_the_service_of_another_layer() {
    let registry = registry();
    let inner = layer(&registry).layer(answering(empty()));
    let outer = ResourceLayer::new(Arc::clone(&registry), Calls(inner)).unwrap();
    poll_now(outer.layer(answering(empty())).call(get("/a"))).unwrap();
    assert_eq!(endings_of(&registry, "/a"), SUCCESS);
    assert_eq!(endings_of(&registry, "outer /a"), SUCCESS);
}
