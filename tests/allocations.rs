//! A busy window, a node, the reads of a registry and a limiter allocate nothing in steady state,
//! also when the bucket changes. A warm-up allocates its state once for each bucket.
//!
//! This is a separate file because the profiler counts the allocations of the whole process.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::flow::{
    LeakyBucket, Limiter, LimiterExt, Rate, SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::node::SecondsCursor;
use leaparray::registry::{RegistryCursor, RegistrySnapshot, ResourceSecond};
use leaparray::{
    HistogramConfig, LatencyHistogram, ManualClock, MetricEvent, NodeConfig, Registry,
    RegistryConfig, Resource, ResourceNode, SlidingWindow, Timestamp, WindowConfig,
};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const BUCKET: Duration = Duration::from_millis(1);

fn window(samples: u32) -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(samples as usize, BUCKET * samples).unwrap();
    SlidingWindow::with_clock(config, ManualClock::new(Timestamp::MIN))
}

fn window_with_histogram(samples: u32) -> SlidingWindow<ManualClock> {
    let config = WindowConfig::new(samples as usize, BUCKET * samples).unwrap();
    let clock = ManualClock::new(Timestamp::MIN);
    SlidingWindow::with_histogram(config, HistogramConfig::default(), clock)
}

/// Records in `buckets` new buckets, one after the other, and reads.
fn rotate(window: &SlidingWindow<ManualClock>, buckets: u64) {
    for _ in 0..buckets {
        window.clock().advance(BUCKET);
        window.add(MetricEvent::Pass, 1);
        window.record_success(Duration::from_micros(3));
        assert_eq!(window.now().sum(MetricEvent::Pass), window.now().sum(MetricEvent::Success));
        assert!(
            window.now().qps(MetricEvent::Pass) > 0.0 && window.now().totals().avg_rt().is_some()
        );
    }
}

/// Records response times in `buckets` new buckets, and reads the histograms into `histogram`.
fn rotate_bins(
    window: &SlidingWindow<ManualClock>,
    histogram: &mut LatencyHistogram,
    buckets: u64,
) {
    for _ in 0..buckets {
        window.clock().advance(BUCKET);
        // In several blocks of bins.
        for shift in 0..40 {
            window.record_success(Duration::from_nanos(3 << shift));
        }
        assert!(window.now().histogram_into(histogram) && histogram.count() >= 40);
        assert!(window.now().quantiles([0.5, 0.9, 0.99, 0.999]).iter().all(Option::is_some));
    }
}

/// Records in every bucket on this thread, and then in one of `every` buckets on another thread,
/// whose cell stays bound to its bucket while the first thread goes on by `every` buckets. Returns
/// how much `measure` grows in steady state.
fn rotate_on_two_threads(
    window: &SlidingWindow<ManualClock>,
    every: u64,
    measure: impl Fn() -> u64,
) -> u64 {
    let turn = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            for round in 0..200 {
                turn.wait();
                if round % every == 0 {
                    window.add(MetricEvent::Pass, 1);
                }
                turn.wait();
            }
        });
        let (mut before, mut after) = (0, 0);
        for round in 0..200 {
            match round {
                100 => before = measure(),
                // Not after the last round: the other thread ends then, and abandons its cell.
                199 => after = measure(),
                _ => {}
            }
            rotate(window, 1);
            turn.wait();
            turn.wait();
            if round % every == 0 {
                // As many successes as passes, as the next `rotate` asserts.
                window.record_success(Duration::ZERO);
            }
        }
        other.join().unwrap();
        after - before
    })
}

/// Enters and ends requests in `buckets` new buckets, and reads a snapshot and the seconds in each.
fn enter_and_look(node: &ResourceNode<ManualClock>, cursor: &SecondsCursor, buckets: u32) {
    for _ in 0..buckets {
        node.clock().advance(Duration::from_millis(500));
        let entry = node.enter();
        node.enter().success();
        node.block();
        let snapshot = node.now().snapshot();
        assert_eq!((snapshot.concurrency, snapshot.short.totals.max_concurrency()), (1, Some(2)));
        entry.exception();
        assert!(node.now().poll_seconds(cursor).count() <= 1);
    }
}

/// Enters and ends a request in `buckets` new buckets, and reads quantiles in each.
fn read_quantiles(node: &ResourceNode<ManualClock>, buckets: u32) {
    for _ in 0..buckets {
        let entry = node.enter();
        node.clock().advance(Duration::from_millis(500));
        entry.success();
        assert!(
            node.now().snapshot().long.quantiles.is_some()
                && node.now().long().quantile(0.5).is_some()
        );
    }
}

