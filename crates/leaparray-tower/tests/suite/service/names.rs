//! The resources of requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response};
use leaparray::flow::{
    BoxLimiter, CircuitBreaker, CircuitConfig, FixedWindowLimiter, LeakyBucket, LimiterExt, Rate,
    TokenBucket,
};
use leaparray::registry::RegistryError;
use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Resource, TrafficType};
use leaparray_tower::{Name, OTHER, OTHER_OUTBOUND, ResourceLayer};
use tower::{Layer, Service, service_fn};

use crate::service::{
    Broken, SUCCESS, Step, Steps, answering, endings_of, get, layer, outbound, poll_now, registry,
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

/// Answers the paths of a scan like all others, with a header that says so.
#[derive(Clone)]
struct Knows;

impl Name<()> for Knows {
    fn write(&self, request: &Request<()>, name: &mut String) {
        name.push_str(request.uri().path());
    }

    fn confirms(&self, response: &http::response::Parts) -> bool {
        !response.headers.contains_key("unknown")
    }
}

#[test]
fn name_says_which_responses_confirm_it() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), Knows).unwrap();
    let unknown = Response::builder().header("unknown", "").body(empty().into_body()).unwrap();
    let failed = Response::builder().status(503).body(empty().into_body()).unwrap();
    let [mut scans, mut knows] = [unknown, failed].map(|response| layer.layer(answering(response)));
    for path in 0..2 * UNCONFIRMED {
        poll_now(scans.call(get(&format!("/scan/{path}")))).unwrap();
    }
    assert_eq!(registry.len(), 1 + UNCONFIRMED);
    for path in 0..2 * UNCONFIRMED {
        poll_now(knows.call(get(&format!("/known/{path}")))).unwrap();
    }
    assert_eq!(registry.len(), 1 + 3 * UNCONFIRMED);
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

/// How many unconfirmed names are listed at a time.
const UNCONFIRMED: usize = 100;

/// Each way in which a request for a target that does not exist can be turned away: the status, or
/// what the header `refuser` says. A name that is answered with 405 takes no room.
const REFUSERS: [&str; 15] = [
    "400",
    "401",
    "404",
    "429",
    "501",
    "503",
    "grpc 7",
    "grpc 12",
    "grpc 7 in trailers",
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
        Some(("grpc", code)) if code.ends_with(" in trailers") => {
            let code = code.trim_end_matches(" in trailers").parse().unwrap();
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), code)]);
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
fn limiter(request: &Request<()>, resource: &Resource<ManualClock>) -> Option<BoxLimiter> {
    let clock = resource.clock().clone();
    let minute = Duration::from_secs(60);
    Some(match refuser(request) {
        "limiter" => FixedWindowLimiter::with_clock(minute, 0, clock).unwrap().boxed(),
        "limiter in its wait" => {
            let pace = LeakyBucket::with_clock(Rate::per_minute(1).unwrap(), minute, clock);
            assert!(pace.try_acquire().is_admitted());
            pace.boxed()
        }
        _ => return None,
    })
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
                    while let std::task::Poll::Ready(Some(Ok(_))) =
                        crate::service::poll_body(&mut body)
                    {}
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
        let without_room = 2 * (2_000 - UNCONFIRMED as u64);
        assert_eq!(registry.refused(), without_room, "{refuser}: requests without a name");
        // There is no room for its name until a response confirms it.
        for _ in 0..2 {
            ask("/shop.Orders/Late", "");
        }
        for scan in 2_000..3_000 {
            ask(&format!("/scan.Orders/{scan}"), refuser);
        }
        for path in ["/shop.Orders/Early", "/shop.Orders/Late"] {
            let name = [path, &path[1..]].into_iter().find_map(|name| registry.get(name));
            let name = name.unwrap_or_else(|| panic!("{refuser}: {path} is not listed"));
            assert_eq!(crate::service::endings(&name), SUCCESS, "{refuser}: {path}");
        }
        let totals = registry.lifetime();
        let ended =
            totals.sum(leaparray::MetricEvent::Pass) + totals.sum(leaparray::MetricEvent::Block);
        assert_eq!(ended, 5_003, "{refuser}: requests are missing");
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_a_closure_do_not_fill_the_registry_whoever_refuses() {
    names_that_no_response_confirms(&crate::service::by_path::<()>, &Method::GET);
}

#[cfg(feature = "tonic")]
#[tokio::test(start_paused = true)]
async fn names_of_grpc_do_not_fill_the_registry_whoever_refuses() {
    names_that_no_response_confirms(&leaparray_tower::GrpcMethod, &Method::POST);
}

fn scan(path: &str) -> Request<()> {
    Request::get(path).header("refuser", "404").body(()).unwrap()
}

#[test]
fn requests_in_flight_with_invented_names_keep_no_route_from_the_registry() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(turn_away));
    let waits = |path: &str| Request::get(path).header("refuser", "client").body(()).unwrap();
    let _waiting: Vec<_> =
        (0..2 * UNCONFIRMED).map(|path| service.call(waits(&format!("/{path}")))).collect();
    assert_eq!(registry.len(), 1 + UNCONFIRMED);
    assert_eq!(registry.refused(), UNCONFIRMED as u64);
    assert_eq!(endings_of(&registry, OTHER), [0, 0, 0, 0, UNCONFIRMED as u64]);
    for _ in 0..3 {
        poll_now(service.call(get("/new"))).unwrap();
    }
    assert_eq!(endings_of(&registry, OTHER), [1, 0, 0, 0, UNCONFIRMED as u64], "the first one");
    assert_eq!(endings_of(&registry, "/new"), [2, 0, 0, 0, 0]);
}

