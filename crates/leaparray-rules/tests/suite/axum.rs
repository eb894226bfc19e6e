//! The rules in a layer of axum.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::get;
use http::{Request, Response};
use leaparray::flow::watch::WatchedState;
use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp, TrafficType};
use leaparray_rules::{ClientAddress, RequestKeys, RuleSet, Rules};
use tower::ServiceExt;

struct Service {
    clock: ManualClock,
    rules: Rules<ManualClock>,
    app: Router,
}

fn service(text: &str) -> Service {
    let clock = ManualClock::new(Timestamp::from_secs(3_600));
    let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    let rules = Rules::new(Arc::new(registry));
    rules.apply(&RuleSet::parse(text).unwrap());
    let app = Router::new()
        .route("/api/orders", get(async || "orders"))
        .route("/api/files/{*path}", get(async || "a file"))
        .layer(rules.layer().unwrap());
    Service { clock, rules, app }
}

impl Service {
    async fn call(&self, request: http::request::Builder) -> Response<String> {
        let request = request.body(Body::empty()).unwrap();
        let (head, body) = self.app.clone().oneshot(request).await.unwrap().into_parts();
        let body = to_bytes(body, 1_000).await.unwrap();
        Response::from_parts(head, String::from_utf8(body.into()).unwrap())
    }

    async fn status(&self, request: http::request::Builder) -> u16 {
        self.call(request).await.status().as_u16()
    }
}

#[tokio::test]
async fn request_of_a_layer_enters_the_resource_without_a_context() {
    let of = |context: &str| {
        format!(
            "[[rule]]\nname = \"r\"\nresource = \"/api/*\"\n{context} = {{ context = \"*\" }}\n\
             limit = \"1 per hour\""
        )
    };
    for (context, second) in [("only", 200), ("except", 429)] {
        let service = service(&of(context));
        assert_eq!(service.status(Request::get("/api/orders")).await, 200);
        assert_eq!(service.status(Request::get("/api/orders")).await, second, "{context}");
    }
}

#[tokio::test]
async fn request_of_a_lower_class_gives_way_in_a_layer() {
    let service = service(
        "[[rule]]\nname = \"r\"\nresource = \"/api/*\"\nin_flight = 2\n\
         priority = \"header:x-class\"\nshares = { payments = \"100 %\", \"*\" = \"50 %\" }",
    );
    let of = |class: &str| Request::get("/api/orders").header("x-class", class);
    assert_eq!(service.status(of("batch")).await, 200);
    let held = service.rules.try_enter("GET /api/orders", "batch").unwrap();
    assert_eq!(service.status(of("batch")).await, 429);
    assert_eq!(service.status(Request::get("/api/orders")).await, 429);
    assert_eq!(service.status(of("payments").header("x-class", "batch")).await, 429);
    assert_eq!(service.status(of("payments")).await, 200);
    held.success();
    assert_eq!(service.status(of("batch")).await, 200);
    assert_eq!(*service.rules.status().refused, [("r".into(), 3)]);
}

#[tokio::test]
async fn each_value_of_a_header_has_a_limit_of_its_own() {
    let service = service(
        "[[rule]]\nname = \"each-client\"\nresource = \"/api/*\"\nkey = \"header:X-Api-Key\"\n\
         limit = \"1 per minute, bursts of 1\"",
    );
    let of = |key: &str| Request::get("/api/orders").header("x-api-key", key);
    assert_eq!(service.status(of("ann")).await, 200);
    let refused = service.call(of("ann")).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (429, &"60".parse().unwrap())
    );
    assert_eq!(refused.headers()["ratelimit"], "\"each-client\";r=0;t=60");
    assert_eq!(service.status(of("bob")).await, 200);
    // The pattern concerns the other route as well, and requests without a key count together.
    assert_eq!(service.status(Request::get("/api/files/a/b")).await, 200);
    assert_eq!(service.status(Request::get("/api/orders")).await, 429);
    // Bytes that are no text are a key as well.
    let bytes = |bytes: &'static [u8]| Request::get("/api/orders").header("x-api-key", bytes);
    assert_eq!(service.status(bytes(b"\xe9")).await, 200);
    assert_eq!(service.status(bytes(b"\xe8")).await, 200);
    assert_eq!(service.status(bytes(b"\xe9")).await, 429);
    // Long values are told apart, and not stored.
    let long = |end: &str| of(&format!("{}{end}", "x".repeat(8_000)));
    assert_eq!(service.status(long("1")).await, 200);
    assert_eq!(service.status(long("2")).await, 200);
    assert_eq!(service.status(long("1")).await, 429);
    let watched = &service.rules.registry().watched()[0].state;
    let WatchedState::Keyed { top_refused, .. } = watched else { panic!("{watched:?}") };
    assert!(top_refused.iter().all(|it| it.key.len() <= 64));
    // Of two values, this service and one behind it may take different ones.
    let two = of("eve").header("x-api-key", "ann");
    assert_eq!(service.status(two).await, 429, "with those that have no key");
    service.clock.advance(Duration::from_secs(60));
    assert_eq!(service.status(of("ann")).await, 200);
    let head = Request::head("/api/orders").header("x-api-key", "ann");
    assert_eq!(service.status(head).await, 429);
}

