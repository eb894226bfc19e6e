//! The headers of a refusal: `Retry-After`, `RateLimit-Policy` and `RateLimit`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use leaparray::flow::adaptive::{Aimd, LimitRange};
use leaparray::flow::breaker::RandomSource;
use leaparray::flow::keyed::OfKey;
use leaparray::flow::settle::CostLimiter;
use leaparray::flow::{
    AdaptiveLimiter, AllOf, Ask, BoxLimiter, ConcurrencyLimiter, Decision, FixedWindowLimiter,
    Keyed, LeakyBucket, Limiter, LimiterExt, Rate, Reason, Refusal, Retry, SlidingWindowLimiter,
    TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Timestamp, WindowConfig};
use leaparray_tower::{Answer, Refuse, Refused, Spread};
use sfv::{BareItem, List, ListEntry, Parser};
use tower::{Layer, Service};

use crate::service::{Manual, Steps, answering, get, layer, poll_now, registry};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The items of a field: each name, and its parameters.
type Items = BTreeMap<String, BTreeMap<String, BareItem>>;

/// Reads a field with the parser of another project.
fn items(headers: &HeaderMap, field: &str) -> Items {
    let lines: Vec<_> = headers.get_all(field).iter().map(|it| it.to_str().unwrap()).collect();
    let list: List = Parser::new(&lines.join(",")).parse().unwrap();
    let items = list.into_iter().map(|entry| {
        let ListEntry::Item(item) = entry else { panic!("{entry:?}") };
        let BareItem::String(name) = item.bare_item else { panic!("{item:?}") };
        let parameters = item.params.into_iter().map(|(key, value)| (key.to_string(), value));
        (name.as_str().to_owned(), parameters.collect())
    });
    let items: Vec<_> = items.collect();
    let names = items.len();
    let items: Items = items.into_iter().collect();
    assert_eq!(items.len(), names, "a name stands for two limits: {lines:?}");
    items
}

fn integer(item: &BTreeMap<String, BareItem>, parameter: &str) -> Option<i64> {
    item.get(parameter).map(|value| i64::from(value.as_integer().expect(parameter)))
}

fn seconds(headers: &HeaderMap) -> Option<i64> {
    headers.get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap())
}

fn empty() -> Response<Steps> {
    Response::new(Steps::default().that_says_its_end())
}

/// Returns the headers of a request that `limiter` refuses.
fn refused<L: Limiter<Permit: Send> + Send + Sync + 'static>(
    registry: &Arc<Manual>,
    limiter: L,
) -> HeaderMap {
    let mut service = layer(registry).limit(Arc::new(limiter)).layer(answering(empty()));
    let response = poll_now(service.call(get("/"))).unwrap();
    assert!(response.status().is_client_error(), "{response:?}");
    response.headers().clone()
}

#[test]
fn wait_of_a_minute_in_a_window_of_ten_is_the_effective_window() {
    let registry = registry();
    let ten_minutes = WindowConfig::new(10, 10 * MINUTE).unwrap();
    let limiter =
        SlidingWindowLimiter::of_buckets_with_clock(ten_minutes, 600, registry.clock().clone())
            .unwrap();
    // The first permit leaves the window in a minute, and the last one in ten.
    let now = registry.clock().now();
    assert!(limiter.try_acquire_at(now, 1).is_admitted());
    registry.clock().advance(9 * MINUTE);
    assert!(limiter.try_acquire_at(registry.clock().now(), 599).is_admitted());
    let headers = refused(&registry, limiter);
    assert_eq!(headers["retry-after"], "60");
    assert_eq!(headers["ratelimit-policy"], "\"default\";q=600;w=600");
    assert_eq!(headers["ratelimit"], "\"default\";r=0;t=60");
}