#[test]
fn invented_names_fill_at_most_half_of_the_registry() {
    let registry = registry_with(RegistryConfig::default().max_resources(5));
    let mut service = layer(&registry).layer(service_fn(turn_away));
    for path in ["/1", "/2", "/3", "/4"] {
        poll_now(service.call(scan(path))).unwrap();
    }
    assert_eq!((registry.len(), registry.refused()), (3, 2));
    for path in ["/5", "/5", "/6", "/6", "/7", "/7"] {
        poll_now(service.call(get(path))).unwrap();
    }
    assert_eq!(["/5", "/6"].map(|path| endings_of(&registry, path)), [SUCCESS; 2]);
    // The first requests of two routes, and both of the third one: the registry is full.
    assert_eq!((registry.len(), registry.refused()), (5, 2 + 4));
    assert_eq!(endings_of(&registry, OTHER), [2 + 4, 0, 0, 0, 0]);
}

#[test]
fn response_to_any_request_through_any_layer_confirms_a_name() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(turn_away));
    let mut answers = layer(&registry).layer(answering(empty()));
    let list = |service: &mut dyn FnMut(Request<()>), prefix| {
        let before = registry.len();
        (0..UNCONFIRMED).for_each(|path| service(scan(&format!("/{prefix}/{path}"))));
        registry.len() - before
    };
    let mut scans = |request| drop(poll_now(service.call(request)).unwrap());
    assert_eq!(list(&mut scans, "first"), UNCONFIRMED);
    for path in 0..10 {
        // A later request, and a request through another layer.
        scans(get(&format!("/first/{}", UNCONFIRMED - 1 - path)));
        poll_now(answers.call(get(&format!("/first/{}", UNCONFIRMED - 11 - path)))).unwrap();
    }
    assert_eq!(list(&mut scans, "second"), 20);
}

/// The request keeps both its name and its deadline until the trailers.
#[test]
fn trailers_confirm_the_name_of_a_request_with_a_deadline() {
    let registry = registry();
    let layer = layer(&registry).timeout_around(Duration::from_secs(60));
    let mut service = layer.layer(service_fn(turn_away));
    for path in 0..UNCONFIRMED {
        poll_now(service.call(scan(&format!("/scan/{path}")))).unwrap();
    }
    let call = Request::post("/late").body(()).unwrap();
    let mut body = poll_now(service.call(call)).unwrap().into_body();
    assert!(registry.get("/late").is_none());
    assert!(matches!(crate::service::poll_body(&mut body), std::task::Poll::Ready(Some(Ok(_)))));
    assert!(registry.get("/late").is_some());
}

/// Answers with the status in the header `status`, or else with 200.
async fn with_status(request: Request<()>) -> Result<Response<Steps>, Broken> {
    let status = request.headers().get("status").map_or("200", |it| it.to_str().unwrap());
    Ok(Response::builder().status(status).body(empty().into_body()).unwrap())
}

fn status(path: &str, status: &str) -> Request<()> {
    Request::get(path).header("status", status).body(()).unwrap()
}

