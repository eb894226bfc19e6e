//! The layer decides by its fast path as a limiter of [`Rules::limiter`] does: by random rules that
//! change, with the same status, headers, waits, counts and permits.

mod beside_changes;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::IntoResponse;
use axum::routing::get;
use http::{HeaderMap, Request, Response, StatusCode};
use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Resource, Timestamp};
use leaparray_rules::{RequestKeys, RuleSet, Rules};
use leaparray_tower::{Chosen, MatchedRoute, ResourceLayer};
use proptest::prelude::*;
use tower::ServiceExt;

const ROUTES: [&str; 3] = ["/orders", "/files", "/jobs"];

/// Limiters of each kind that decides by no random number of its own.
const LIMITS: [&str; 16] = [
    "limit = \"4 per second\"",
    "limit = \"5 per second\"\nbuckets = 2",
    "limit = \"3 per second, bursts of 4\"",
    "limit = \"90 per minute, bursts of 2\"\nstarts = \"empty\"",
    "limit = \"0 per hour\"",
    "in_flight = 2",
    "in_flight = 5",
    "in_flight = { min = 2, first = 4, max = 30 }",
    "breaker = { failures = \"2 in a row\" }",
    "breaker = { failures = \"50 % of 4\", wait = \"2s\", probes = 1 }",
    "pace = \"4 per second\"\nmax_wait = \"500ms\"",
    "pace = \"7 per second\"\nmax_wait = \"1s\"",
    "limit = \"8 per second\"\nwarm_up = \"5s\"\ncold_factor = 4",
    "in_flight = 4\npriority = \"header:x-class\"\nshares = { gold = \"100 %\", \"*\" = \"50 %\" }",
    "in_flight = 6\ntenant = \"extension:tenant\"\nweights = { acme = 3 }\nmax_keys = 100",
    "in_flight = { min = 2, first = 4, max = 9 }\npriority = \"header:x-class\"\n\
     shares = { gold = \"100 %\", \"*\" = \"60 %\" }",
];

const KEYS: [&str; 4] = ["header:x-key", "extension:tenant", "resource", "client"];

const MODES: [&str; 4] = ["shadow", "off", "enforce for 50 % of requests", "enforce"];

const CONDITIONS: [&str; 3] = [
    "only = { \"header:x-class\" = \"gold\" }",
    "except = { \"header:x-key\" = \"ann\" }",
    "only = { context = \"*\" }",
];

/// The name, the routes, the limiter, the key, the mode and the condition, as far as there are.
type Drawn = (usize, usize, usize, usize, usize, usize);

fn rule((name, routes, limit, key, mode, condition): Drawn) -> String {
    let resource = ["GET /orders", "GET /*", "GET /files", "GET /jobs"][routes];
    let key = KEYS.get(key).map(|it| format!("key = \"{it}\"\n")).unwrap_or_default();
    let mode = MODES.get(mode).map(|it| format!("mode = \"{it}\"\n")).unwrap_or_default();
    let condition = CONDITIONS.get(condition).unwrap_or(&"");
    let rule = format!("[[rule]]\nname = \"r{name}\"\nresource = \"{resource}\"\n");
    rule + &key + &mode + condition + "\n" + LIMITS[limit] + "\n"
}

/// Returns the rules of which each is valid, with the first one of each name.
fn set(drawn: &[Drawn]) -> RuleSet {
    let mut text = String::new();
    for (place, one) in drawn.iter().enumerate() {
        let one_rule = rule(*one);
        let is_first = drawn[..place].iter().all(|it| it.0 != one.0);
        if is_first && RuleSet::parse(&one_rule).is_ok() {
            text += &one_rule;
        }
    }
    RuleSet::parse(if text.is_empty() { "rule = []" } else { &text }).unwrap()
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec(
        (0..5_usize, 0..4_usize, 0..16_usize, 0..9_usize, 0..9_usize, 0..9_usize),
        1..5,
    )
}

#[derive(Clone, Debug)]
enum Step {
    Request {
        route: usize,
        key: usize,
        class: usize,
        tenant: bool,
        handler: usize,
    },
    /// Ends the oldest response: by its end, by a drop.
    End {
        drops: bool,
    },
    Advance(u64),
    Change(Vec<Drawn>),
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..3_usize, 0..4_usize, 0..3_usize, any::<bool>(), 0..8_usize)
            .prop_map(|(route, key, class, tenant, handler)| {
                Step::Request { route, key, class, tenant, handler }
            }),
        4 => any::<bool>().prop_map(|drops| Step::End { drops }),
        4 => (0..900_u64).prop_map(Step::Advance),
        1 => drawn().prop_map(Step::Change),
        1 => (0..3_usize).prop_map(Step::Remove),
    ]
}

async fn handle(headers: HeaderMap) -> Response<Body> {
    match headers.get("x-do").map_or(0, |it| it.as_bytes()[0]) {
        b'5' => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        b'4' => StatusCode::NOT_FOUND.into_response(),
        b'p' => std::panic::resume_unwind(Box::new("a handler")),
        _ => "orders".into_response(),
    }
}

