//! Each public operation, as a thread may do it first.

use std::sync::Arc;
use std::time::Duration;

use leaparray::MetricEvent::{Pass, Success};
use leaparray::array::LeapArray;
use leaparray::count_window::CountWindow;
use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource, ThreadRandom};
use leaparray::flow::{
    AdaptiveBreaker, AdaptiveLimiter, AllOf, CircuitBreaker, CircuitConfig, ConcurrencyLimiter,
    FixedWindowLimiter, Keyed, LeakyBucket, Limiter, LimiterExt, Rate, SlidingWindowLimiter,
    TokenBucket, WaitQueue, WarmUp, WarmUpConfig,
};
use leaparray::metric::MetricBucket;
use leaparray::node::SecondsCursor;
use leaparray::registry::{RegistryCursor, RegistryError};
use leaparray::rolling_window::RollingWindow;
use leaparray::time::{CachedClock, ForwardClock};
use leaparray::{
    Clock, Entry, HistogramConfig, ManualClock, MonotonicClock, NodeConfig, Outcome, Registry,
    RegistryConfig, Resource, ResourceNode, SlidingWindow, Timestamp, WindowConfig,
};

const NOW: Timestamp = Timestamp::from_secs(1_540_629_300);
const MS: Duration = Duration::from_millis(1);

fn clock() -> ManualClock {
    ManualClock::new(NOW)
}

fn config() -> WindowConfig {
    WindowConfig::new(10, Duration::from_secs(1)).unwrap()
}

fn rate() -> Rate {
    Rate::new(10, Duration::from_secs(1)).unwrap()
}

fn with_histogram() -> NodeConfig {
    NodeConfig::default().with_histogram(HistogramConfig::default())
}

/// Enters 10 requests, of which each ends after 1 ms.
fn serve<C: Clock + Clone>(node: &ResourceNode<C>) {
    for _ in 0..10 {
        let now = node.clock().now();
        node.enter_at(now).end_at(now.saturating_add(MS), Outcome::Success);
    }
}

/// Lists a resource: on another thread, if this one ends.
fn list<C: Clock + Clone + Send + Sync>(registry: &Registry<C>, name: &str) -> Resource<C> {
    match registry.resource(name) {
        Err(RegistryError::ThreadEnds { name }) => {
            let list = || registry.resource(&name).unwrap();
            std::thread::scope(|scope| scope.spawn(list).join().unwrap())
        }
        listed => listed.unwrap(),
    }
}

fn registry() -> Registry<ManualClock> {
    let registry = Registry::with_clock(RegistryConfig::default().node(with_histogram()), clock());
    serve(&list(&registry, "GET /orders"));
    registry
}

/// Asserts that a limiter admits two requests, the first one into a node.
fn admits(limiter: impl Limiter) {
    let node = ResourceNode::with_clock(NodeConfig::default(), clock());
    limiter.try_enter_at(&node, NOW).expect("admitted").end_at(NOW, Outcome::Success);
    assert!(!limiter.try_acquire_at(NOW, 1).is_refused(), "a leaky bucket delays it");
    assert_eq!(node.now().long().sum(Success), 1);
}

