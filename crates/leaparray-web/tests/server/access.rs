//! Which requests are answered.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use leaparray_web::{Access, Page};
use tower::ServiceExt;

use crate::registry;

fn page() -> Page<leaparray::ManualClock> {
    Page::new(registry().0)
}

/// A request from an address, for a host, with further headers.
fn request(peer: Option<&str>, host: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::get("/snapshot").header("host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(peer) = peer {
        request = request.extension(ConnectInfo(peer.parse::<SocketAddr>().unwrap()));
    }
    request.body(Body::empty()).unwrap()
}

async fn answer(router: Router, request: Request<Body>) -> (StatusCode, String) {
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    if response.headers()["content-type"] == "application/x-ndjson" {
        // It does not end.
        return (status, String::new());
    }
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

const LOCAL: Option<&str> = Some("127.0.0.1:5000");

#[tokio::test]
async fn requests_of_this_machine_are_answered() {
    for (peer, host) in [
        ("127.0.0.1:5000", "127.0.0.1:7171"),
        ("127.8.9.10:5000", "localhost"),
        ("[::1]:5000", "[::1]:7171"),
        ("[::ffff:127.0.0.1]:5000", "LOCALHOST:80"),
    ] {
        let (status, text) = answer(page().router(), request(Some(peer), host, &[])).await;
        assert_eq!(status, 200, "{peer} {host}: {text}");
    }
}

#[tokio::test]
async fn requests_from_elsewhere_are_refused() {
    for peer in ["10.0.0.7:5000", "[2001:db8::1]:5000", "[::ffff:10.0.0.7]:5000"] {
        let (status, text) = answer(page().router(), request(Some(peer), "localhost", &[])).await;
        assert_eq!(status, 403);
        assert!(text.contains("its own machine") && text.contains("Page::authorize"), "{text}");
    }
}

/// DNS rebinding: the browser of this machine asks for the page by the name of another site.
#[tokio::test]
async fn foreign_host_is_refused() {
    for host in [
        "rebound.example",
        "rebound.example:7171",
        "localhost.rebound.example",
        "127.0.0.1.rebound.example",
        "10.0.0.7",
        "",
    ] {
        let (status, _) = answer(page().router(), request(LOCAL, host, &[])).await;
        assert_eq!(status, 403, "{host}");
    }
    let twice = request(LOCAL, "localhost", &[("host", "rebound.example")]);
    assert_eq!(answer(page().router(), twice).await.0, 403);
    let mut of_uri = request(LOCAL, "localhost", &[]);
    *of_uri.uri_mut() = "http://rebound.example/snapshot".parse().unwrap();
    assert_eq!(answer(page().router(), of_uri).await.0, 403);
    let mut none = request(LOCAL, "localhost", &[]);
    none.headers_mut().remove("host");
    assert_eq!(answer(page().router(), none).await.0, 403);
}

#[tokio::test]
async fn forwarded_request_is_refused() {
    for name in [
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-port",
        "x-forwarded-server",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-envoy-external-address",
        "cf-connecting-ip",
        "true-client-ip",
        "fly-client-ip",
    ] {
        let forwarded = request(LOCAL, "localhost", &[(name, "127.0.0.1")]);
        let (status, text) = answer(page().router(), forwarded).await;
        assert_eq!(status, 403, "{name}");
        assert!(text.contains("proxy"), "{text}");
    }
    // As nginx sends it without a configuration.
    let mut old = request(LOCAL, "localhost", &[]);
    *old.version_mut() = axum::http::Version::HTTP_10;
    let (status, text) = answer(page().router(), old).await;
    assert_eq!(status, 403);
    assert!(text.contains("HTTP/1.0"), "{text}");
}

#[tokio::test]
async fn missing_address_is_refused_with_what_to_do() {
    let (status, text) = answer(page().router(), request(None, "localhost", &[])).await;
    assert_eq!(status, 403);
    assert!(text.contains("into_make_service_with_connect_info::<SocketAddr>()"), "{text}");
    assert!(text.contains("Page::access(Access::Anyone)") && text.contains("Page::authorize"));
}

#[tokio::test]
async fn anyone_is_answered_if_told_so() {
    let router = page().access(Access::Anyone).router();
    let forwarded = request(None, "metrics.example", &[("x-forwarded-for", "10.0.0.7")]);
    assert_eq!(answer(router, forwarded).await.0, 200);
}

#[tokio::test]
async fn hook_decides_instead_of_the_address() {
    let authorized = || page().authorize(|parts| parts.headers.contains_key("authorization"));
    let with = request(Some("10.0.0.7:1"), "metrics.example", &[("authorization", "Bearer 1")]);
    assert_eq!(answer(authorized().router(), with).await.0, 200);
    let without = request(LOCAL, "localhost", &[]);
    let (status, text) = answer(authorized().router(), without).await;
    assert_eq!(status, 403);
    assert!(text.contains("authorization hook"), "{text}");
}

/// Sends a request by a browser for a path, with what it says of its cause.
async fn browse(router: Router, path: &str, headers: &[(&str, &str)]) -> StatusCode {
    let mut request = request(LOCAL, "localhost:7171", headers);
    *request.uri_mut() = path.parse().unwrap();
    answer(router, request).await.0
}

#[tokio::test]
async fn page_of_another_site_takes_no_place() {
    for site in ["cross-site", "same-site", "unknown"] {
        let script = [("sec-fetch-site", site), ("sec-fetch-mode", "cors")];
        let frame = [
            ("sec-fetch-site", site),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "iframe"),
        ];
        let link = [
            ("sec-fetch-site", site),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        for (path, of_link) in [("/", 200), ("/stream", 403), ("/snapshot", 403)] {
            assert_eq!(browse(page().router(), path, &script).await, 403, "{site} {path}");
            assert_eq!(browse(page().router(), path, &frame).await, 403, "{site} {path}");
            assert_eq!(browse(page().router(), path, &link).await, of_link, "{site} {path}");
        }
    }
    for site in ["same-origin", "none"] {
        assert_eq!(browse(page().router(), "/snapshot", &[("sec-fetch-site", site)]).await, 200);
    }
    let nested = Router::new().nest("/leaparray", page().router());
    let link = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(browse(nested, "/leaparray", &link).await, 200);
}

/// Browsers send the header also where they send no `Sec-Fetch-Site`: over plain HTTP.
#[tokio::test]
async fn script_of_another_origin_takes_no_place() {
    let anyone = || page().access(Access::Anyone).router();
    for origin in
        ["http://other.example", "http://localhost:3000", "http://localhost", "null", "", "file://"]
    {
        let status = browse(anyone(), "/stream", &[("origin", origin)]).await;
        assert_eq!(status, 403, "{origin}");
    }
    for origin in ["http://localhost:7171", "https://LOCALHOST:7171"] {
        let status = browse(anyone(), "/stream", &[("origin", origin)]).await;
        assert_eq!(status, 200, "{origin}");
    }
}

#[tokio::test]
async fn other_methods_are_refused() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"] {
        for path in ["/", "/stream", "/snapshot"] {
            let mut other = request(LOCAL, "localhost", &[]);
            *other.method_mut() = method.parse().unwrap();
            *other.uri_mut() = path.parse().unwrap();
            let response = page().router::<()>().oneshot(other).await.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.headers()["allow"]),
                (405, &"GET".parse().unwrap())
            );
        }
    }
}
