//! The page, the snapshot and the metrics, and the headers of all responses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Response;
use leaparray::Timestamp;
use leaparray::flow::{Account, Ask, Decision, Limiter, Quota};
use leaparray_web::format::VERSION;
use leaparray_web::{Access, Page};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

use crate::client::{get, text};
use crate::{Server, registry};

fn header<'a, B>(response: &'a Response<B>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |it| it.to_str().unwrap())
}

#[tokio::test]
async fn every_response_has_the_headers() {
    let server = Server::with(|page| page.metrics("text/plain", String::new)).await;
    let foreign = [("sec-fetch-site", "cross-site")];
    let none = &foreign[..0];
    for (path, headers, status) in [
        ("/", none, 200),
        ("/stream", none, 200),
        ("/snapshot", none, 200),
        ("/metrics", none, 200),
        ("/nowhere", none, 404),
        ("/", &foreign, 403),
    ] {
        let response = get(server.address, path, headers).await;
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(header(&response, "cache-control"), "no-store", "{path}");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff");
        assert_eq!(header(&response, "x-frame-options"), "DENY");
        assert_eq!(header(&response, "referrer-policy"), "no-referrer");
        let policy = header(&response, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
    }
}

/// Returns the texts of the elements with that name.
fn elements<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts = html.split(open.as_str()).skip(1);
    parts.map(|part| part.split_once(close.as_str()).expect("it is closed").0).collect()
}

#[tokio::test]
async fn policy_has_the_hashes_of_the_script_and_of_the_style() {
    let server = Server::start().await;
    let response = get(server.address, "/", &[]).await;
    assert_eq!(header(&response, "content-type"), "text/html; charset=utf-8");
    let policy = header(&response, "content-security-policy").to_owned();
    let html = text(response).await;
    for name in ["script", "style"] {
        let [text] = elements(&html, name)[..] else { panic!("one {name}") };
        let hash = STANDARD.encode(Sha256::digest(text));
        assert!(policy.contains(&format!("{name}-src 'sha256-{hash}'")), "{policy}");
        assert!(!text.contains(&format!("/*{}*/", name.to_uppercase())));
    }
    for forbidden in ["http://", "https://", " style=\"", " onclick="] {
        let outside = html.replace("http://www.w3.org/", "");
        assert!(!outside.contains(forbidden), "{forbidden}");
    }
}

#[tokio::test]
async fn streams_have_their_types_and_are_not_buffered() {
    let server = Server::start().await;
    for (accept, content_type) in [
        ("text/event-stream", "text/event-stream"),
        ("text/html, Text/Event-Stream;q=0.9", "text/event-stream"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("*/*", "application/x-ndjson"),
    ] {
        let response = get(server.address, "/stream", &[("accept", accept)]).await;
        assert_eq!(header(&response, "content-type"), content_type);
        assert_eq!(header(&response, "x-accel-buffering"), "no");
        assert_eq!(header(&response, "vary"), "accept");
    }
}

#[tokio::test]
async fn snapshot_is_that_of_the_registry() {
    let server = Server::start().await;
    server.resource("GET /orders").enter().success();
    let response = get(server.address, "/snapshot", &[]).await;
    assert_eq!(header(&response, "content-type"), "application/json");
    let snapshot: serde_json::Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!((&snapshot["version"], &snapshot["name"]), (&VERSION.into(), &"tested".into()));
    let expected = serde_json::to_value(server.registry.now().snapshot()).unwrap();
    assert_eq!(snapshot["snapshot"], expected);
}

#[tokio::test]
async fn metrics_are_those_of_the_hook() {
    let text_of = || "leaparray_resources 3\n".to_owned();
    let server = Server::with(|page| page.metrics("text/plain; version=0.0.4", text_of)).await;
    let response = get(server.address, "/metrics", &[]).await;
    assert_eq!(header(&response, "content-type"), "text/plain; version=0.0.4");
    assert_eq!(text(response).await, "leaparray_resources 3\n");
    let without = Server::start().await;
    assert_eq!(get(without.address, "/metrics", &[]).await.status(), 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_take_one_thread_however_many_ask() {
    let (running, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (seen, released) = (Arc::clone(&most), Mutex::new(released));
    let text_of = move || {
        seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Until the sender is dropped. A second thread in this hook would wait for the lock.
        let _ = released.lock().unwrap().recv();
        running.fetch_sub(1, Ordering::SeqCst);
        String::new()
    };
    let server = Server::with(|page| page.metrics("text/plain", text_of)).await;
    let address = server.address;
    let requests: Vec<_> =
        (0..20).map(|_| tokio::spawn(async move { get(address, "/metrics", &[]).await })).collect();
    // Each of these is accepted after the requests before, which wait for the hook.
    for _ in 0..20 {
        assert_eq!(get(address, "/", &[]).await.status(), 200);
    }
    drop(release);
    for request in requests {
        assert_eq!(request.await.unwrap().status(), 200);
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn panic_in_the_hook_is_an_error_of_one_response() {
    let server = Server::with(|page| page.metrics("text/plain", || panic!("no metrics"))).await;
    for _ in 0..2 {
        assert_eq!(get(server.address, "/metrics", &[]).await.status(), 500);
    }
    assert_eq!(get(server.address, "/", &[]).await.status(), 200);
}

#[tokio::test]
async fn page_can_be_nested_in_the_router_of_an_application() {
    let (registry, _clock) = registry();
    let app = Router::new()
        .route("/", axum::routing::get(|| async { "the service" }))
        .nest_service("/leaparray", Page::new(registry, Access::anyone()).into_service());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    assert_eq!(text(get(address, "/", &[]).await).await, "the service");
    let page = text(get(address, "/leaparray", &[]).await).await;
    assert_eq!(text(get(address, "/leaparray/", &[]).await).await, page);
    assert!(page.starts_with("<!doctype html>"), "{page}");
    for path in ["/leaparray/snapshot", "/leaparray/stream"] {
        assert_eq!(get(address, path, &[]).await.status(), 200, "{path}");
    }
    assert_eq!(get(address, "/leaparray/nowhere", &[]).await.status(), 404);
}

/// A limiter whose code panics.
struct Panics;

impl Limiter for Panics {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Admitted(())
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Panics {
    fn quota(&self, _now: Timestamp) -> Option<Quota> {
        panic!("a limiter of the user");
    }
}

#[tokio::test]
async fn limiter_that_panics_is_unknown_in_the_snapshot() {
    let server = Server::start().await;
    server.registry.watch("broken", Panics).unwrap();
    let json = text(get(server.address, "/snapshot", &[]).await).await;
    assert!(json.contains(r#""controllers":[{"resource":"broken","kind":"unknown"}]"#), "{json}");
}
