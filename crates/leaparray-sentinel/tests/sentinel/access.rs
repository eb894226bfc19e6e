//! Only the allowed are answered.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::routing::get;
use leaparray_sentinel::{Access, CommandCenter};
use tower::ServiceExt;

use crate::service::{Service, of_loopback};

const DATA: &str = "type=flow&data=[{\"resource\":\"a\",\"count\":0}]";

#[tokio::test]
async fn other_addresses_are_refused() {
    let service = Service::new();
    let from = |address: &str| {
        let address: SocketAddr = address.parse().unwrap();
        Request::get("/version").extension(ConnectInfo(address)).body(Body::empty()).unwrap()
    };
    assert_eq!(service.send(from("127.0.0.2:1")).await.0, 200);
    assert_eq!(service.send(from("[::1]:1")).await.0, 200);
    let (status, text) = service.send(from("10.1.2.3:1")).await;
    assert_eq!((status, &*text), (403, "The command centre does not allow this address"));
    let unknown = Request::get("/version").body(Body::empty()).unwrap();
    assert_eq!(service.send(unknown).await.0, 403);

    let access = Access::default().allow("10.0.0.0/8".parse().unwrap());
    let service = Service::with(|center, _| center.access(access));
    assert_eq!(service.send(from("10.1.2.3:1")).await.0, 200);
    assert_eq!(service.send(from("11.1.2.3:1")).await.0, 403);
}

#[tokio::test]
async fn web_page_reaches_no_command() {
    let service = Service::new();
    for (name, value, expected) in [
        ("origin", "http://a.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-origin", 403),
        ("sec-fetch-site", "none", 200),
        ("host", "a.example:8719", 403),
        ("host", "127.0.0.1:8719", 200),
        ("host", "localhost", 200),
        ("host", "0.0.0.0:8719", 403),
        ("host", "[::]:8719", 403),
    ] {
        let request = of_loopback(Request::get("/getSwitch")).header(name, value);
        let (status, _) = service.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(status, expected, "{name}: {value}");
    }
}

#[tokio::test]
async fn name_of_a_request_by_http_2_is_that_of_its_address() {
    let service = Service::new();
    for (address, expected) in
        [("http://a.example/getSwitch", 403), ("http://127.0.0.1:8719/getSwitch", 200)]
    {
        assert_eq!(service.get(address).await.0, expected, "{address}");
    }
}

/// A browser tells `Sec-Fetch-Site` only to loopback addresses and over TLS.
#[tokio::test]
async fn web_page_changes_nothing_by_an_address_that_is_not_of_loopback() {
    let service = Service::new();
    let image = |path: &str| {
        let request = of_loopback(Request::get(path)).header("host", "10.1.2.3:8719");
        let request = request.header("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Gecko");
        request.header("accept", "image/avif,*/*").header("accept-language", "en")
    };
    let refused = (403, "The command centre answers no requests of web pages".to_owned());
    for path in
        ["/setRules?type=flow&data=[]", "/setParamFlowRules?data=[]", "/setSwitch?value=false"]
    {
        let request = image(path).body(Body::empty()).unwrap();
        assert_eq!(service.send(request).await, refused, "{path}");
    }
    assert!(service.book.is_on());
    // A page may send the request, and gets no answer to read. A person gets one in a browser.
    let read = image("/getSwitch").body(Body::empty()).unwrap();
    assert_eq!(service.send(read).await.0, 200);
    let typed = image("/setSwitch?value=false").header("sec-fetch-site", "none");
    assert_eq!(service.send(typed.body(Body::empty()).unwrap()).await.0, 200);
    assert!(!service.book.is_on());
}

#[tokio::test]
async fn request_of_a_proxy_is_of_no_known_address() {
    let service = Service::new();
    for name in ["forwarded", "via", "x-forwarded-for", "x-real-ip"] {
        let request = of_loopback(Request::get("/version")).header(name, "127.0.0.1");
        let (status, text) = service.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(status, 403, "{name}");
        assert!(text.starts_with("The command centre answers no requests of proxies"), "{text}");
    }
}

#[tokio::test]
async fn head_changes_nothing() {
    let service = Service::new();
    let head = of_loopback(Request::head("/setSwitch?value=false"));
    assert_eq!(service.send(head.body(Body::empty()).unwrap()).await.0, 405);
    assert!(service.book.is_on());
    let head = of_loopback(Request::head("/getSwitch"));
    assert_eq!(service.send(head.body(Body::empty()).unwrap()).await, (200, String::new()));
}

#[tokio::test]
async fn rules_are_read_only_unless_they_may_be_pushed() {
    let service = Service::with(CommandCenter::rules);
    let (status, text) = service.post("/setRules", DATA).await;
    assert_eq!(status, 400);
    assert!(text.starts_with("The rules of this service can only be read"), "{text}");
    assert_eq!(service.get("/setSwitch?value=false").await.0, 400);
    assert_eq!(service.admitted("a", 3), 3);
    assert_eq!(service.get("/getRules?type=flow").await, (200, "[]".into()));

    let service = Service::with(|center, _| center);
    assert_eq!(service.post("/setRules", DATA).await.0, 400);
    assert_eq!(service.get("/getRules?type=flow").await, (200, "[]".into()));
}

#[tokio::test]
async fn forms_are_bounded() {
    let service = Service::new();
    let post = || of_loopback(Request::post("/setRules"));
    let send = async |request: axum::http::request::Builder, body: &'static str| {
        service.send(request.body(Body::from(body)).unwrap()).await
    };
    let of_type = |kind| post().header("content-type", kind).header("content-length", DATA.len());
    assert_eq!(send(post().header("content-length", DATA.len()), DATA).await.0, 200);
    assert_eq!(send(of_type("application/x-www-form-urlencoded"), DATA).await.0, 200);
    assert_eq!(
        send(of_type("application/json"), DATA).await,
        (415, "Only form-encoded post request is supported".into())
    );
    assert_eq!(send(post(), DATA).await, (411, "No legal Content-Length".into()));
    assert_eq!(send(post().header("content-length", 5 << 20), DATA).await.0, 413);
    let put = of_loopback(Request::put("/setRules")).body(Body::from(DATA)).unwrap();
    assert_eq!(service.send(put).await.0, 405);
}

#[tokio::test]
async fn centre_is_nested_or_the_fallback_of_a_service() {
    let request = |path: &str| of_loopback(Request::get(path)).body(Body::empty()).unwrap();
    let router = Service::new().router;
    let nested: Router = Router::new().nest("/sentinel", router.clone());
    let beside = Router::new().route("/orders", get(async || "orders")).fallback_service(router);
    for (app, path, expected) in [
        (&nested, "/sentinel/version", 200),
        (&nested, "/sentinel/nothing", 400),
        (&nested, "/version", 404),
        (&beside, "/version", 200),
        (&beside, "/orders", 200),
        (&beside, "/nothing", 400),
    ] {
        let response = app.clone().oneshot(request(path)).await.unwrap();
        assert_eq!(response.status(), expected, "{path}");
    }
}
