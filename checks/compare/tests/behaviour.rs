//! The claims of the page about the behaviour of other crates that its code does not show.

use std::num::NonZeroU32;
use std::time::Duration;

use leaparray::flow::{Keyed, Rate, Retry, TokenBucket};
use leaparray::{ManualClock, Timestamp};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn governor_keeps_idle_keys_until_it_is_told_to_drop_them() {
    use governor::clock::FakeRelativeClock;
    use governor::middleware::NoOpMiddleware;
    use governor::nanos::Nanos;
    use governor::state::keyed::DashMapStateStore;
    use governor::{Quota, RateLimiter};

    type Keyed = RateLimiter<u32, DashMapStateStore<u32>, FakeRelativeClock, NoOpMiddleware<Nanos>>;

    let quota = Quota::per_second(NonZeroU32::new(10).expect("positive"));
    let clock = FakeRelativeClock::default();
    let theirs = Keyed::new(quota, DashMapStateStore::default(), clock.clone());
    assert!((0..1_000).all(|key| theirs.check_key(&key).is_ok()));
    clock.advance(HOUR);
    assert!(theirs.check_key(&0).is_ok());
    assert_eq!(theirs.len(), 1_000);
    theirs.retain_recent();
    assert_eq!(theirs.len(), 1);
}

#[test]
fn leaparray_has_a_cap_and_drops_idle_keys_for_new_ones() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let limit = TokenBucket::with_clock(Rate::per_second(10).expect("a rate"), 10, clock.clone());
    let ours = Keyed::<u32, _>::new(limit, 100).expect("a cap");
    let admitted =
        |keys: std::ops::Range<u32>| keys.filter(|key| ours.try_acquire(key).is_admitted()).count();
    assert_eq!(admitted(0..1_000), 100);
    clock.advance(HOUR);
    assert_eq!(admitted(1_000..1_050), 50);
}

#[test]
fn request_above_the_burst_never_passes() {
    use governor::clock::FakeRelativeClock;
    use governor::{InsufficientCapacity, Quota, RateLimiter};
    use leaparray::flow::{LimiterExt, TokenBucket};

    let (ten, eleven) =
        (NonZeroU32::new(10).expect("positive"), NonZeroU32::new(11).expect("positive"));
    let theirs =
        RateLimiter::direct_with_clock(Quota::per_second(ten), FakeRelativeClock::default());
    assert_eq!(theirs.check_n(eleven), Err(InsufficientCapacity(10)));

    let clock = ManualClock::new(Timestamp::from_secs(60));
    let ours = TokenBucket::with_clock(Rate::per_second(10).expect("a rate"), 10, clock);
    let refusal = ours.try_acquire_many(11).refusal().expect("more than the capacity");
    assert_eq!(refusal.retry(), Retry::Never);
}

#[tokio::test]
async fn tower_governor_fails_a_request_without_an_address() {
    use axum::{Router, body::Body, http::Request, routing::get};
    use tower::ServiceExt;
    use tower_governor::{GovernorLayer, governor::GovernorConfig};

    let layer = GovernorLayer::new(GovernorConfig::default());
    let app: Router = Router::new().route("/", get(async || "done")).layer(layer);
    let response = app.oneshot(Request::new(Body::empty())).await.expect("infallible");
    assert_eq!(response.status(), 500);
}

#[test]
fn sentinel_counts_an_error_as_a_completion() {
    use sentinel_core::base::{MetricEvent, ReadStat};
    use sentinel_core::{EntryBuilder, Error, stat};

    // The sums are of the last second of the real time, in which an attempt may end or not.
    let (mut errors, mut completed, mut attempts) = (0, 0, 0);
    while completed == 0 && attempts < 1_000 {
        let entry = EntryBuilder::new("failing".into()).build().expect("no rule");
        entry.set_err(Error::msg("failed"));
        entry.exit();
        let node = stat::get_resource_node(&"failing".into()).expect("listed by its first entry");
        (errors, completed) = (node.sum(MetricEvent::Error), node.sum(MetricEvent::Complete));
        attempts += 1;
    }
    assert!(completed > 0);
    assert_eq!(errors, 0);
}

#[test]
fn trypema_rounds_some_limits_down() {
    use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize, local};

    let provider = local::LocalRateLimiterProvider::builder()
        .window_size(WindowSize::hours_or_panic(1))
        .disable_cleanup()
        .build()
        .expect("valid");
    let theirs = provider.absolute();
    let admitted = |limit: u32| {
        let (key, rate) = (limit.to_string(), RateLimit::per_hour_or_panic(limit.into()));
        (0..200)
            .filter(|_| matches!(theirs.inc(&key, &rate, 1), RateLimitDecision::Allowed))
            .count()
    };
    assert_eq!([100, 115].map(admitted), [100, 114]);

    // The rate of the first request of a key counts.
    let rate = RateLimit::per_hour_or_panic(1_000.0);
    assert!(matches!(theirs.inc("100", &rate, 1), RateLimitDecision::Rejected { .. }));
}

#[tokio::test(start_paused = true)]
async fn tower_resilience_has_an_exact_window_beside_its_default() {
    use leaparray::WindowConfig;
    use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
    use tower::{Layer, Service, ServiceExt, service_fn};
    use tower_resilience::ratelimiter::{RateLimiterLayer, WindowType};

    let step = Duration::from_millis(100);
    let mut admitted = Vec::new();
    for window in [WindowType::Fixed, WindowType::SlidingLog] {
        let layer = RateLimiterLayer::builder()
            .limit_for_period(10)
            .window_type(window)
            .timeout_duration(Duration::ZERO)
            .build()
            .expect("valid");
        let mut service = layer.layer(service_fn(async |()| Ok::<_, ()>(())));
        tokio::time::advance(9 * step).await;
        for _ in 0..2 {
            let mut count = 0;
            for _ in 0..20 {
                let ready = service.ready().await.expect("no back-pressure");
                count += u32::from(ready.call(()).await.is_ok());
            }
            admitted.push(count);
            tokio::time::advance(step).await;
        }
    }
    assert_eq!(admitted, [10, 10, 10, 0]);

    let clock = ManualClock::new(Timestamp::from_millis(60_900));
    let second = WindowConfig::new(10, Duration::from_secs(1)).expect("divides");
    let ours =
        SlidingWindowLimiter::of_buckets_with_clock(second, 10, clock.clone()).expect("small");
    let count = || (0..20).filter(|_| ours.try_acquire().is_admitted()).count();
    let first = count();
    clock.advance(step);
    assert_eq!([first, count()], [10, 0]);
}

#[test]
fn limitador_ignores_a_limit_whose_variable_is_missing() {
    use limitador::RateLimiter;
    use limitador::limit::{Context, Limit, Predicate};

    let theirs = RateLimiter::new(1_000);
    let user = vec!["user".try_into().expect("an expression")];
    theirs.add_limit(Limit::new("shop", 1, 3_600, Vec::<Predicate>::new(), user));
    let ask = || theirs.check_rate_limited_and_update(&"shop".into(), &Context::default(), 1);
    assert_eq!((0..100).filter(|_| !ask().expect("in memory").limited).count(), 100);
}