/// Returns a request with a header of these values, each sent on its own.
fn of_apps(apps: &[&str]) -> http::request::Builder {
    let request = Request::get("/api/orders");
    apps.iter().fold(request, |request, app| request.header("x-app", *app))
}

#[tokio::test]
async fn header_that_is_sent_twice_evades_no_condition() {
    let rule = |condition: &str| {
        service(&format!("[[rule]]\nname = \"r\"\nresource = \"*\"\nin_flight = 0\n{condition}\n"))
    };
    let only = rule("only = { \"header:x-app\" = [\"crawler\", \"bot\"] }");
    let any = rule("only = { \"header:x-app\" = \"*\" }");
    let except = rule("except = { \"header:x-app\" = [\"shop\", \"pos\"] }");
    for (apps, by_only, by_any, by_except) in [
        (&[][..], 200, 200, 429),
        (&["crawler"], 429, 429, 429),
        (&["shop"], 200, 429, 200),
        (&["crawler", "crawler"], 429, 429, 429),
        (&["shop", "crawler"], 429, 429, 429),
        (&["crawler", "shop"], 429, 429, 429),
        (&["x", "y", "bot"], 429, 429, 429),
        (&["shop", "pos"], 200, 429, 200),
        (&["shop", "other"], 200, 429, 429),
    ] {
        assert_eq!(only.status(of_apps(apps)).await, by_only, "only, {apps:?}");
        assert_eq!(any.status(of_apps(apps)).await, by_any, "any, {apps:?}");
        assert_eq!(except.status(of_apps(apps)).await, by_except, "except, {apps:?}");
        let request = of_apps(apps).body(()).unwrap();
        let rules = RuleSet::parse(&only.rules.rules()[0].to_string()).unwrap();
        let explanation = rules.explain(TrafficType::Inbound, "GET /api/orders", &request);
        assert_eq!(explanation.rules.len(), usize::from(by_only == 429), "{apps:?}");
    }
}

#[cfg(feature = "sentinel")]
#[tokio::test]
async fn header_that_is_sent_twice_evades_no_authority_rule() {
    use leaparray_rules::{KeySource, Sentinel, SentinelKind};

    for (strategy, of_one, of_both) in [(0, 200, 429), (1, 429, 429)] {
        let json = format!(
            "[{{\"resource\":\"GET /api/orders\",\"limitApp\":\"shop,pos\",\"strategy\":{strategy}}}]"
        );
        let header = KeySource::Header("x-app".into());
        let sentinel = Sentinel::new(SentinelKind::Authority).origin(header);
        let service = service("rule = []");
        service.rules.apply(sentinel.parse(&json).unwrap().rules());
        assert_eq!(service.status(of_apps(&["shop"])).await, of_one);
        assert_eq!(service.status(of_apps(&["shop", "pos"])).await, of_one);
        assert_eq!(service.status(of_apps(&["shop", "other"])).await, of_both);
        assert_eq!(service.status(of_apps(&["other", "shop"])).await, of_both);
        assert_eq!(service.status(of_apps(&[])).await, 200, "as in Sentinel");
    }
}

#[tokio::test]
async fn clients_and_extensions_are_keys() {
    let service = service(
        "[[rule]]\nname = \"network\"\nresource = \"GET /api/orders\"\nkey = \"client/24\"\n\
         limit = \"2 per minute\"\n\
         [[rule]]\nname = \"tenant\"\nresource = \"GET /api/files/{*path}\"\n\
         key = \"extension:tenant\"\nlimit = \"1 per minute\"",
    );
    let client = |address: &str| {
        let address = ClientAddress(address.parse().unwrap());
        Request::get("/api/orders").extension(address)
    };
    assert_eq!(service.status(client("10.1.2.3")).await, 200);
    assert_eq!(service.status(client("10.1.2.4")).await, 200);
    assert_eq!(service.status(client("10.1.2.5")).await, 429);
    assert_eq!(service.status(client("10.1.3.5")).await, 200);
    let peer = axum::extract::ConnectInfo(std::net::SocketAddr::from(([10, 1, 2, 9], 443)));
    assert_eq!(service.status(Request::get("/api/orders").extension(peer)).await, 429);
    let tenant = |name: &str| {
        Request::get("/api/files/x").extension(RequestKeys::default().with("tenant", name))
    };
    assert_eq!(service.status(tenant("acme")).await, 200);
    assert_eq!(service.status(tenant("acme")).await, 429);
    assert_eq!(service.status(tenant("globex")).await, 200);
}

