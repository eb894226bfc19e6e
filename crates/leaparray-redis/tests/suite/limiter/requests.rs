//! Decisions on requests.

use std::time::Duration;

use leaparray::flow::{AllOf, ConcurrencyLimiter, Limiter, LimiterExt, Reason, Retry};
use leaparray::{Clock, ManualClock, NodeConfig, ResourceNode, Timestamp};
use leaparray_redis::{LeaseState, LeasedLimiter, MemoryEngine, StartError, WhenAway};
use tokio::time::sleep;

use crate::limiter::engine::{Network, Simulated, builder, config, opened};

#[tokio::test(start_paused = true)]
async fn new_limit_begins_with_a_quarantine() {
    let clock = Simulated::start();
    let limiter = builder(clock).start(Network::new(clock)).unwrap();
    assert_eq!(limiter.state(), LeaseState::Connecting);
    let refusal = limiter.try_acquire().refusal().unwrap();
    assert_eq!(refusal.reason, Reason::Custom("the server of the limit is away"));
    assert_eq!(refusal.retry(), Retry::OnAnswer);
    sleep(Duration::from_millis(20)).await;
    let until = Timestamp::from_millis(61_410);
    assert_eq!(limiter.state(), LeaseState::Quarantine { until });
    let refusal = limiter.try_acquire().refusal().unwrap();
    // An ask that is sent then arrives just after the server has opened, 5 ms later.
    assert_eq!(refusal.retry_at(), Some(Timestamp::from_micros(61_402_500)));
    sleep(Duration::from_millis(1_400)).await;
    assert_eq!(limiter.state(), LeaseState::Leasing);
    limiter.acquire().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn request_that_finds_too_few_permits_makes_the_next_ask() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(5)).await;
    let before = network.asks();
    let refusal = limiter.try_acquire_many(20).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::LimitReached, Retry::OnAnswer));
    sleep(Duration::from_millis(11)).await;
    assert_eq!(network.asks(), before + 1);
    assert!(limiter.in_hand() >= 20);
    assert!(limiter.try_acquire_many(20).is_admitted());
}

/// Of requests that do not wait, one in 20 s: only the first finds no permit.
#[tokio::test(start_paused = true)]
async fn node_keeps_a_permit_for_rare_requests() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(20)).await;
    assert!(limiter.try_acquire().is_refused());
    for request in 0..10 {
        sleep(Duration::from_millis(20_013)).await;
        assert!(limiter.try_acquire().is_admitted(), "request {request}");
    }
    let before = network.asks();
    sleep(Duration::from_secs(20)).await;
    // A lease is valid for 300 to 400 ms.
    let asks = network.asks() - before;
    assert!((50..=70).contains(&asks), "{asks} asks in 20 s");
    sleep(Duration::from_secs(60)).await;
    let before = network.asks();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(network.asks(), before, "no request in a minute");
}

#[tokio::test(start_paused = true)]
async fn acquire_waits_for_the_answer() {
    let clock = Simulated::start();
    let limiter = opened(clock, &Network::new(clock)).await;
    sleep(Duration::from_secs(5)).await;
    let start = clock.now();
    limiter.acquire_many(30).await.unwrap();
    assert_eq!(clock.now().saturating_since(start), Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn acquire_is_refused_when_the_limit_is_reached() {
    let clock = Simulated::start();
    let limiter = opened(clock, &Network::new(clock)).await;
    sleep(Duration::from_secs(5)).await;
    limiter.acquire_many(100).await.unwrap();
    let start = clock.now();
    let refusal = limiter.acquire().await.unwrap_err();
    assert_eq!(refusal.reason, Reason::LimitReached);
    assert!(refusal.retry_at().is_some_and(|it| it > clock.now()));
    assert!(clock.now().saturating_since(start) <= Duration::from_millis(10));
    let refusal = limiter.acquire_within(Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(refusal.reason, Reason::LimitReached);
    let waited = clock.now().saturating_since(start);
    assert!(
        (Duration::from_millis(100)..=Duration::from_millis(220)).contains(&waited),
        "{waited:?}"
    );
    limiter.acquire_within(Duration::from_secs(2)).await.unwrap();
    assert!(clock.now().saturating_since(start) <= Duration::from_millis(1_300));
}

#[tokio::test(start_paused = true)]
async fn more_than_the_limit_is_never_admitted() {
    let clock = Simulated::start();
    let limiter = opened(clock, &Network::new(clock)).await;
    for refusal in [
        limiter.try_acquire_many(101).refusal().unwrap(),
        limiter.acquire_many(101).await.unwrap_err(),
        limiter.try_acquire_many(u64::MAX).refusal().unwrap(),
    ] {
        assert_eq!((refusal.reason, refusal.retry()), (Reason::MoreThanLimit, Retry::Never));
    }
    limiter.acquire_many(100).await.unwrap_err();
    assert!(limiter.try_acquire_many(0).is_admitted());
}

/// If such a request counted as demand, the node would keep the whole limit from the others.
#[tokio::test(start_paused = true)]
async fn impossible_request_is_no_demand() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(5)).await;
    for _ in 0..10 {
        assert!(limiter.try_acquire_many(101).is_refused());
        assert!(limiter.try_acquire_many(u64::MAX).is_refused());
        sleep(Duration::from_millis(100)).await;
        assert_eq!(limiter.in_hand(), 0);
    }
}

/// The bucket of the uses is over, and the node has not been told of them.
#[tokio::test(start_paused = true)]
async fn used_permits_are_not_in_hand() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(2)).await;
    assert!(limiter.try_acquire_many(40).is_refused());
    sleep(Duration::from_millis(11)).await;
    network.set_hangs(true);
    let now = clock.now();
    assert!(limiter.try_acquire_at(now, limiter.in_hand()).is_admitted());
    let next = now.saturating_add(Duration::from_millis(101));
    assert_eq!(limiter.quota_at(next).unwrap().remaining, 0);
    assert_eq!(limiter.peek_at(next, 1), None);
    sleep(Duration::from_millis(101)).await;
    assert_eq!(limiter.in_hand(), 0);
}

