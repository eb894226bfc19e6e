//! The resources of requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response};
use leaparray::flow::{BoxLimiter, Limiter, Rate};
use leaparray::{ManualClock, Registry, RegistryConfig, RegistryError, Resource, TrafficType};
use leaparray_tower::{Name, OTHER, OTHER_OUTBOUND, ResourceLayer};
use tower::{Layer, Service, service_fn};

use crate::{
    Broken, SUCCESS, Step, Steps, answering, endings_of, get, layer, poll_now, registry,
    registry_with,
};

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

/// How many names without a confirmation a layer lists at a time.
const UNCONFIRMED: usize = 100;

/// Each way in which a request for a target that does not exist can be turned away: the status, or
/// what the header `refuser` says.
const REFUSERS: [&str; 15] = [
    "400",
    "401",
    "404",
    "405",
    "429",
    "501",
    "503",
    "grpc 7",
    "grpc 12",
    "grpc 12 in trailers",
    "limiter",
    "limiter in its wait",
    "error",
    "panic",
    "client",
];

fn refuser<A>(request: &Request<A>) -> &str {
    request.headers().get("refuser").map_or("", |it| it.to_str().unwrap())
}

/// Answers as the header `refuser` says.
async fn turn_away(request: Request<()>) -> Result<Response<Steps>, Broken> {
    let refuser = refuser(&request);
    let grpc = || Response::builder().header("content-type", "application/grpc");
    let empty = || Steps::default().that_says_its_end();
    match refuser.split_once(' ') {
        Some(("grpc", "12 in trailers")) => {
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), 12.into())]);
            Ok(grpc().body(Steps::of([Step::Trailers(trailers)])).unwrap())
        }
        Some(("grpc", code)) => Ok(grpc().header("grpc-status", code).body(empty()).unwrap()),
        _ => match refuser {
            "error" => Err(Broken),
            "panic" => panic!("the service panics"),
            "client" => std::future::pending().await,
            "" if request.method() == Method::POST => {
                let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), 0.into())]);
                Ok(grpc().body(Steps::of([Step::Trailers(trailers)])).unwrap())
            }
            "" => Ok(Response::new(empty())),
            status => Ok(Response::builder().status(status).body(empty()).unwrap()),
        },
    }
}

/// Chooses the limiter that the header `refuser` says.
fn limiter(request: &Request<()>, resource: &Resource<ManualClock>) -> Option<Arc<BoxLimiter>> {
    let registry = leaparray::Timeline::with_clock(resource.clock().clone());
    let minute = Duration::from_secs(60);
    Some(Arc::new(match refuser(request) {
        "limiter" => registry.fixed_window_limiter(minute, 0).unwrap().boxed(),
        "limiter in its wait" => {
            let pace = registry.leaky_bucket(Rate::per_minute(1).unwrap(), minute);
            assert!(pace.try_acquire().is_admitted());
            pace.boxed()
        }
        _ => return None,
    }))
}

fn names_that_no_response_confirms<N: Name<()> + Clone>(name: &N, method: &Method) {
    for refuser in REFUSERS {
        let registry = registry_with(RegistryConfig::default().max_resources(1_000));
        let layer = ResourceLayer::new(Arc::clone(&registry), name.clone()).unwrap();
        let mut service = layer.limit_by(limiter).layer(service_fn(turn_away));
        let mut ask = |path: &str, refuser: &str| {
            let request = Request::builder().method(method).uri(path).header("refuser", refuser);
            let request = request.body(()).unwrap();
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let mut response = pin!(service.call(request));
                let mut cx = Context::from_waker(Waker::noop());
                if let std::task::Poll::Ready(Ok(response)) = response.as_mut().poll(&mut cx) {
                    let mut body = response.into_body();
                    while let std::task::Poll::Ready(Some(Ok(_))) = crate::poll_body(&mut body) {}
                }
            }));
        };
        ask("/shop.Orders/Early", "");
        for scan in 0..2_000 {
            // Twice, so that some request finds its name listed.
            for _ in 0..2 {
                ask(&format!("/scan.Orders/{scan}"), refuser);
            }
        }
        assert!(registry.len() <= 2 + UNCONFIRMED, "{refuser}: {} names", registry.len());
        assert_eq!(registry.refused(), 0, "{refuser}: the registry was full");
        ask("/shop.Orders/Late", "");
        for scan in 2_000..3_000 {
            ask(&format!("/scan.Orders/{scan}"), refuser);
        }
        for path in ["/shop.Orders/Early", "/shop.Orders/Late"] {
            let name = [path, &path[1..]].into_iter().find_map(|name| registry.get(name));
            let name = name.unwrap_or_else(|| panic!("{refuser}: {path} is not listed"));
            assert_eq!(crate::endings(&name), SUCCESS, "{refuser}: {path}");
        }
        let totals = registry.lifetime();
        let ended =
            totals.sum(leaparray::MetricEvent::Pass) + totals.sum(leaparray::MetricEvent::Block);
        assert_eq!(ended, 5_002, "{refuser}: requests are missing");
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_a_closure_do_not_fill_the_registry_whoever_refuses() {
    names_that_no_response_confirms(&crate::by_path::<()>, &Method::GET);
}

#[cfg(feature = "tonic")]
#[tokio::test(start_paused = true)]
async fn names_of_grpc_do_not_fill_the_registry_whoever_refuses() {
    names_that_no_response_confirms(&leaparray_tower::GrpcMethod, &Method::POST);
}

#[test]
fn name_with_a_request_in_flight_is_not_removed_for_a_new_one() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(turn_away));
    let waits = |path: &str| Request::get(path).header("refuser", "client").body(()).unwrap();
    let waiting: Vec<_> =
        (0..UNCONFIRMED).map(|request| service.call(waits(&format!("/{request}")))).collect();
    poll_now(service.call(get("/new"))).unwrap();
    assert_eq!(registry.len(), 1 + UNCONFIRMED);
    assert_eq!(endings_of(&registry, OTHER), SUCCESS, "there is no room for its name");
    drop(waiting);
    poll_now(service.call(get("/new"))).unwrap();
    assert_eq!(endings_of(&registry, "/new"), SUCCESS);
}

#[test]
fn name_without_a_confirmation_makes_room_in_a_full_registry() {
    let registry = registry_with(RegistryConfig::default().max_resources(3));
    let mut service = layer(&registry).layer(service_fn(turn_away));
    let scan = |path: &str| Request::get(path).header("refuser", "404").body(()).unwrap();
    for path in ["/1", "/2", "/3"] {
        poll_now(service.call(scan(path))).unwrap();
    }
    for path in ["/4", "/5"] {
        poll_now(service.call(get(path))).unwrap();
        assert_eq!(endings_of(&registry, path), SUCCESS);
    }
    // Both are confirmed.
    poll_now(service.call(get("/6"))).unwrap();
    assert_eq!(endings_of(&registry, OTHER), SUCCESS);
}

#[test]
fn resource_that_was_listed_by_others_is_not_removed() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(turn_away));
    let scan = |path: &str| Request::get(path).header("refuser", "404").body(()).unwrap();
    poll_now(service.call(scan("/listed"))).unwrap();
    assert!(registry.remove("/listed"));
    let listed = registry.resource("/listed").unwrap();
    for path in 0..2 * UNCONFIRMED {
        poll_now(service.call(scan(&format!("/{path}")))).unwrap();
    }
    assert!(!listed.is_removed());
}