#[test]
fn steady_state_allocates_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let blocks = || dhat::HeapStats::get().total_blocks;
    // The test harness's own thread allocates for a while after it has started this one.
    rotate(&window(2), 20_000);
    for samples in [1, 2, 10, 120] {
        let window = window(samples);
        // After this, every slot has a row, and there is memory for two more publications.
        rotate(&window, 2 * u64::from(samples) + 2);
        let before = blocks();
        rotate(&window, 1_000);
        assert_eq!(blocks() - before, 0, "blocks allocated with {samples} buckets");
    }
    for samples in [1, 2, 10] {
        let window = window_with_histogram(samples);
        let mut histogram = LatencyHistogram::default();
        rotate_bins(&window, &mut histogram, 2 * u64::from(samples) + 2);
        let before = blocks();
        rotate_bins(&window, &mut histogram, 300);
        assert_eq!(blocks() - before, 0, "blocks allocated with {samples} buckets and a histogram");
    }
    for samples in [1, 2, 10] {
        let window = window(samples);
        for every in [1, 3] {
            let allocated = rotate_on_two_threads(&window, every, blocks);
            assert_eq!(allocated, 0, "blocks allocated with {samples} buckets, every {every}");
        }
    }
    let clock = ManualClock::new(Timestamp::MIN);
    let node = ResourceNode::with_clock(NodeConfig::default(), clock);
    let cursor = SecondsCursor::new();
    enter_and_look(&node, &cursor, 250);
    let before = blocks();
    enter_and_look(&node, &cursor, 1_000);
    assert_eq!(blocks() - before, 0, "blocks allocated by a node");
    let config = NodeConfig::default().with_histogram(HistogramConfig::default());
    let node = ResourceNode::with_clock(config, ManualClock::new(Timestamp::MIN));
    read_quantiles(&node, 250);
    let before = blocks();
    read_quantiles(&node, 500);
    assert_eq!(blocks() - before, 0, "blocks allocated by a node with a histogram");
    let registry = registry_of_many();
    let mut snapshot = RegistrySnapshot::default();
    registry.now().snapshot_into(&mut snapshot);
    let before = blocks();
    for _ in 0..10 {
        registry.now().snapshot_into(&mut snapshot);
        assert_eq!(snapshot.resources.len(), 200);
    }
    assert_eq!(blocks() - before, 0, "blocks allocated by a snapshot of a registry");
    let (cursor, mut seconds) = (RegistryCursor::new(), Vec::new());
    let held = registry.resource("removed").unwrap();
    assert!(registry.remove("removed"));
    poll_each_second(&registry, &held, &cursor, &mut seconds, 70);
    let before = blocks();
    poll_each_second(&registry, &held, &cursor, &mut seconds, 200);
    assert_eq!(blocks() - before, 0, "blocks allocated by a poll of a registry");
    let limiters = limiters();
    let before = blocks();
    decide(&limiters, 1_000);
    assert_eq!(blocks() - before, 0, "blocks allocated by a decision");
    let second = WindowConfig::new(10, Duration::from_secs(1)).unwrap();
    let warm_up: [Box<dyn Limiter<Permit = ()>>; 1] =
        [Box::new(WarmUp::new(second, 9, WarmUpConfig::default()).unwrap())];
    // The first bucket of the decisions closes a bucket of the past.
    decide(&warm_up, 1);
    let before = blocks();
    decide(&warm_up, 1_000);
    assert_eq!(blocks() - before, 999, "blocks allocated by a warm-up");
}

/// A registry of 100 resources, each with a context.
fn registry_of_many() -> Registry<ManualClock> {
    let clock = ManualClock::new(Timestamp::MIN);
    let registry = Registry::with_clock(RegistryConfig::default(), clock);
    for number in 0..100 {
        let resource = registry.resource(&number.to_string()).unwrap();
        resource.in_context("web").unwrap().block();
    }
    registry
}

/// Records in a removed resource and in all listed ones in each of `secs` seconds, and polls the
/// seconds.
fn poll_each_second(
    registry: &Registry<ManualClock>,
    removed: &Resource<ManualClock>,
    cursor: &RegistryCursor,
    seconds: &mut Vec<ResourceSecond>,
    secs: u32,
) {
    const NAMES: [&str; 3] = ["1", "2", "3"];
    for _ in 0..secs {
        for name in NAMES {
            registry.resource(name).unwrap().block();
        }
        removed.block();
        registry.clock().advance(Duration::from_secs(1));
        registry.now().poll_seconds_into(cursor, seconds);
        assert!(seconds.len() > NAMES.len());
    }
}

fn limiters() -> [Box<dyn Limiter<Permit = ()>>; 3] {
    let second = WindowConfig::new(10, Duration::from_secs(1)).unwrap();
    let rate = Rate::new(7, Duration::from_secs(1)).unwrap();
    [
        Box::new(SlidingWindowLimiter::of_buckets(second, 3).unwrap()),
        Box::new(TokenBucket::new(rate, 3)),
        Box::new(LeakyBucket::new(rate, Duration::from_millis(200))),
    ]
}

/// Asks each limiter for more permits than it has, in `buckets` buckets.
fn decide(limiters: &[Box<dyn Limiter<Permit = ()>>], buckets: u64) {
    for bucket in 0..buckets {
        let now = Timestamp::from_millis(60_000 + bucket * 100);
        for limiter in limiters {
            let asked = [(); 5].map(|()| limiter.try_acquire_at(now, 1).is_admitted());
            assert!(asked.contains(&false));
        }
    }
}
