//! Panics in user code that the crate calls: no count is lost, and no operation stays half done.

mod permits;

use std::cell::Cell;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leaparray::MetricEvent::{Block, Exception, Pass, Success};
use leaparray::array::{Bucket, LeapArray};
use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource};
use leaparray::flow::{
    AdaptiveBreaker, Decision, FixedWindowLimiter, LeakyBucket, Limiter, LimiterExt, Rate,
    SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::rolling_window::RollingWindow;
use leaparray::window::BucketTotals;
use leaparray::{
    Clock, ManualClock, MetricEvent, NodeConfig, Registry, RegistryConfig, ResourceNode,
    SlidingWindow, Timestamp, WindowConfig,
};

/// Whether `act` panics.
fn panics<R>(act: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(act)).is_err()
}

/// A clock that panics while `is_broken` is set.
#[derive(Clone)]
struct Fragile {
    clock: ManualClock,
    is_broken: Arc<AtomicBool>,
}

impl Fragile {
    fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        Self { clock, is_broken: Arc::default() }
    }

    /// Runs `act` while the clock is broken. Returns whether it panics.
    fn breaks<R>(&self, act: impl FnOnce() -> R) -> bool {
        self.is_broken.store(true, Ordering::Relaxed);
        let panicked = panics(act);
        self.is_broken.store(false, Ordering::Relaxed);
        panicked
    }
}

impl Clock for Fragile {
    fn now(&self) -> Timestamp {
        assert!(!self.is_broken.load(Ordering::Relaxed), "the clock is broken");
        self.clock.now()
    }
}

fn window_config() -> WindowConfig {
    WindowConfig::new(2, Duration::from_secs(1)).unwrap()
}

fn sums<const N: usize>(node: &ResourceNode<Fragile>, events: [MetricEvent; N]) -> [u64; N] {
    events.map(|event| node.lifetime().sum(event))
}

#[test]
fn request_whose_clock_panics_does_not_enter() {
    let clock = Fragile::new();
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    assert!(clock.breaks(|| node.enter()) && clock.breaks(|| node.block()));
    assert_eq!((sums(&node, [Pass, Block]), node.concurrency()), ([0, 0], 0));
}

#[test]
fn request_whose_clock_panics_at_its_end_ends_as_an_exception() {
    let clock = Fragile::new();
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let mut ended = 0;
    let mut ends_once = |breaks: bool| {
        ended += 1;
        let totals = node.lifetime();
        let found = (totals.sum(Success), totals.sum(Exception), totals.rt_count());
        assert!(breaks);
        assert_eq!((found, node.concurrency()), ((0, ended, 0), 0));
    };
    let entry = node.enter();
    ends_once(clock.breaks(|| entry.success()));
    let entry = node.enter();
    ends_once(clock.breaks(|| entry.exception()));
    let entry = node.enter();
    ends_once(clock.breaks(|| drop(entry)));
    // The request ends at the time at which it entered.
    let entry = node.enter();
    clock.clock.advance(Duration::from_secs(5));
    ends_once(clock.breaks(|| entry.success()));
    assert_eq!(node.now().snapshot().short.totals.sum(Exception), 0);
}

#[test]
fn entry_whose_clock_panics_reports_an_exception_to_its_controller() {
    let clock = Fragile::new();
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let breaker = AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock.clone());
    let entry = breaker.try_enter(&node).unwrap();
    // If the permit read the clock as well, the second panic would abort the process.
    assert!(clock.breaks(|| entry.success()));
    assert_eq!([Success, Exception].map(|event| breaker.window().now().sum(event)), [0, 1]);
}

#[test]
fn readings_whose_clock_panics_change_nothing() {
    let clock = Fragile::new();
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    node.enter().success();
    assert!(
        clock.breaks(|| node.now().snapshot()) && clock.breaks(|| node.now().short().qps(Pass))
    );
    assert!(
        clock.breaks(|| node.now().long().ledger())
            && clock.breaks(|| node.reserve_next_at(node.clock().now(), 1, 10))
    );
    assert_eq!((node.now().long().sum(Pass), node.now().reserved()), (1, 0));
}