/// Limiters of every kind that has a quota, without a permit left.
fn limiters(clock: &ManualClock) -> Vec<(&'static str, BoxLimiter)> {
    fn empty<L: Limiter<Permit: Send + 'static> + Send + Sync + 'static>(limiter: L) -> BoxLimiter {
        let limiter = limiter.boxed();
        while let Decision::Admitted(permit) = limiter.try_acquire() {
            // Held for ever.
            std::mem::forget(permit);
        }
        limiter
    }
    let rate = Rate::per_minute(6).unwrap();
    let window = WindowConfig::new(6, MINUTE).unwrap();
    let aimd = Aimd::new(LimitRange::new(1, 2, 3).unwrap());
    let per_minute = || FixedWindowLimiter::with_clock(MINUTE, 5, clock.clone()).unwrap();
    let both = AllOf::new((
        per_minute().named("minute"),
        FixedWindowLimiter::with_clock(60 * MINUTE, 5, clock.clone()).unwrap().named("hour"),
        Arc::new(ConcurrencyLimiter::new(100)),
        TokenBucket::with_clock(rate, 50, clock.clone()),
    ));
    let alike = AllOf::new(vec![per_minute(), per_minute()]);
    let buckets =
        Keyed::<u64, _>::new(TokenBucket::with_clock(rate, 10, clock.clone()), 10).unwrap();
    let windows = Keyed::<u64, _>::new(per_minute(), 10).unwrap();
    vec![
        ("token bucket", empty(TokenBucket::with_clock(rate, 10, clock.clone()))),
        ("fixed window", empty(per_minute())),
        (
            "sliding window",
            empty(SlidingWindowLimiter::of_buckets_with_clock(window, 10, clock.clone()).unwrap()),
        ),
        (
            "warm-up",
            empty(WarmUp::with_clock(window, 60, WarmUpConfig::default(), clock.clone()).unwrap()),
        ),
        ("concurrency", empty(Arc::new(ConcurrencyLimiter::new(2)))),
        ("adaptive", empty(Arc::new(AdaptiveLimiter::with_clock(aimd, clock.clone())))),
        ("token bucket of a key", empty(OfKey::new(Arc::new(buckets), Box::new(7)))),
        ("window of a key", empty(OfKey::new(Arc::new(windows), Box::new(7)))),
        ("cost", empty(Arc::new(CostLimiter::with_clock(MINUTE, 5, clock.clone()).unwrap()))),
        ("several", empty(both)),
        ("several alike", empty(alike)),
        ("named", empty(per_minute().named("a \"name\" \\ of the café"))),
        ("short", empty(FixedWindowLimiter::with_clock(SECOND / 10, 5, clock.clone()).unwrap())),
    ]
}

#[test]
fn fields_of_every_limiter_agree() {
    let registry = registry();
    for (kind, limiter) in limiters(registry.clock()) {
        let headers = refused(&registry, limiter);
        let retry_after = seconds(&headers);
        let (policies, states) =
            (items(&headers, "ratelimit-policy"), items(&headers, "ratelimit"));
        assert!(policies.keys().eq(states.keys()), "{kind}: {headers:?}");
        for (name, policy) in &policies {
            let state = &states[name];
            let limit = integer(policy, "q").unwrap();
            assert!((0..=limit).contains(&integer(state, "r").unwrap()), "{kind}: {headers:?}");
            assert!(integer(policy, "w").is_none_or(|window| window > 0), "{kind}: {headers:?}");
            let effective = integer(state, "t");
            assert!(effective.is_none_or(|effective| effective > 0), "{kind}: {headers:?}");
            assert!(
                retry_after.is_none() || effective <= retry_after,
                "{kind}: asked to come back before the end of a window: {headers:?}"
            );
        }
    }
}

#[test]
fn fields_say_what_each_limit_is() {
    let registry = registry();
    let limiters = limiters(registry.clock()).into_iter();
    let by_kind: BTreeMap<_, _> = limiters.map(|(kind, it)| (kind, Arc::new(it))).collect();
    let header = |kind: &str, field| {
        let headers = refused(&registry, Arc::clone(&by_kind[kind]));
        headers[field].to_str().unwrap().to_owned()
    };
    let expected = [
        ("token bucket", "\"default\";q=10;w=100", "\"default\";r=0;t=10"),
        ("fixed window", "\"default\";q=5;w=60", "\"default\";r=0;t=60"),
        ("concurrency", "\"default\";q=2;qu=\"concurrent-requests\"", "\"default\";r=0"),
        ("cost", "\"default\";q=5;qu=\"cost\";w=60", "\"default\";r=0;t=62"),
        (
            "several",
            "\"minute\";q=5;w=60, \"hour\";q=5;w=3600, \
             \"default\";q=100;qu=\"concurrent-requests\", \"default-2\";q=50;w=500",
            "\"minute\";r=0;t=60, \"hour\";r=0;t=3600, \
             \"default\";r=95, \"default-2\";r=45;t=50",
        ),
        (
            "named",
            "\"a \\\"name\\\" \\\\ of the caf_\";q=5;w=60",
            "\"a \\\"name\\\" \\\\ of the caf_\";r=0;t=60",
        ),
        ("short", "\"default\";q=5", "\"default\";r=0;t=1"),
    ];
    for (kind, policy, state) in expected {
        assert_eq!(header(kind, "ratelimit-policy"), policy, "{kind}");
        assert_eq!(header(kind, "ratelimit"), state, "{kind}");
    }
    assert_eq!(header("several", "retry-after"), "3600");
}