#[test]
fn denied_name_has_no_resource_until_a_response_confirms_it() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(with_status));
    let mut ask = |status_is: &str| poll_now(service.call(status("/orders", status_is))).unwrap();
    for _ in 0..3 {
        drop(ask("405"));
        assert!(registry.get("/orders").is_none());
    }
    // The first one is in the removed resource, and the others have been told.
    assert_eq!(endings_of(&registry, OTHER), [2, 0, 0, 0, 0]);
    for _ in 0..2 {
        drop(ask("200"));
    }
    assert_eq!(endings_of(&registry, "/orders"), SUCCESS);
    assert_eq!((registry.len(), registry.refused()), (2, 0));
    // A confirmed one stays.
    drop(ask("405"));
    assert_eq!(endings_of(&registry, "/orders"), [2, 0, 0, 0, 0]);
}

/// Its limiter or breaker knows of the other requests, so no client can reset it.
#[test]
fn resource_with_other_requests_is_not_removed_by_a_denial() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(with_status));
    for answer in ["401", "405", "405"] {
        drop(poll_now(service.call(status("/login", answer))).unwrap());
    }
    assert_eq!(endings_of(&registry, "/login"), [3, 0, 0, 0, 0]);
    // In flight beside it.
    let waits = Request::get("/slow").header("refuser", "client").body(()).unwrap();
    let mut never = layer(&registry).layer(service_fn(turn_away));
    let waiting = never.call(waits);
    drop(poll_now(service.call(status("/slow", "405"))).unwrap());
    assert_eq!(endings_of(&registry, "/slow")[0], 1);
    drop(waiting);
}

#[test]
fn requests_that_are_denied_beside_each_other_leave_no_resource() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(with_status));
    let both = [(); 2].map(|()| service.call(status("/orders", "405")));
    for response in both {
        drop(poll_now(response).unwrap());
    }
    assert_eq!(registry.len(), 1);
}

/// A removed resource has a series, in Prometheus for example, although it is not listed.
#[test]
fn denied_names_have_few_series() {
    let registry = registry();
    let mut series = registry.series();
    let mut service = layer(&registry).layer(service_fn(with_status));
    let mut ask = |path: &str, answer| drop(poll_now(service.call(status(path, answer))).unwrap());
    for _ in 0..2 {
        for path in 0..10 * UNCONFIRMED {
            ask(&format!("/{path}"), "405");
        }
    }
    assert_eq!(registry.len(), 1);
    assert_eq!(series.read(&registry).iter().count(), 1 + UNCONFIRMED);
    // Other names are listed by their first response, also if that does not confirm them.
    for answer in ["404", "200"] {
        for _ in 0..2 {
            ask(&format!("/{answer}"), answer);
        }
    }
    assert_eq!(["/404", "/200"].map(|name| endings_of(&registry, name)), [SUCCESS; 2]);
    let all = registry.lifetime().sum(leaparray::MetricEvent::Pass);
    assert_eq!((all, registry.refused()), (20 * UNCONFIRMED as u64 + 4, 0));
    // The unconfirmed ones are bounded, too.
    for path in 0..2 * UNCONFIRMED {
        ask(&format!("/scan/{path}"), "404");
    }
    assert_eq!(registry.len(), 2 + UNCONFIRMED);
    assert_eq!(registry.refused(), UNCONFIRMED as u64 + 1);
}

#[test]
fn denied_names_take_no_room_of_others() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(with_status));
    for _ in 0..2 {
        for path in 0..10 * UNCONFIRMED {
            drop(poll_now(service.call(status(&format!("/{path}"), "405"))).unwrap());
        }
    }
    assert_eq!((registry.len(), registry.refused()), (1, 0));
    for path in 0..UNCONFIRMED {
        drop(poll_now(service.call(status(&format!("/scan/{path}"), "404"))).unwrap());
    }
    assert_eq!((registry.len(), registry.refused()), (1 + UNCONFIRMED, 0));
}

#[test]
fn eviction_makes_room_for_unconfirmed_names() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(turn_away));
    for path in 0..UNCONFIRMED {
        poll_now(service.call(scan(&format!("/first/{path}")))).unwrap();
    }
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), UNCONFIRMED);
    for path in 0..2 * UNCONFIRMED {
        poll_now(service.call(scan(&format!("/second/{path}")))).unwrap();
    }
    assert_eq!(registry.len(), 1 + UNCONFIRMED);
}

