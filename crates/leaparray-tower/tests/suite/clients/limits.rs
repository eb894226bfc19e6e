//! Limiters, as clients see them over connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use leaparray::flow::{FixedWindowLimiter, LeakyBucket, Limiter, Rate};
use leaparray::{MetricEvent, Registry};
use leaparray_tower::{MatchedRoute, ResourceLayer};

use crate::clients::server::{Server, Version, until};

/// Serves `GET /`, which counts the requests that reach it, behind a limiter.
async fn serve(
    limiter: impl Limiter<Permit: Send> + Send + Sync + 'static,
) -> (Server, Arc<AtomicU64>) {
    let registry = Arc::new(Registry::new());
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute).unwrap();
    let reached = Arc::new(AtomicU64::new(0));
    let handler = {
        let reached = Arc::clone(&reached);
        async move || {
            reached.fetch_add(1, Ordering::Relaxed);
            "done"
        }
    };
    let routes = Router::new().route("/", get(handler)).layer(layer.limit(Arc::new(limiter)));
    (Server::start_with(registry, routes).await, reached)
}

#[tokio::test]
async fn refused_request_gets_an_answer_and_never_reaches_the_handler() {
    for version in Version::ALL {
        let hour = Duration::from_secs(3_600);
        let (server, reached) = serve(FixedWindowLimiter::new(hour, 1).unwrap()).await;
        let client = version.client();
        let mut statuses = Vec::new();
        for _ in 0..3 {
            let request = Request::get(server.url("/")).body(Body::empty()).unwrap();
            let response = client.request(request).await.unwrap();
            statuses.push(response.status().as_u16());
            if response.status() == 429 {
                let headers = response.headers();
                let after: u64 = headers["retry-after"].to_str().unwrap().parse().unwrap();
                assert!((1..=3_600).contains(&after), "{after}");
                assert_eq!(headers["ratelimit-policy"], "\"default\";q=1;w=3600");
                assert!(headers["ratelimit"].to_str().unwrap().starts_with("\"default\";r=0"));
            }
        }
        assert_eq!(statuses, [200, 429, 429], "{version:?}");
        server.expect("GET /", [1, 0, 0, 0]).await;
        let totals = server.registry.get("GET /").unwrap().lifetime();
        assert_eq!(totals.sum(MetricEvent::Block), 2);
        assert_eq!(reached.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn client_that_leaves_during_its_wait_is_cancelled_and_never_reaches_the_handler() {
    for version in Version::ALL {
        let hour = Duration::from_secs(3_600);
        let bucket = LeakyBucket::new(Rate::per_minute(1).unwrap(), hour);
        let (server, reached) = serve(bucket).await;
        let request = || Request::get(server.url("/")).body(Body::empty()).unwrap();
        let client = version.client();
        assert_eq!(client.request(request()).await.unwrap().status(), 200);
        server.expect("GET /", [1, 0, 0, 0]).await;
        // Waits for a minute, unless its client leaves.
        let waiting = tokio::spawn(version.client().request(request()));
        let in_flight = || server.registry.get("GET /").unwrap().concurrency();
        until(|| in_flight() == 1, || "no request waits".to_owned()).await;
        waiting.abort();
        server.expect("GET /", [1, 0, 1, 0]).await;
        assert_eq!(reached.load(Ordering::Relaxed), 1, "{version:?}");
    }
}
