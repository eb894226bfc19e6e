//! A service in simulated time, whose command centre is called without a network.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::http::request::Builder;
use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_rules::Rules;
use leaparray_sentinel::{CommandCenter, RuleBook};
use tower::ServiceExt;

/// 2026-11-28 06:00:00.
pub(crate) const START: u64 = 1_795_845_600;

pub(crate) const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

pub(crate) struct Service {
    pub(crate) clock: ManualClock,
    pub(crate) registry: Arc<Registry<ManualClock>>,
    pub(crate) book: Arc<RuleBook<ManualClock>>,
    pub(crate) router: Router,
}

impl Service {
    /// A service that accepts rules, at [`START`].
    pub(crate) fn new() -> Self {
        Self::with(|center, book| center.rules(book).accept_rules())
    }

    pub(crate) fn with(
        configure: impl FnOnce(
            CommandCenter<ManualClock>,
            Arc<RuleBook<ManualClock>>,
        ) -> CommandCenter<ManualClock>,
    ) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(START));
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let registry = Arc::new(registry);
        let book = Arc::new(RuleBook::new(Rules::new(Arc::clone(&registry))));
        let center = CommandCenter::new(Arc::clone(&registry));
        let router = configure(center, Arc::clone(&book)).into_router();
        Self { clock, registry, book, router }
    }

    pub(crate) fn pass(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> (u16, String) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 10_000_000).await.unwrap();
        (status, String::from_utf8(body.into()).unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        self.send(of_loopback(Request::get(path)).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, form: &str) -> (u16, String) {
        let request = of_loopback(Request::post(path))
            .header("content-type", "application/x-www-form-urlencoded; charset=UTF-8")
            .header("content-length", form.len());
        self.send(request.body(form.to_owned().into()).unwrap()).await
    }

    /// Sets rules as the dashboard does from the version 1.7.1 on.
    pub(crate) async fn set(&self, kind: &str, json: &str) -> (u16, String) {
        let data: String = encoded(json);
        self.post("/setRules", &format!("type={kind}&data={data}")).await
    }

    /// Returns the number of requests of `of` that the rules admit.
    pub(crate) fn admitted(&self, resource: &str, of: usize) -> usize {
        let rules = self.book.rules();
        let enter = || rules.try_enter(resource, ()).map(leaparray::Entry::success);
        (0..of).filter(|_| enter().is_ok()).count()
    }
}

pub(crate) fn of_loopback(request: Builder) -> Builder {
    request.extension(ConnectInfo(SocketAddr::from((LOOPBACK, 50_000))))
}

/// Encodes a text once, as a form has it.
pub(crate) fn encoded(text: &str) -> String {
    let hex = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(hex).collect()
}