#[test]
fn name_that_is_evicted_and_listed_again_counts_once() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(turn_away));
    for _ in 0..2 * UNCONFIRMED {
        registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
        poll_now(service.call(scan("/again"))).unwrap();
    }
    for path in 1..UNCONFIRMED {
        poll_now(service.call(scan(&format!("/{path}")))).unwrap();
    }
    assert_eq!((registry.len(), registry.refused()), (1 + UNCONFIRMED, 0));
}

/// Guesses of a password, which are answered with 401 and never confirm the name.
#[test]
fn limit_of_a_resource_survives_invented_names() {
    let registry = registry();
    let answers = |request: Request<()>| async move {
        let status = if request.uri().path() == "/login" { 401 } else { 404 };
        Ok::<_, Broken>(Response::builder().status(status).body(empty().into_body()).unwrap())
    };
    let limit = |resource: &Resource<ManualClock>| {
        let rate = Rate::per_minute(5).unwrap();
        let bucket = || TokenBucket::with_clock(rate, 5, resource.clock().clone());
        (resource.name() == "/login").then(|| Arc::new(bucket()))
    };
    let mut service = layer(&registry).limit_each(limit).layer(service_fn(answers));
    let mut guesses = 0;
    for round in 0..10 {
        for _ in 0..20 {
            guesses += u32::from(poll_now(service.call(get("/login"))).unwrap().status() == 401);
        }
        for path in 0..UNCONFIRMED {
            poll_now(service.call(get(&format!("/{round}/{path}")))).unwrap();
        }
    }
    assert_eq!(guesses, 5);
}

/// Each backend is down, and has a breaker that opens at its first failure.
#[test]
fn breakers_of_many_backends_stay_open() {
    let registry = registry();
    let breaker = |resource: &Resource<ManualClock>| {
        let config = CircuitConfig::default().consecutive_exceptions(1);
        Some(Arc::new(CircuitBreaker::with_clock(config, resource.clock().clone())))
    };
    let reached = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&reached);
    let fails = service_fn(move |_: Request<()>| {
        seen.fetch_add(1, Ordering::Relaxed);
        async { Err::<Response<Steps>, _>(Broken) }
    });
    let mut service = outbound(&registry).limit_each(breaker).layer(fails);
    for _ in 0..10 {
        for host in 0..150 {
            drop(poll_now(service.call(get(&format!("/{host}")))));
        }
    }
    assert_eq!((reached.load(Ordering::Relaxed), registry.len()), (150, 1 + 150));
}

/// Its resource was listed by a request that was turned away, and it is used since.
#[test]
fn resource_in_use_stays_listed() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(turn_away));
    let mut answers = layer(&registry).layer(answering(empty()));
    for path in ["/orders", "/users", "/held"] {
        poll_now(service.call(scan(path))).unwrap();
    }
    let resources = ["/orders", "/users", "/held"].map(|path| registry.get(path).unwrap());
    for _ in 0..1_000 {
        poll_now(service.call(get("/orders"))).unwrap();
        poll_now(answers.call(get("/users"))).unwrap();
    }
    for path in 0..2 * UNCONFIRMED {
        poll_now(service.call(scan(&format!("/{path}")))).unwrap();
    }
    assert_eq!(resources.map(|resource| resource.is_removed()), [false; 3]);
}

/// The responses to two requests with a new name, in both orders.
#[test]
fn failure_does_not_undo_a_confirmation() {
    for order in [[0, 1], [1, 0]] {
        let registry = registry();
        let mut service = layer(&registry).layer(service_fn(turn_away));
        let mut calls = [get("/new"), scan("/new")].map(|request| Some(service.call(request)));
        for index in order {
            poll_now(calls[index].take().unwrap()).unwrap();
        }
        for path in 0..2 * UNCONFIRMED {
            poll_now(service.call(scan(&format!("/{path}")))).unwrap();
        }
        assert_eq!(registry.len(), 2 + UNCONFIRMED, "{order:?}");
    }
}

#[test]
fn resource_that_was_listed_by_others_is_not_removed() {
    let registry = registry();
    let mut service = layer(&registry).layer(service_fn(turn_away));
    poll_now(service.call(scan("/listed"))).unwrap();
    assert!(registry.remove("/listed"));
    let listed = registry.resource("/listed").unwrap();
    for path in 0..2 * UNCONFIRMED {
        poll_now(service.call(scan(&format!("/{path}")))).unwrap();
    }
    assert!(!listed.is_removed());
}