/// Defines the operations, and a list of them with their names. `$test` gets the names.
macro_rules! operations {
    ($($name:ident $body:block)*) => {
        $(fn $name() $body)*

        pub(crate) const OPERATIONS: &[(&str, fn())] = &[$((stringify!($name), $name)),*];

        /// For each operation, a test that does it on a thread with a small stack.
        mod on_a_small_stack {
            $(#[test] fn $name() { crate::on_a_stack_of(crate::SMALL_STACK, super::$name); })*
        }

        /// For each operation, a test that does it in a destructor of a thread that ends.
        mod in_a_destructor {
            $(#[test] fn $name() { crate::in_a_destructor(super::$name); })*
        }
    };
}

/// For each of these operations, a test that does it on half of that stack.
macro_rules! on_half_of_the_stack {
    ($($name:ident)*) => {
        mod on_half_of_the_stack {
            $(#[test] fn $name() { crate::on_a_stack_of(crate::HALF_OF_IT, super::$name); })*
        }
    };
}

on_half_of_the_stack! {
    record record_by_the_default_clock record_in_many_windows record_a_response_time view_a_window
    enter end_elsewhere borrow_the_next_bucket
    acquire_of_a_fixed_window acquire_of_a_sliding_window acquire_of_a_leaky_bucket
    acquire_of_a_token_bucket acquire_of_a_warm_up acquire_of_a_concurrency_limiter
    acquire_of_an_adaptive_limiter acquire_of_an_adaptive_breaker acquire_of_a_circuit_breaker
    acquire_of_all acquire_of_a_boxed_limiter acquire_by_key acquire_of_a_limiter_per_key
}

operations! {
    record {
        let window = SlidingWindow::with_clock(config(), clock());
        window.add(Pass, 1);
        assert_eq!((window.now().sum(Pass), window.now().ledger().recorded().sum(Pass)), (1, 1));
    }

    record_by_the_default_clock {
        let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(3600)).unwrap());
        window.add(Pass, 1);
        assert_eq!(window.now().sum(Pass), 1);
    }

    record_in_many_windows {
        let windows: Vec<_> =
            (0..3_000).map(|_| SlidingWindow::with_clock(config(), clock())).collect();
        for window in &windows {
            window.add(Pass, 1);
        }
        assert!(windows.iter().all(|window| window.now().sum(Pass) == 1));
    }

    record_a_response_time {
        let window = SlidingWindow::with_histogram(config(), HistogramConfig::default(), clock());
        window.record_success(MS);
        assert_eq!(window.now().quantiles([0.5, 0.999]).map(|value| value.is_some()), [true, true]);
        assert_eq!(window.now().histogram().unwrap().count(), 1);
        assert_eq!(window.lifetime_histogram().unwrap().count(), 1);
    }

    view_a_window {
        let window = SlidingWindow::with_clock(config(), clock());
        let view = window.view(WindowConfig::new(5, Duration::from_millis(500)).unwrap()).unwrap();
        view.add(Pass, 1);
        assert_eq!(window.now().sum(Pass), 1);
    }

    enter {
        let node = ResourceNode::with_clock(NodeConfig::default(), clock());
        let entry = node.enter();
        assert_eq!(node.concurrency(), 1);
        entry.success();
        node.enter().exception();
        node.block();
        assert_eq!((node.concurrency(), node.now().long().sum(Success)), (0, 1));
    }

    enter_and_read_by_the_default_clock {
        let node = ResourceNode::new(with_histogram());
        serve(&node);
        // The last request ends a millisecond from now, which may be in the next bucket.
        let now = node.clock().now().saturating_add(MS);
        assert_eq!(node.at(now).snapshot().long.totals.sum(Success), 10);
    }

    end_elsewhere {
        let node = Arc::new(ResourceNode::with_clock(NodeConfig::default(), clock()));
        let entry = Entry::enter(Arc::clone(&node));
        std::thread::spawn(move || entry.success()).join().unwrap();
        assert_eq!((node.concurrency(), node.now().long().sum(Success)), (0, 1));
    }

    read_a_node {
        let node = ResourceNode::with_clock(with_histogram(), clock());
        serve(&node);
        assert!(node.now().short().quantile(0.5).is_some() && node.now().long().quantile(0.99).is_some());
        assert!(node.now().snapshot().long.quantiles.is_some());
        assert_eq!(node.now().long().histogram().unwrap().count(), 10);
        assert_eq!(node.lifetime_histogram().unwrap().count(), 10);
        node.clock().advance(2_000 * MS);
        assert_eq!(node.now().poll_seconds(&SecondsCursor::new()).count(), 1);
    }

    reconfigure_a_node {
        let node = ResourceNode::with_clock(NodeConfig::default(), clock());
        serve(&node);
        node.reconfigure(with_histogram());
        serve(&node);
        assert_eq!(node.now().long().sum(Success), 20);
    }

    borrow_the_next_bucket {
        let node = ResourceNode::with_clock(NodeConfig::default(), clock());
        let reservation = node.reserve_next_at(node.clock().now(), 1, 10).unwrap();
        Entry::enter_reserved_at(&node, node.clock().now(), reservation).success();
        assert_eq!(node.now().long().sum(Success), 1);
    }

    create_a_registry {
        let registry = Registry::new();
        serve(&list(&registry, "GET /orders"));
        let now = registry.clock().now().saturating_add(MS);
        assert_eq!(registry.at(now).snapshot().total().long.totals.sum(Success), 10);
    }

    look_up {
        let (registry, name) = (registry(), "GET /orders");
        assert_eq!(registry.get(name).unwrap().now().long().sum(Success), 10);
        assert_eq!(registry.resource(name).unwrap().now().long().sum(Success), 10);
        assert!(registry.get("GET /users").is_none());
    }

    read_a_registry {
        let registry = registry();
        registry.resource("GET /orders").unwrap().in_context("web").unwrap().enter().success();
        assert_eq!(registry.now().snapshot().resources.len(), 2);
        assert_eq!(registry.now().long().histogram().unwrap().count(), 11);
        assert_eq!(registry.lifetime().sum(Success), 11);
        assert_eq!((registry.series().read(&registry).iter().count(), registry.iter().count()), (2, 1));
        registry.clock().advance(2_000 * MS);
        assert_eq!(registry.now().poll_seconds(&RegistryCursor::new()).len(), 2);
    }

    add_up_a_registry {
        let registry = registry();
        registry.resource("GET /orders").unwrap().in_context("web").unwrap().enter().success();
        assert_eq!(registry.now().inbound().long.totals.sum(Success), 11);
    }

    leave_a_registry {
        let registry = registry();
        registry.reconfigure(NodeConfig::default());
        serve(&list(&registry, "GET /users"));
        assert!(registry.remove("GET /orders") && !registry.remove("GET /orders"));
        registry.clock().advance(Duration::from_secs(3600));
        assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::from_secs(60)), 1);
        assert_eq!((registry.iter().count(), registry.lifetime().sum(Success)), (0, 20));
    }

    keep_data_with_a_resource {
        let registry = registry();
        let orders: Resource<_> = registry.resource("GET /orders").unwrap();
        let limiter = orders.data_or_insert_with(|| ConcurrencyLimiter::new(1));
        assert!(limiter.try_acquire().is_admitted());
    }

    rotate_an_array {
        let array = LeapArray::<MetricBucket>::new(config());
        for ms in 0..3_000 {
            array.current_bucket(NOW.saturating_add(ms * MS)).add(Pass, 1);
        }
        assert_eq!(array.ledger(NOW.saturating_add(2_999 * MS)).recorded().sum(Pass), 3_000);
    }

    sum_in_a_rolling_window {
        let window = RollingWindow::<u64, _>::with_clock(config(), clock());
        window.add(7);
        assert_eq!(window.now().total().sum, 7);
    }

    count_in_a_count_window {
        let window = CountWindow::new(100).unwrap();
        window.record_success(MS);
        assert_eq!(window.totals().calls, 1);
    }

    acquire_of_a_fixed_window {
        admits(FixedWindowLimiter::with_clock(Duration::from_secs(1), 10, clock()).unwrap());
    }

    acquire_of_a_sliding_window {
        admits(SlidingWindowLimiter::of_buckets_with_clock(config(), 10, clock()).unwrap());
    }

    acquire_of_a_leaky_bucket {
        admits(LeakyBucket::with_clock(rate(), Duration::from_secs(1), clock()));
    }

    acquire_of_a_token_bucket {
        admits(TokenBucket::with_clock(rate(), 10, clock()));
    }

    acquire_of_a_warm_up {
        admits(WarmUp::with_clock(config(), 100, WarmUpConfig::default(), clock()).unwrap());
    }

    acquire_of_a_concurrency_limiter {
        admits(Arc::new(ConcurrencyLimiter::new(10)));
    }

    acquire_of_an_adaptive_limiter {
        admits(Arc::new(AdaptiveLimiter::default()));
    }

    acquire_of_an_adaptive_breaker {
        admits(Arc::new(AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock())));
    }

    acquire_of_a_circuit_breaker {
        let config = CircuitConfig::default().last_calls(100).unwrap();
        admits(Arc::new(CircuitBreaker::with_clock(config, clock())));
        admits(Arc::new(CircuitBreaker::with_clock(CircuitConfig::default(), clock())));
    }

    acquire_of_all {
        admits(AllOf::new((
            SlidingWindowLimiter::of_buckets_with_clock(config(), 10, clock()).unwrap(),
            TokenBucket::with_clock(rate(), 10, clock()),
        )));
    }

    acquire_of_a_boxed_limiter {
        admits(TokenBucket::with_clock(rate(), 10, clock()).boxed());
    }

    acquire_by_key {
        let fixed = FixedWindowLimiter::with_clock(Duration::from_secs(1), 10, clock()).unwrap();
        let fixed = Keyed::new(fixed, 10_000).unwrap();
        assert!(fixed.try_acquire(&1).is_admitted());
        let leaky = LeakyBucket::with_clock(rate(), Duration::from_secs(1), clock());
        let leaky = Keyed::new(leaky, 10_000).unwrap();
        assert!(leaky.try_acquire(&1).is_admitted());
        let token = Keyed::new(TokenBucket::with_clock(rate(), 10, clock()), 10_000).unwrap();
        assert!((0..10_000).filter(|key| token.try_acquire(key).is_admitted()).count() > 9_000);
        assert_eq!(token.top_refused(10).len(), 0);
        token.evict_at(NOW.saturating_add(Duration::from_secs(60)), usize::MAX);
    }

    acquire_of_a_limiter_per_key {
        let new = || SlidingWindowLimiter::of_buckets_with_clock(config(), 10, clock()).unwrap();
        let limiter = Keyed::new((new, clock()), 1_000).unwrap();
        assert!(limiter.try_acquire(&1).is_admitted());
    }

    wait_for_a_limiter {
        let queue = WaitQueue::new(Arc::new(ConcurrencyLimiter::new(1)));
        let permit = queue.acquire_blocking(1, Duration::ZERO).unwrap();
        assert!(queue.acquire_blocking(1, MS).is_err(), "the permit is held");
        drop(permit);
        let node = ResourceNode::with_clock(NodeConfig::default(), clock());
        queue.enter_blocking(&node, 1, Duration::ZERO).unwrap().success();
        assert_eq!(node.now().long().sum(Success), 1);
    }

    read_clocks {
        let clocks = (MonotonicClock::new(), CachedClock::new(MonotonicClock::new()));
        assert!(clocks.0.now() > Timestamp::MIN && clocks.1.now() > Timestamp::MIN);
        assert!(ForwardClock::new(MonotonicClock::new()).now() > Timestamp::MIN);
        let started = CachedClock::start(clock(), Duration::from_secs(60)).unwrap();
        assert_eq!(started.now(), NOW);
    }

    draw {
        // Any number is right.
        let _ = ThreadRandom.next_u32();
    }
}