#[tokio::test(start_paused = true)]
async fn wrong_time_far_ahead_ends_leases_and_no_more() {
    let clock = Simulated::start();
    let limiter = opened(clock, &Network::new(clock)).await;
    let far = Timestamp::from_secs(1_000_000);
    assert!(limiter.try_acquire_at(far, 1).is_refused());
    assert!(limiter.try_acquire_at(Timestamp::MAX, 1).is_refused());
    sleep(Duration::from_secs(3)).await;
    limiter.acquire_many(50).await.unwrap();
}

/// If the node believed the wrong time, its next lease would end a second late.
#[tokio::test(start_paused = true)]
async fn wrong_time_ahead_does_not_lengthen_a_lease() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(2)).await;
    let ahead = clock.now().saturating_add(Duration::from_secs(1));
    assert!(limiter.try_acquire_at(ahead, 40).is_refused());
    sleep(Duration::from_millis(11)).await;
    assert!(limiter.in_hand() >= 40);
    // No answer arrives any more, and the lease ends 300 to 400 ms after its grant.
    network.set_hangs(true);
    sleep(Duration::from_millis(400)).await;
    assert_eq!(limiter.in_hand(), 0);
}

#[tokio::test(start_paused = true)]
async fn node_is_entered_at_the_time_of_the_limiter() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    // A clock that stands still, before the lease.
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(Timestamp::MIN));
    assert!(limiter.try_acquire_many(20).is_refused());
    sleep(Duration::from_millis(11)).await;
    limiter.try_enter(&node).unwrap().success();
    network.set_hangs(true);
    sleep(Duration::from_millis(400)).await;
    assert!(limiter.try_enter(&node).is_err(), "the lease has ended");
}

#[tokio::test(start_paused = true)]
async fn quota_is_what_is_in_hand() {
    let clock = Simulated::start();
    let limiter = opened(clock, &Network::new(clock)).await;
    assert!(limiter.try_acquire_many(20).is_refused());
    sleep(Duration::from_millis(11)).await;
    let quota = limiter.quota_at(limiter.account().now()).unwrap();
    assert_eq!((quota.limit, quota.remaining), (100, limiter.in_hand()));
    let now = limiter.account().now();
    assert!(limiter.peek_at(now, quota.remaining).unwrap().is_admitted());
    assert_eq!(limiter.peek_at(now, quota.remaining + 1), None);
    assert_eq!(limiter.in_hand(), quota.remaining);
}

#[tokio::test(start_paused = true)]
async fn limiter_is_a_part_of_all_of() {
    let clock = Simulated::start();
    let limiter = opened(clock, &Network::new(clock)).await;
    let concurrency = ConcurrencyLimiter::new(1);
    let both = AllOf::new((limiter.clone(), &concurrency));
    assert!(both.try_acquire().is_refused());
    sleep(Duration::from_millis(11)).await;
    assert!(both.try_acquire().is_admitted());
}

#[tokio::test(start_paused = true)]
async fn idle_node_does_not_ask() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let _limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(10)).await;
    let before = network.asks();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(network.asks(), before);
}

/// The task never runs, as on a current-thread runtime whose `block_on` has returned.
#[test]
fn limiter_whose_runtime_is_not_driven_says_so() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let guard = runtime.enter();
    let builder = LeasedLimiter::builder("orders", config()).with_clock(clock.clone());
    let engine = MemoryEngine::with_clock(clock.clone());
    let limiter = builder.with_when_away(WhenAway::Open).start(engine).unwrap();
    drop(guard);
    // An answer is waited for 300 ms, and the task may be a second late.
    clock.advance(Duration::from_millis(1_300));
    assert!(limiter.try_acquire().is_admitted());
    assert_eq!(limiter.state(), LeaseState::Connecting);
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.try_acquire().is_admitted());
    let since = Timestamp::from_secs(60);
    assert_eq!(limiter.state(), LeaseState::Stalled { since });
    assert!(limiter.state().is_away());
    runtime.block_on(tokio::task::yield_now());
    assert_eq!(limiter.state().name(), "quarantine");
}

/// A request that waits on another runtime is refused after the time of two answers.
#[test]
fn request_waits_for_a_bounded_time_if_nothing_is_driven() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let guard = runtime.enter();
    let limiter = LeasedLimiter::builder("orders", config()).start(MemoryEngine::new()).unwrap();
    drop(guard);
    let mut other = tokio::runtime::Builder::new_current_thread();
    let other = other.enable_time().start_paused(true).build().unwrap();
    let waited = other.block_on(async {
        let start = tokio::time::Instant::now();
        assert!(limiter.acquire().await.is_err());
        start.elapsed()
    });
    assert_eq!(waited, Duration::from_millis(2_600));
}

#[test]
fn start_needs_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    let started = LeasedLimiter::builder("orders", config()).start(MemoryEngine::new());
    assert_eq!(started.unwrap_err(), StartError::NoTimers);
}

#[test]
fn start_needs_a_runtime_and_a_name() {
    let start = |name: &str| LeasedLimiter::builder(name, config()).start(MemoryEngine::new());
    assert_eq!(start("orders").unwrap_err(), StartError::NoRuntime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    assert!(matches!(start("").unwrap_err(), StartError::Name(_)));
    assert!(matches!(start("a{b").unwrap_err(), StartError::Name(_)));
}
