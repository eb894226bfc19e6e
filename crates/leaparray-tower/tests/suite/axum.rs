//! The layer around an axum service, by a client in the same process.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::{any, get};
use leaparray::flow::{Rate, TokenBucket};
use leaparray::{Clock, ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
use leaparray_tower::{MatchedRoute, OTHER, ResourceLayer};
use tower::ServiceExt;

fn registry() -> Arc<Registry<ManualClock>> {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    Arc::new(Registry::with_clock(RegistryConfig::default(), clock))
}

#[tokio::test]
async fn requests_are_recorded_by_route() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let app = Router::new()
        .route("/orders/{id}", get(async || "an order"))
        .route("/failing", get(async || StatusCode::BAD_GATEWAY))
        .layer(layer);
    for path in ["/orders/1", "/orders/2", "/failing", "/scan1", "/scan2"] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    }
    let sum = |name: &str, event| registry.get(name).unwrap().now().long().sum(event);
    assert_eq!(sum("GET /orders/{id}", MetricEvent::Success), 2);
    assert_eq!(sum("GET /failing", MetricEvent::Exception), 1);
    assert_eq!(sum(OTHER, MetricEvent::Success), 2);
    assert_eq!(registry.len(), 3);
    assert_eq!(registry.now().inbound().concurrency, 0);
}

#[tokio::test]
async fn route_of_a_nested_router_has_its_whole_path_and_its_misses_share_one_name() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let orders = || Router::new().route("/orders/{id}", get(async || "an order"));
    let app = Router::new()
        .nest("/api", orders())
        .nest_service("/service", orders().fallback(async || StatusCode::NOT_FOUND))
        .layer(layer);
    let missed = ["/api/scan", "/api", "/scan"];
    for path in ["/api/orders/1", "/service/orders/2"].into_iter().chain(missed) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    }
    let sum = |name: &str| registry.get(name).unwrap().now().long().sum(MetricEvent::Success);
    assert_eq!(sum("GET /api/orders/{id}"), 1);
    // Three misses, and the nested service, for which axum has matched no route.
    assert_eq!((sum(OTHER), registry.len()), (4, 2));
}

/// A thread finds a route by its address, at which a later router may have another route.
#[tokio::test]
async fn routes_of_routers_that_follow_each_other_keep_their_names() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    // So long that few other allocations have their size: a later route takes the address of an
    // earlier one.
    let long = "a".repeat(1_000);
    let paths: Vec<_> = (100..200).map(|number| format!("/{long}/{number}")).collect();
    for path in &paths {
        let app = Router::new().route(path, get(async || "done")).layer(layer.clone());
        for _ in 0..3 {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = app.clone().oneshot(request).await.unwrap();
            axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        }
    }
    for path in &paths {
        let resource = registry.get(&format!("GET {path}")).expect(path);
        assert_eq!(resource.lifetime().sum(MetricEvent::Success), 3, "{path}");
    }
}

/// A thread keeps the texts of routes and the memory of handles.
#[test]
fn threads_that_have_served_a_router_keep_nothing_else_of_it() {
    struct Held;
    let registry = registry();
    let bucket =
        TokenBucket::with_clock(Rate::per_second(1_000).unwrap(), 1_000, registry.clock().clone());
    let (limiter, held) = (Arc::new(bucket), Arc::new(Held));
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let layer = layer.limit(Arc::clone(&limiter));
    let of_handler = Arc::clone(&held);
    let handler = async move || _ = &of_handler;
    let app = Router::new().route("/held", any(handler)).layer(layer.clone());
    let threads = [(); 4].map(|()| {
        let (app, held) = (app.clone(), Arc::clone(&held));
        let (done, is_done) = channel();
        let (release, released) = channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                for method in ["GET", "PUT", "GET"] {
                    let request = Request::builder().method(method).uri("/held");
                    let request = request.extension(Arc::clone(&held)).body(Body::empty());
                    let response = app.clone().oneshot(request.unwrap()).await.unwrap();
                    axum::body::to_bytes(response.into_body(), 100).await.unwrap();
                }
            });
            drop((app, held));
            done.send(()).unwrap();
            // The thread lives on.
            let _ = released.recv();
        });
        (thread, is_done, release)
    });
    for (_, is_done, _) in &threads {
        is_done.recv().expect("the thread has served its requests");
    }
    let served = registry.get("GET /held").unwrap().lifetime().sum(MetricEvent::Success);
    drop((app, layer));
    let counts = [Arc::strong_count(&limiter), Arc::strong_count(&held)];
    let registry = Arc::try_unwrap(registry).is_ok();
    for (thread, _, release) in threads {
        drop(release);
        thread.join().unwrap();
    }
    assert_eq!((served, counts, registry), (8, [1, 1], true));
}

