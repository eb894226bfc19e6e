//! The page behind real proxies, which are configured with the address of the service and nothing
//! else, and the metrics for a real scraper.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use leaparray::{ManualClock, Registry};
use leaparray_web::{Access, Page, Token};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::client::{SOON, Stream, get, text};
use crate::program::{Program, skip};
use crate::{FIRST, SECOND, registry};

/// A service on loopback, with a page at `/leaparray` for readers with the token.
struct Service {
    registry: Arc<Registry<ManualClock>>,
    clock: ManualClock,
    token: Token,
    address: SocketAddr,
}

impl Service {
    async fn start() -> Self {
        let (registry, clock) = registry();
        let token = Token::random();
        let page = Page::new(Arc::clone(&registry), Access::token(&token)).name("of the shop");
        let page = page.metrics("text/plain", || "orders_total 7\n".to_owned());
        let app: Router = Router::new().nest_service("/leaparray", page.into_service());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { registry, clock, token, address }
    }
}

const DATA: [&str; 3] = ["/leaparray/stream", "/leaparray/snapshot", "/leaparray/metrics"];

/// Asserts that a client of a proxy reads data by the token only, whichever host it names.
async fn assert_closed(proxy: SocketAddr, service: &Service) {
    let token = service.token.as_str();
    let right = format!("Bearer {token}");
    let wrong = format!("Bearer {}", Token::random().as_str());
    for host in ["localhost", "127.0.0.1", "[::1]", &proxy.to_string(), "shop.example"] {
        let with = |name, value| [("host", host), (name, value)];
        for path in DATA {
            for headers in [&[("host", host)][..], &with("authorization", &wrong)] {
                let refused = get(proxy, path, headers).await;
                assert_eq!(refused.status(), 401, "{path} of {host}");
                assert!(text(refused).await.contains("token"), "{path} of {host}");
            }
            for headers in [with("authorization", &right), with("leaparray-token", token)] {
                assert_eq!(get(proxy, path, &headers).await.status(), 200, "{path} of {host}");
            }
        }
        for path in ["/leaparray", "/leaparray/"] {
            let document = get(proxy, path, &[("host", host)]).await;
            assert_eq!(document.status(), 200, "{path} of {host}");
            let document = text(document).await;
            assert!(document.starts_with("<!doctype html>"), "{document}");
            assert!(!document.contains("of the shop"), "{document}");
        }
    }
}

/// Asserts that each second arrives through a proxy before the next one, as the page reads it.
async fn assert_flows(proxy: SocketAddr, service: &Service) {
    let headers = [("accept", "text/event-stream"), ("leaparray-token", service.token.as_str())];
    let mut stream = Stream::open(proxy, "/leaparray/stream", &headers).await;
    assert_eq!(stream.hello().await.name, "of the shop");
    for second in FIRST..FIRST + 3 {
        service.registry.resource("GET /orders").unwrap().enter().success();
        service.clock.advance(SECOND);
        assert_eq!(stream.second().await.t, second);
    }
}

async fn assert_no_nginx_opens_the_page(program: impl AsRef<OsStr>) {
    let service = Service::start().await;
    let configure = |address, folder: &str| {
        let config = format!(
            "daemon off; master_process off; pid {folder}/pid; events {{}}
             http {{
               access_log {folder}/access.log;
               client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
               server {{
                 listen {address};
                 location / {{ proxy_pass http://{}; }}
               }}
             }}",
            service.address,
        );
        let file = format!("{folder}/config");
        (config, ["-p", folder, "-e", "stderr", "-c", &file].map(str::to_owned))
    };
    let Some(proxy) = Program::start(program, configure).await else { return };
    assert_closed(proxy.address, &service).await;
    assert_flows(proxy.address, &service).await;
    let log = fs::read_to_string(proxy.folder.path().join("access.log")).unwrap();
    assert!(log.contains("/leaparray/stream") && !log.contains(service.token.as_str()), "{log}");
}

#[tokio::test]
#[ignore = "needs nginx"]
async fn no_nginx_opens_the_page() {
    assert_no_nginx_opens_the_page("nginx").await;
}

/// From version 1.29.7 on, nginx sends HTTP/1.1 to the service, and no header tells that there is a
/// proxy.
#[tokio::test]
#[ignore = "needs nginx 1.29.7 or later, named by NGINX_CURRENT"]
async fn no_current_nginx_opens_the_page() {
    match env::var_os("NGINX_CURRENT") {
        Some(program) => assert_no_nginx_opens_the_page(program).await,
        None => skip("NGINX_CURRENT names no nginx of version 1.29.7 or later"),
    }
}

#[tokio::test]
#[ignore = "needs haproxy"]
async fn no_haproxy_opens_the_page() {
    let service = Service::start().await;
    let configure = |address, folder: &str| {
        let config = format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n\
             listen shop\n bind {address}\n server service {}\n",
            service.address,
        );
        (config, ["-db".to_owned(), "-f".to_owned(), format!("{folder}/config")])
    };
    let Some(proxy) = Program::start("haproxy", configure).await else { return };
    assert_closed(proxy.address, &service).await;
    assert_flows(proxy.address, &service).await;
}

/// Waits until a query of Prometheus gives a number.
async fn wait_for(scraper: SocketAddr, query: &str, expected: &str) {
    let expected = format!("\"{expected}\"]");
    let mut answer = String::new();
    let is_there = async {
        while !answer.contains(&expected) {
            sleep(Duration::from_millis(50)).await;
            answer = text(get(scraper, &format!("/api/v1/query?query={query}"), &[]).await).await;
        }
    };
    let in_time = timeout(2 * SOON, is_there).await;
    assert!(in_time.is_ok(), "{query}: {answer}");
}

#[tokio::test]
#[ignore = "needs prometheus"]
async fn scraper_reads_the_metrics_by_the_token() {
    let service = Service::start().await;
    let configure = |address, folder: &str| {
        let job = |name, authorization: &str| {
            format!(
                "- job_name: {name}\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  \
                 metrics_path: /leaparray/metrics\n  {authorization}\n  \
                 static_configs: [{{ targets: [\"{}\"] }}]\n",
                service.address,
            )
        };
        fs::write(format!("{folder}/token"), service.token.as_str()).unwrap();
        let file = "authorization: { credentials_file: token }";
        let config = format!("scrape_configs:\n{}{}", job("with", file), job("without", ""));
        let args = [
            format!("--config.file={folder}/config"),
            format!("--storage.tsdb.path={folder}/data"),
            format!("--web.listen-address={address}"),
        ];
        (config, args)
    };
    let Some(scraper) = Program::start("prometheus", configure).await else { return };
    wait_for(scraper.address, "orders_total", "7").await;
    wait_for(scraper.address, "up%7Bjob=%22with%22%7D", "1").await;
    wait_for(scraper.address, "up%7Bjob=%22without%22%7D", "0").await;
}