/// A limiter with a clock of its own, an hour before or after the registry's clock, still says that
/// its wait is one.
#[test]
fn wait_is_not_zero_if_the_clock_of_the_limiter_differs() {
    let hour = Duration::from_secs(3_600);
    let now = Timestamp::from_secs(10 * 3_600);
    for at_limiter in [now.saturating_sub(hour), now, now.saturating_add(hour)] {
        let clock = ManualClock::new(now);
        let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock));
        let clock = ManualClock::new(at_limiter);
        let minute = WindowConfig::new(6, MINUTE).unwrap();
        let rate = Rate::per_minute(1).unwrap();
        let limiters: [(_, BoxLimiter); 4] = [
            ("token bucket", TokenBucket::with_clock(rate, 1, clock.clone()).boxed()),
            (
                "fixed window",
                FixedWindowLimiter::with_clock(MINUTE, 1, clock.clone()).unwrap().boxed(),
            ),
            (
                "sliding window",
                SlidingWindowLimiter::of_buckets_with_clock(minute, 1, clock.clone())
                    .unwrap()
                    .boxed(),
            ),
            // The combination reads the first clock only.
            (
                "combination",
                AllOf::new((
                    TokenBucket::with_clock(rate, 100, registry.clock().clone()),
                    TokenBucket::with_clock(rate, 1, clock.clone()),
                ))
                .boxed(),
            ),
        ];
        for (kind, limiter) in limiters {
            let mut service = layer(&registry).limit(Arc::new(limiter)).layer(answering(empty()));
            // Of a resource of its own: a window counts the other requests of its resource.
            let path = format!("/{kind}").replace(' ', "-");
            assert_eq!(poll_now(service.call(get(&path))).unwrap().status(), 200, "{kind}");
            let response = poll_now(service.call(get(&path))).unwrap();
            assert_eq!(response.status(), 429);
            let least = if kind == "combination" { 1 } else { 50 };
            let after = seconds(response.headers()).unwrap();
            assert!((least..=61).contains(&after), "{kind}, {at_limiter}: {response:?}");
            let state = items(response.headers(), "ratelimit");
            if kind != "combination" {
                assert_eq!(integer(&state["default"], "r"), Some(0), "{kind}: {response:?}");
            }
            let request = Request::post(&path).header("content-type", "application/grpc");
            let response = poll_now(service.call(request.body(()).unwrap())).unwrap();
            assert_ne!(response.headers()["grpc-retry-pushback-ms"], "0", "{kind}");
        }
    }
}

#[test]
fn refusal_of_the_inner_layer_reaches_the_client_through_the_outer_one() {
    let registry = registry();
    let clock = registry.clock();
    let inner = FixedWindowLimiter::with_clock(MINUTE, 0, clock.clone()).unwrap().named("inner");
    let outer =
        FixedWindowLimiter::with_clock(60 * MINUTE, 10, clock.clone()).unwrap().named("outer");
    let inner = layer(&registry).limit(Arc::new(inner)).layer(answering(empty()));
    let mut service = layer(&registry).limit(Arc::new(outer)).layer(inner);
    let response = poll_now(service.call(get("/"))).unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["ratelimit-policy"], "\"inner\";q=0;w=60");
}