#[test]
fn registry_whose_clock_panics_lists_nothing_and_keeps_no_place() {
    let clock = Fragile::new();
    let config = RegistryConfig::default().max_resources(1);
    let registry = Registry::with_clock(config, clock.clone());
    assert!(clock.breaks(|| registry.resource("orders")));
    assert_eq!((registry.len(), registry.iter().count()), (0, 0));
    let orders = registry.resource("orders").unwrap();
    assert!(clock.breaks(|| orders.in_context("web")));
    assert_eq!(orders.contexts().count(), 0);
    assert!(orders.in_context("web").is_ok());
    assert!(clock.breaks(|| registry.evict_idle_at(registry.clock().now(), Duration::ZERO)));
    assert_eq!((registry.len(), registry.refused()), (1, 0));
}

#[test]
fn limiters_whose_clock_panics_take_nothing() {
    let clock = Fragile::new();
    let rate = Rate::new(2, Duration::from_secs(1)).unwrap();
    let limiters: [Box<dyn Limiter<Permit = ()>>; 5] = [
        Box::new(TokenBucket::with_clock(rate, 2, clock.clone())),
        Box::new(LeakyBucket::with_clock(rate, Duration::from_secs(1), clock.clone())),
        Box::new(
            SlidingWindowLimiter::of_buckets_with_clock(window_config(), 2, clock.clone()).unwrap(),
        ),
        Box::new(FixedWindowLimiter::with_clock(Duration::from_secs(1), 2, clock.clone()).unwrap()),
        Box::new(
            WarmUp::with_clock(window_config(), 2, WarmUpConfig::default(), clock.clone()).unwrap(),
        ),
    ];
    for (number, limiter) in limiters.iter().enumerate() {
        for _ in 0..9 {
            assert!(clock.breaks(|| limiter.try_acquire()), "limiter {number}");
        }
        // A limiter that was never asked admits as many.
        let admitted = (0..9).filter(|_| !limiter.try_acquire().is_refused()).count();
        assert_eq!(admitted, [2, 3, 2, 2, 1][number], "limiter {number}");
    }
}

#[test]
fn limited_request_whose_clock_panics_neither_takes_a_permit_nor_enters() {
    let clock = Fragile::new();
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let limiter =
        SlidingWindowLimiter::of_buckets_with_clock(window_config(), 1, clock.clone()).unwrap();
    assert!(clock.breaks(|| limiter.enter(&node)));
    assert_eq!((node.concurrency(), limiter.quota_at(Timestamp::MIN).unwrap().remaining), (0, 1));
}

#[test]
fn window_whose_clock_panics_counts_nothing() {
    let clock = Fragile::new();
    let window = SlidingWindow::with_clock(window_config(), clock.clone());
    assert!(clock.breaks(|| window.add(Pass, 1)));
    assert!(clock.breaks(|| window.record_success(Duration::from_millis(1))));
    assert_eq!(window.lifetime().sum(Pass) + window.lifetime().sum(Success), 0);
}

/// A source of random numbers that panics.
struct NoNumbers;

impl RandomSource for NoNumbers {
    fn next_u32(&self) -> u32 {
        panic!("there are no random numbers")
    }
}

#[test]
fn breaker_whose_random_numbers_panic_counts_nothing() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let breaker = AdaptiveBreaker::with_source(AdaptiveBreakerConfig::default(), clock, NoNumbers);
    let mut panicked = 0;
    for _ in 0..1_000 {
        let decided = catch_unwind(AssertUnwindSafe(|| breaker.try_acquire()));
        match decided {
            Ok(Decision::Admitted(permit)) => permit.reject(),
            Ok(refused) => panic!("{refused:?} without a random number"),
            Err(_) => panicked += 1,
        }
    }
    assert!(panicked > 0, "no random number was drawn");
    let counted = breaker.window().lifetime();
    assert!(panics(|| breaker.try_acquire()));
    assert_eq!(breaker.window().lifetime(), counted);
}

#[test]
fn closures_that_panic_change_nothing() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let window = SlidingWindow::with_clock(window_config(), clock.clone());
    window.add(Pass, 3);
    let refuse = |_: &BucketTotals| panic!("the predicate panics");
    assert!(panics(|| window.now().buckets().filter(refuse).count()));
    assert_eq!(window.now().sum(Pass), 3);
    let rolling = RollingWindow::<u64, _>::with_clock(window_config(), clock);
    rolling.add(3);
    let refuse = |_: &_| panic!("the predicate panics");
    assert!(panics(|| rolling.now().buckets().filter(refuse).count()));
    assert_eq!(rolling.now().total().sum, 3);
}