/// Keys that were refused equally often are in no order.
fn watched(limiter: &impl Debug) -> Vec<String> {
    let text = format!("{limiter:?}");
    let mut parts: Vec<_> = text
        .split("RefusedKey")
        .map(|it| it.trim_matches([' ', ',', ']', '}', ')']).to_owned())
        .collect();
    parts.sort();
    parts
}

struct Side {
    clock: ManualClock,
    rules: Rules<ManualClock>,
    app: Router,
    held: Vec<Response<Body>>,
}

impl Side {
    fn new(is_fast: bool, quota_headers: bool) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(3_600));
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let rules = Rules::new(Arc::new(registry));
        let app = ROUTES.iter().fold(Router::new(), |app, route| app.route(route, get(handle)));
        let app = if is_fast {
            app.layer(rules.layer().unwrap().quota_headers(quota_headers))
        } else {
            let by = rules.clone();
            let limits =
                Chosen(move |request: &Request<Body>, resource: &Resource<ManualClock>| {
                    Some(by.limiter(resource, request)).filter(|it| !it.is_empty())
                });
            let layer = ResourceLayer::new(Arc::clone(rules.registry()), MatchedRoute).unwrap();
            app.layer(layer.limits(limits).quota_headers(quota_headers))
        };
        Self { clock, rules, app, held: Vec::new() }
    }

    async fn play(&mut self, step: &Step) -> String {
        match step {
            Step::Request { route, key, class, tenant, handler } => {
                let mut request = Request::get(ROUTES[*route]);
                if let Some(key) = ["ann", "bob", "\u{e9}"].get(*key) {
                    request = request.header("x-key", *key);
                }
                if let Some(class) = ["gold", "batch"].get(*class) {
                    request = request.header("x-class", *class);
                }
                if *tenant || self.has_tenants() {
                    request = request.extension(RequestKeys::default().with("tenant", "acme"));
                }
                let what = ["ok", "5", "4", "panic"].get(*handler).unwrap_or(&"ok");
                let request = request.header("x-do", *what).body(Body::empty()).unwrap();
                let before = tokio::time::Instant::now();
                // As a task: the handler may panic.
                let answer = tokio::spawn(self.app.clone().oneshot(request)).await;
                let waited = before.elapsed();
                let Ok(answer) = answer else { return format!("a panic after {waited:?}") };
                let answer = answer.unwrap();
                let seen = format!("{} {:?} {waited:?}", answer.status(), answer.headers());
                self.held.push(answer);
                seen
            }
            Step::End { drops } => {
                if !self.held.is_empty() {
                    let answer = self.held.remove(0);
                    if !drops {
                        return format!("{:?}", to_bytes(answer.into_body(), 1_000).await);
                    }
                }
                String::new()
            }
            Step::Advance(millis) => {
                self.clock.advance(Duration::from_millis(*millis));
                String::new()
            }
            Step::Change(drawn) => format!("{:?}", self.rules.apply(&set(drawn))),
            Step::Remove(route) => {
                format!("{}", self.rules.registry().remove(&format!("GET {}", ROUTES[*route])))
            }
        }
    }

    /// Shares of several tenants are rounded at random.
    fn has_tenants(&self) -> bool {
        self.rules.rules().iter().any(|it| it.to_string().contains("tenant ="))
    }

    /// Everything that a program can read of the rules and of their resources.
    fn seen(&self) -> String {
        let registry = self.rules.registry();
        let status = self.rules.status();
        let watched: Vec<_> = registry.watched().iter().map(watched).collect();
        let nodes: Vec<_> = ROUTES
            .iter()
            .filter_map(|route| registry.get(&format!("GET {route}")))
            .map(|it| {
                let totals = it.lifetime();
                let sums =
                    MetricEvent::ALL.iter().map(|event| totals.sum(*event)).collect::<Vec<_>>();
                format!("{sums:?} {} {:?} {:?}", it.concurrency(), it.refused_by(), it.responses())
            })
            .collect();
        format!("{:?} {:?}\n{watched:#?}\n{nodes:#?}", status.refused, status.without_key)
    }
}

/// Plays all steps to one side. Not in turn with the other one: a thread keeps the version of the
/// rules that it has asked last, and only then decides by its fast path.
fn play(side: Side, rules: &[Drawn], steps: &[Step]) -> Vec<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let mut side = side;
        side.rules.apply(&set(rules));
        let mut seen = Vec::new();
        for step in steps {
            let answer = side.play(step).await;
            seen.push(format!("{step:?}: {answer}\n{}", side.seen()));
        }
        side.held.clear();
        for route in ROUTES {
            let resource = side.rules.registry().get(&format!("GET {route}"));
            assert_eq!(resource.map_or(0, |it| it.concurrency()), 0);
        }
        seen.push(side.seen());
        seen
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 64,
        ..ProptestConfig::default()
    })]

    #[test]
    fn layer_answers_as_the_limiter_of_each_request_does(
        rules in drawn(),
        steps in prop::collection::vec(step(), 1..120),
        quota_headers in prop::bool::weighted(0.1),
    ) {
        let sides = [true, false].map(|is_fast| Side::new(is_fast, quota_headers));
        let [fast, slow] = sides.map(|side| play(side, &rules, &steps));
        for (fast, slow) in fast.iter().zip(&slow) {
            prop_assert_eq!(fast, slow);
        }
    }
}