/// Adds the headers of a refusal to a response that has such headers.
#[derive(Clone)]
struct Beside(&'static str);

impl<E> Refuse<Steps, E> for Beside {
    type Error = E;

    fn refuse(&self, refused: &Refused, _request: &Parts) -> Result<Response<Option<Steps>>, E> {
        let mut response = Response::builder()
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header("retry-after", self.0)
            .header("ratelimit-policy", "\"proxy\";q=7;w=7")
            .header("ratelimit", "\"proxy\";r=3")
            .body(None)
            .unwrap();
        refused.add_headers(response.headers_mut());
        Ok(response)
    }

    fn error(error: E) -> E {
        error
    }
}

#[test]
fn items_are_added_to_those_of_another_layer() {
    let date = "Fri, 31 Dec 2027 23:59:59 GMT";
    for (present, expected) in [("5", "60"), ("90", "90"), (date, date)] {
        let registry = registry();
        let limiter = FixedWindowLimiter::with_clock(MINUTE, 1, registry.clock().clone()).unwrap();
        assert!(limiter.try_acquire().is_admitted());
        let layer = layer(&registry).limit(Arc::new(limiter.named("mine"))).refuse(Beside(present));
        let response = poll_now(layer.layer(answering(empty())).call(get("/"))).unwrap();
        let headers = response.headers();
        assert_eq!(headers.get_all("retry-after").iter().collect::<Vec<_>>(), [expected]);
        for field in ["ratelimit-policy", "ratelimit"] {
            assert!(items(headers, field).keys().eq(["mine", "proxy"]), "{headers:?}");
        }
    }
}

#[test]
fn names_of_limits_are_unique() {
    let registry = registry();
    let spent = |name: &'static str| {
        let window = FixedWindowLimiter::with_clock(MINUTE, 1, registry.clock().clone()).unwrap();
        assert!(window.try_acquire().is_admitted());
        window.named(name).boxed()
    };
    for (names, items) in [
        (["a", "a", "a-2"], ["a", "a-3", "a-2"]),
        (["a", "a-2", "a"], ["a", "a-2", "a-3"]),
        (["a", "a", "a"], ["a", "a-2", "a-3"]),
        (["a-2", "a-2", "a"], ["a-2", "a-2-2", "a"]),
        // Both are written alike.
        (["a\u{e9}", "a_", "a_-2"], ["a_", "a_-3", "a_-2"]),
        (["", "", "-2"], ["", "-3", "-2"]),
    ] {
        let headers = refused(&registry, AllOf::new(Vec::from(names.map(spent))));
        for field in ["ratelimit-policy", "ratelimit"] {
            let written = headers[field]
                .to_str()
                .unwrap()
                .split(", ")
                .map(|item| item.split('"').nth(1).unwrap());
            assert_eq!(written.collect::<Vec<_>>(), items, "{names:?}: {field}");
        }
    }
}

#[test]
fn responses_to_admitted_requests_have_the_state_after_the_decision_if_asked_for() {
    let registry = registry();
    let clock = registry.clock().clone();
    let limiter =
        Arc::new(FixedWindowLimiter::with_clock(MINUTE, 3, registry.clock().clone()).unwrap());
    let plain = layer(&registry).limit(Arc::clone(&limiter));
    let response = poll_now(plain.clone().layer(answering(empty())).call(get("/"))).unwrap();
    assert!(!response.headers().contains_key("ratelimit"));
    let mut service = plain.quota_headers(true).layer(answering(empty()));
    let mut states = Vec::new();
    for _ in 0..3 {
        let response = poll_now(service.call(get("/"))).unwrap();
        states.push((response.status().as_u16(), items(response.headers(), "ratelimit")));
        assert_eq!(response.headers()["ratelimit-policy"], "\"default\";q=3;w=60");
        clock.advance(SECOND);
    }
    let of_default = |items: &Items| {
        [integer(&items["default"], "r").unwrap(), integer(&items["default"], "t").unwrap()]
    };
    let states: Vec<_> = states.iter().map(|(status, it)| (*status, of_default(it))).collect();
    assert_eq!(states, [(200, [1, 60]), (200, [0, 59]), (429, [0, 58])]);
}

/// Always the same number.
#[derive(Clone, Copy)]
struct Fixed(u32);

impl RandomSource for Fixed {
    fn next_u32(&self) -> u32 {
        self.0
    }
}

#[test]
fn times_to_ask_again_are_spread() {
    for (number, seconds) in [(0, 60), (u32::MAX / 2, 70), (u32::MAX, 80)] {
        let registry = registry();
        let spread = Spread::with_source(Answer, 20 * SECOND, Fixed(number));
        let limiter = FixedWindowLimiter::with_clock(MINUTE, 1, registry.clock().clone()).unwrap();
        assert!(limiter.try_acquire().is_admitted());
        let layer = layer(&registry).limit(Arc::new(limiter.named("one"))).refuse(spread);
        let mut service = layer.layer(answering(empty()));
        let response = poll_now(service.call(get("/"))).unwrap();
        assert_eq!(response.headers()["retry-after"], seconds.to_string(), "{number}");
        let request =
            Request::post("/").header("content-type", "application/grpc").body(()).unwrap();
        let response = poll_now(service.call(request)).unwrap();
        let pushback = response.headers()["grpc-retry-pushback-ms"].to_str().unwrap();
        let pushback: u64 = pushback.parse().unwrap();
        assert!(pushback.abs_diff(seconds * 1_000) <= 1, "{number}: {pushback}");
    }
}