thread_local! {
    /// The number of steps of a bucket before the step that panics; `None` if no step panics.
    static STEPS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// One step of a bucket. If no step is left before the one that panics, this step panics, and later
/// ones do not.
fn step() {
    let left = STEPS_LEFT.get();
    STEPS_LEFT.set(left.and_then(|left| left.checked_sub(1)));
    assert!(left != Some(0), "this step panics");
}

/// A bucket whose operations are steps.
struct FragileBucket(AtomicU64);

#[derive(Clone, Default)]
struct FragileSum(u64);

impl Default for FragileBucket {
    fn default() -> Self {
        step();
        Self(AtomicU64::new(0))
    }
}

impl Bucket for FragileBucket {
    type Total = FragileSum;

    fn total(&self) -> FragileSum {
        step();
        FragileSum(self.0.load(Ordering::Relaxed))
    }

    fn reset(&self) {
        step();
        self.0.store(0, Ordering::Relaxed);
        step();
    }
}

impl AddAssign<&Self> for FragileSum {
    fn add_assign(&mut self, other: &Self) {
        step();
        self.0 += other.0;
    }
}

/// Adds one at each of twelve times, one of them behind the others, and reads the ledger after each
/// add. Returns the number of adds that returned.
fn add_in_turn(array: &LeapArray<FragileBucket>) -> u64 {
    let seconds = [1, 2, 3, 3, 5, 6, 1, 7, 8, 9, 12, 13].map(Timestamp::from_secs);
    let mut added = 0;
    for now in seconds {
        let add = || {
            let _ = array.current_bucket(now).0.fetch_add(1, Ordering::Relaxed);
        };
        added += u64::from(!panics(add));
        let _ = panics(|| array.ledger(now));
    }
    added
}

#[test]
fn array_whose_bucket_panics_at_any_step_loses_nothing() {
    let config = WindowConfig::new(3, Duration::from_secs(3)).unwrap();
    let mut at = 0;
    loop {
        let array = LeapArray::<FragileBucket>::new(config);
        STEPS_LEFT.set(Some(at));
        let added = add_in_turn(&array);
        let has_panicked = STEPS_LEFT.take().is_none();
        let ledger = array.ledger(Timestamp::from_secs(13));
        let total = ledger.in_window.0 + ledger.expired.0 + ledger.late.0;
        assert_eq!(total, added, "with a panic at step {at}");
        // The array is still usable.
        array.current_bucket(Timestamp::from_secs(14)).0.fetch_add(1, Ordering::Relaxed);
        if !has_panicked {
            break;
        }
        at += 1;
    }
    assert!(at > 100, "only {at} steps");
}

/// A clock that panics when it is cloned while `is_broken` is set.
struct FragileClone {
    clock: ManualClock,
    is_broken: Arc<AtomicBool>,
}

impl Clone for FragileClone {
    fn clone(&self) -> Self {
        assert!(!self.is_broken.load(Ordering::Relaxed), "the clock cannot be cloned");
        Self { clock: self.clock.clone(), is_broken: Arc::clone(&self.is_broken) }
    }
}

impl Clock for FragileClone {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[test]
fn change_of_the_geometry_that_panics_ends() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let clock = FragileClone {
        clock: ManualClock::new(Timestamp::from_secs(60)),
        is_broken: Arc::clone(&is_broken),
    };
    let registry = Registry::with_clock(RegistryConfig::default(), clock);
    let orders = registry.resource("orders").unwrap();
    let [changed, own] = [10, 20].map(|per_second| {
        let second = WindowConfig::new(per_second, Duration::from_secs(1)).unwrap();
        let minute = WindowConfig::new(60 * per_second, Duration::from_secs(60)).unwrap();
        NodeConfig::new(second, minute).unwrap()
    });
    is_broken.store(true, Ordering::Relaxed);
    assert!(panics(|| registry.reconfigure(changed)));
    is_broken.store(false, Ordering::Relaxed);
    // The change has ended: a resource that is listed with another geometry keeps that geometry.
    assert_eq!(registry.resource_with("users", own).unwrap().config(), &own);
    registry.reconfigure(changed);
    assert_eq!(orders.config(), &changed);
}