#[tokio::test]
async fn refused_request_gets_an_answer() {
    let registry = registry();
    let bucket = TokenBucket::with_clock(Rate::per_minute(2).unwrap(), 1, registry.clock().clone());
    let layer =
        ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap().limit(Arc::new(bucket));
    let app: Router = Router::new().route("/", get(async || "done")).layer(layer);
    let request = || Request::get("/").body(Body::empty()).unwrap();
    let answer: Result<_, Infallible> = app.clone().oneshot(request()).await;
    assert_eq!(answer.unwrap().status(), 200);
    let answer = app.oneshot(request()).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "30");
    assert_eq!(answer.headers()["ratelimit-policy"], "\"default\";q=1;w=30");
    assert_eq!(answer.headers()["ratelimit"], "\"default\";r=0;t=30");
    let root = registry.get("GET /").unwrap();
    assert_eq!(
        (root.now().long().sum(MetricEvent::Pass), root.now().long().sum(MetricEvent::Block)),
        (1, 1)
    );
}

#[tokio::test]
async fn methods_that_a_route_does_not_have_make_no_resource() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let mut app = Router::new();
    for route in 0..200 {
        app = app.route(&format!("/{route}"), get(async || "done"));
    }
    let app = app.layer(layer);
    let methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "QUERY", "SCAN"];
    let mut sent = 0;
    for _ in 0..2 {
        for method in methods {
            for route in 0..200 {
                let request = Request::builder().method(method).uri(format!("/{route}"));
                let response = app.clone().oneshot(request.body(Body::empty()).unwrap()).await;
                axum::body::to_bytes(response.unwrap().into_body(), usize::MAX).await.unwrap();
                sent += 1;
            }
        }
    }
    let routed = (0..200).filter(|route| registry.get(&format!("GET /{route}")).is_some());
    assert_eq!(routed.count(), 200);
    // The resource of requests without a name, and the routes.
    assert_eq!((registry.len(), registry.refused()), (1 + 200, 0));
    // No request is lost.
    assert_eq!(registry.lifetime().sum(MetricEvent::Success), sent);
}

#[tokio::test]
async fn route_that_always_fails_has_its_resource() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let mut app = Router::new();
    for route in 0..200 {
        let status = [StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE][route % 2];
        app = app.route(&format!("/{route}"), get(async move || status));
    }
    let app = app.layer(layer);
    for route in 0..200 {
        let request = Request::get(format!("/{route}")).body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap();
    }
    assert_eq!((registry.len(), registry.refused()), (1 + 200, 0));
}

#[tokio::test]
async fn query_has_its_name() {
    let registry = registry();
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let app: Router = Router::new().route("/", any(async || "done")).layer(layer);
    let request = Request::builder().method("QUERY").uri("/").body(Body::empty()).unwrap();
    assert_eq!(app.oneshot(request).await.unwrap().status(), 200);
    assert!(registry.get("QUERY /").is_some());
}

/// Two layers around one route find the resource of each request as a look-up of its name does:
/// beside more names than a thread keeps, and beside evictions and removals.
#[tokio::test]
async fn requests_of_many_routes_are_counted_in_the_resources_of_their_names() {
    let registries = [(); 2].map(|()| registry());
    let layer = |registry| ResourceLayer::new(Arc::clone(registry), MatchedRoute).unwrap();
    let mut app = Router::new();
    for route in 0..50 {
        app = app.route(&format!("/{route}/{{id}}"), any(async || "done"));
    }
    let app = app.layer(layer(&registries[0])).layer(layer(&registries[1]));
    let mut random = fastrand::Rng::with_seed(0);
    let mut expected = [(); 2].map(|()| HashMap::<String, u64>::new());
    for number in 0..5_000 {
        let method = ["GET", "HEAD", "OPTIONS", "QUERY", "SCAN1", "SCAN2"][random.usize(..6)];
        let route = random.u8(..50);
        let request = Request::builder().method(method).uri(format!("/{route}/{number}"));
        let response = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let method = if method.starts_with("SCAN") { "_OTHER" } else { method };
        let name = format!("{method} /{route}/{{id}}");
        for (registry, expected) in registries.iter().zip(&mut expected) {
            let count = expected.entry(name.clone()).or_default();
            *count += 1;
            let found = registry.get(&name).unwrap();
            assert_eq!(found.lifetime().sum(MetricEvent::Success), *count, "{number}: {name}");
            drop(found);
            match random.u8(..100) {
                0..5 => {
                    registry.remove(&name);
                    expected.remove(&name);
                }
                5 => {
                    registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
                    expected.clear();
                }
                _ => {}
            }
        }
    }
}