/// Answers with what it sees.
#[derive(Clone)]
struct Shown;

impl<E> Refuse<Steps, E> for Shown {
    type Error = E;

    fn refuse(&self, refused: &Refused, request: &Parts) -> Result<Response<Option<Steps>>, E> {
        let limiter = refused.refusal.limiter().unwrap();
        let user = request.extensions.get::<&'static str>().unwrap();
        let seen = format!("{} {} {user} {limiter}", refused.resource, request.uri);
        Ok(Response::builder().header("seen", seen).body(None).unwrap())
    }

    fn error(error: E) -> E {
        error
    }
}

#[test]
fn refusal_sees_the_request_and_the_resource() {
    let registry = registry();
    let limiter =
        FixedWindowLimiter::with_clock(MINUTE, 0, registry.clock().clone()).unwrap().named("none");
    let layer = layer(&registry).limit(Arc::new(limiter)).refuse(Shown);
    let request = Request::get("/").extension("ann").body(()).unwrap();
    let response = poll_now(layer.layer(answering(empty())).call(request)).unwrap();
    assert_eq!(response.headers()["seen"], "/ / ann none");
}

/// Refuses each request, and names that time.
#[derive(Clone, Copy)]
struct Until(Retry);

impl Limiter for Until {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(Refusal::new(Reason::LimitReached, self.0))
    }
}

#[test]
fn refusal_without_a_time_is_not_spread_and_the_longest_spread_does_not_overflow() {
    let hour = Retry::At(Timestamp::from_secs(1_000_000));
    for (retry, is_spread) in
        [(hour, true), (Retry::Never, false), (Retry::OnAnswer, false), (Retry::Unknown, false)]
    {
        let spread = Spread::with_source(Answer, Duration::MAX, Fixed(u32::MAX));
        let layer = layer(&registry()).limit(Until(retry)).refuse(spread);
        let mut service = layer.layer(answering(empty()));
        let response = poll_now(service.call(get("/"))).unwrap();
        let after = response.headers().get("retry-after");
        let after = after.map(|it| it.to_str().unwrap().parse::<u64>().unwrap());
        // The end of time is 18,446,744,073.7 s.
        assert_eq!(after.is_some_and(|after| after > 18_000_000_000), is_spread, "{retry:?}");
        assert_eq!(after.is_some(), is_spread, "{retry:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn times_of_quotas_count_from_the_head_of_the_response() {
    let registry = registry();
    let clock = registry.clock().clone();
    let limiter = FixedWindowLimiter::with_clock(MINUTE, 3, registry.clock().clone()).unwrap();
    let layer = layer(&registry).limit(Arc::new(limiter)).quota_headers(true);
    // The handler takes 50 seconds.
    let mut service = layer.layer(tower::service_fn(move |_: Request<()>| {
        clock.advance(50 * SECOND);
        std::future::ready(Ok::<_, std::convert::Infallible>(empty()))
    }));
    let response = service.call(get("/")).await.unwrap();
    assert_eq!(response.headers()["ratelimit"], "\"default\";r=2;t=10");
}

#[tokio::test(start_paused = true)]
async fn request_that_waits_has_quotas_if_asked_for() {
    let registry = registry();
    let bucket =
        LeakyBucket::with_clock(Rate::per_second(1).unwrap(), MINUTE, registry.clock().clone());
    let both = AllOf::new((bucket, Arc::new(ConcurrencyLimiter::new(9))));
    let layer = layer(&registry).limit(Arc::new(both.boxed())).quota_headers(true);
    let mut service = layer.layer(answering(empty()));
    let [first, second] = [(); 2].map(|()| service.call(get("/")));
    for response in [first.await.unwrap(), second.await.unwrap()] {
        assert!(response.headers()["ratelimit"].to_str().unwrap().contains(";r="));
    }
}
