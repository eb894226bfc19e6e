//! Problem details over HTTP, read by another project's client.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use leaparray::flow::{FixedWindowLimiter, Limiter, LimiterExt};
use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Timestamp};
use leaparray_tower::{MatchedRoute, Problem, ResourceLayer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const MINUTE: Duration = Duration::from_secs(60);

/// Serves `/orders` with a limiter, and returns the address.
async fn serve<L>(limiter: impl FnOnce(&Registry<ManualClock>) -> L) -> String
where
    L: Limiter<Permit: Send> + Clone + Send + Sync + 'static,
{
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock));
    let limiter = limiter(&registry);
    let layer = ResourceLayer::new(registry, MatchedRoute).unwrap();
    let app = Router::new().route("/orders", get(async || "ordered"));
    let app = app.route_layer(layer.limit(limiter).refuse(Problem));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/orders")
}

/// Returns the status, the content type and the body of a response.
async fn ask(url: &str, accept: &str) -> (u16, String, String) {
    let request = reqwest::Client::new().get(url).header("accept", accept);
    let response = request.timeout(Duration::from_secs(10)).send().await.unwrap();
    let status = response.status().as_u16();
    let content_type = response.headers().get("content-type");
    let content_type = content_type.map_or("", |it| it.to_str().unwrap()).to_owned();
    (status, content_type, response.text().await.unwrap())
}

#[tokio::test]
async fn spent_quota_is_a_problem_with_its_policies() {
    let url = serve(|registry| {
        let minute = FixedWindowLimiter::with_clock(MINUTE, 1, registry.clock().clone()).unwrap();
        Arc::new(minute.named("a \"minute\""))
    })
    .await;
    assert_eq!(ask(&url, "*/*").await.0, 200);
    let (status, content_type, body) = ask(&url, "application/json").await;
    assert_eq!((status, &*content_type), (429, "application/problem+json"));
    let problem: Value = serde_json::from_str(&body).unwrap();
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "A quota is exceeded",
        "status": 429,
        "detail": "refused by a \"minute\": the limit is reached",
        "resource": "GET /orders",
        "reason": "limit_reached",
        "limiter": "a \"minute\"",
        "retry_after": 60,
        "violated-policies": ["a \"minute\""],
    });
    assert_eq!(problem, expected);
    let text = (
        429,
        "text/plain; charset=utf-8".into(),
        "refused by a \"minute\": the limit is reached\n".into(),
    );
    assert_eq!(ask(&url, "text/plain").await, text);
    assert_eq!(ask(&url, "image/png").await, (429, String::new(), String::new()));
}

#[tokio::test]
async fn failing_backend_is_a_problem_without_policies() {
    use leaparray::flow::circuit::CircuitState;
    use leaparray::flow::{CircuitBreaker, CircuitConfig};
    let url = serve(|registry| {
        let clock = registry.clock().clone();
        let breaker = CircuitBreaker::with_clock(CircuitConfig::default(), clock);
        breaker.set_state_at(breaker.clock().now(), CircuitState::ForcedOpen).unwrap();
        Arc::new(breaker)
    })
    .await;
    let (status, _, body) = ask(&url, "application/problem+json").await;
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &problem["status"]), (503, &json!(503)));
    let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!((&problem["type"], &problem["reason"]), (&json!(kind), &json!("failing")));
    assert_eq!((problem.get("limiter"), problem.get("violated-policies")), (None, None));
}

/// Refuses each request for a reason of its own, beside a quota of which something remains.
#[tokio::test]
async fn refusal_that_no_quota_has_caused_is_of_no_special_type() {
    let url = serve(|registry| {
        let opening = leaparray::flow::AllOf::new((
            FixedWindowLimiter::with_clock(MINUTE, 5, registry.clock().clone()).unwrap(),
            Opening,
        ));
        Arc::new(opening)
    })
    .await;
    let (status, _, body) = ask(&url, "*/*").await;
    let problem: Value = serde_json::from_str(&body).unwrap();
    let expected = json!({
        "type": "about:blank",
        "title": "Too Many Requests",
        "status": 429,
        "detail": "refused: not open yet",
        "resource": "GET /orders",
        "reason": "custom",
    });
    assert_eq!((status, problem), (429, expected));
}

struct Opening;

impl Limiter for Opening {
    type Permit = ();

    fn decide(&self, _: &leaparray::flow::Ask<'_>) -> leaparray::flow::Decision {
        use leaparray::flow::{Decision, Reason, Refusal, Retry};
        Decision::Refused(Refusal::new(Reason::Custom("not open yet"), Retry::Unknown))
    }
}