#[tokio::test]
async fn rules_change_while_the_service_runs() {
    let text = |burst: u64| {
        format!(
            "[[rule]]\nname = \"orders\"\nresource = \"GET /api/orders\"\n\
             limit = \"1 per hour, bursts of {burst}\""
        )
    };
    let service = service(&text(3));
    let orders = || Request::get("/api/orders");
    assert_eq!(service.status(orders()).await, 200);
    service.rules.apply(&RuleSet::parse(&text(2)).unwrap());
    for expected in [200, 200, 429] {
        assert_eq!(service.status(orders()).await, expected, "two were left");
    }
    service.rules.apply(&RuleSet::default());
    assert_eq!(service.status(orders()).await, 200, "no rules");
    let resource = service.rules.registry().get("GET /api/orders").unwrap();
    let sum = |event| resource.lifetime().sum(event);
    assert_eq!((sum(MetricEvent::Pass), sum(MetricEvent::Block)), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn paced_request_waits_and_gives_its_place_back_if_it_is_dropped() {
    let service = service(
        "[[rule]]\nname = \"paced\"\nresource = \"*\"\npace = \"1 per second\"\nmax_wait = \"5s\"",
    );
    let orders = || Request::get("/api/orders");
    assert_eq!(service.status(orders()).await, 200);
    let begin = tokio::time::Instant::now();
    assert_eq!(service.status(orders()).await, 200);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    let waits = tokio::time::timeout(Duration::from_millis(1), service.status(orders())).await;
    assert!(waits.is_err(), "the client has left");
    let begin = tokio::time::Instant::now();
    assert_eq!(service.status(orders()).await, 200);
    // The clock of the registry stands still: two seconds after the first, as the one that left.
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

const OTHER: &str = "[[rule]]\nname = \"other\"\nresource = \"*\"\nlimit = \"99 per hour\"\n";

/// Each kind of limiter, alone and beside another rule.
#[tokio::test]
async fn refusal_in_a_layer_is_named_and_counts_once_at_its_rule() {
    let limiters = [
        "limit = \"2 per hour, bursts of 2\"",
        "limit = \"2 per hour\"",
        "key = \"header:x-api-key\"\nlimit = \"2 per hour, bursts of 2\"",
        "in_flight = 2",
    ];
    for (limiter, beside) in limiters.into_iter().flat_map(|it| [(it, ""), (it, OTHER)]) {
        let rule = format!("[[rule]]\nname = \"r\"\nresource = \"*\"\n{limiter}\n");
        let service = service(&(beside.to_owned() + &rule));
        let call = async || {
            let request = Request::get("/api/orders").header("x-api-key", "ann");
            service.app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
        };
        let held = [call().await, call().await].map(|response| {
            assert_eq!(response.status(), 200, "{limiter}");
            response
        });
        let refused = call().await;
        assert_eq!(refused.status(), 429, "{limiter}");
        if !limiter.starts_with("in_flight") {
            let limits = refused.headers()["ratelimit"].to_str().unwrap();
            assert!(limits.contains("\"r\";r=0"), "{limits}");
        }
        let counted = service.rules.status().refused.clone();
        assert_eq!(counted.iter().find(|(name, _)| &**name == "r").unwrap().1, 1, "{limiter}");
        assert_eq!(counted.iter().map(|it| it.1).sum::<u64>(), 1, "{limiter}");
        let resource = service.rules.registry().get("GET /api/orders").unwrap();
        assert_eq!(resource.lifetime().sum(MetricEvent::Block), 1, "{limiter}");
        drop(held);
    }
}

/// Permits of one rule, of two, and of a rule whose permits are not only of a limit in flight.
#[tokio::test]
async fn permits_of_a_request_in_a_layer_end_with_its_body() {
    let rule = |name: &str, limiter: &str| {
        format!("[[rule]]\nname = \"{name}\"\nresource = \"*\"\n{limiter}\n")
    };
    let in_flight = rule("r", "in_flight = 1");
    let of_class =
        rule("r", "in_flight = 1\npriority = \"header:x-class\"\nshares = { \"*\" = \"100 %\" }");
    let sets = [
        in_flight.clone(),
        in_flight.clone() + OTHER,
        in_flight.clone() + &rule("breaker", "breaker = \"adaptive\""),
        in_flight + &rule("second", "in_flight = 1"),
        of_class,
    ];
    for text in sets {
        let service = service(&text);
        for round in 0..3 {
            let request = Request::get("/api/orders").body(Body::empty()).unwrap();
            let held = service.app.clone().oneshot(request).await.unwrap();
            assert_eq!(held.status(), 200, "{text}{round}");
            assert_eq!(service.status(Request::get("/api/orders")).await, 429, "{text}{round}");
            drop(held);
        }
        assert_eq!(service.status(Request::get("/api/orders")).await, 200, "{text}");
    }
}
