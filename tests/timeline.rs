//! A timeline: all parts have one clock, and the parameters with which they were asked for.

use std::time::Duration;

use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{LimitError, Limiter, Rate, SlidingWindowLimiter, WarmUpConfig};
use leaparray::{
    Clock, HistogramConfig, ManualClock, NodeConfig, RegistryConfig, Timeline, Timestamp,
    WindowConfig,
};

const SECOND: Duration = Duration::from_secs(1);

fn timeline() -> (Timeline<ManualClock>, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_secs(43_200));
    (Timeline::with_clock(clock.clone()), clock)
}

fn window(buckets: usize) -> WindowConfig {
    WindowConfig::new(buckets, SECOND).unwrap()
}

fn rate() -> Rate {
    Rate::new(10, SECOND).unwrap()
}

#[test]
fn all_parts_read_one_clock() {
    let (timeline, clock) = timeline();
    let registry = timeline.registry(RegistryConfig::default());
    let resource = registry.resource("orders").unwrap();
    let context = resource.in_context("web").unwrap();
    let node = timeline.node(NodeConfig::default());
    let sliding = timeline.window(window(10));
    let with_histogram = timeline.window_with_histogram(window(10), HistogramConfig::default());
    let rolling = timeline.rolling_window::<u64>(window(10));
    let breaker = timeline.adaptive_breaker(AdaptiveBreakerConfig::default());
    let limiters: [Box<dyn Limiter<Permit = ()>>; 5] = [
        Box::new(timeline.token_bucket(rate(), 1)),
        Box::new(timeline.leaky_bucket(rate(), SECOND)),
        Box::new(timeline.fixed_window_limiter(SECOND, 1).unwrap()),
        Box::new(timeline.bucket_window_limiter(window(10), 1).unwrap()),
        Box::new(timeline.warm_up(window(10), 1, WarmUpConfig::default()).unwrap()),
    ];
    let copy = timeline.clone();
    for _ in 0..3 {
        clock.advance(Duration::from_millis(1_500));
        let clocks = [
            timeline.clock(),
            copy.clock(),
            registry.clock(),
            resource.clock(),
            context.clock(),
            node.clock(),
            sliding.clock(),
            with_histogram.clock(),
            rolling.clock(),
            breaker.clock(),
        ];
        assert_eq!(clocks.map(ManualClock::now), [clock.now(); 10]);
        assert_eq!(limiters.each_ref().map(|limiter| limiter.account().now()), [clock.now(); 5]);
    }
}

#[test]
fn parts_have_the_parameters_of_the_call() {
    let (timeline, _) = timeline();
    let registry = timeline.registry(RegistryConfig::default().max_resources(7));
    assert_eq!(registry.max_resources(), 7);
    let finer = NodeConfig::new(window(10), WindowConfig::new(600, SECOND * 60).unwrap()).unwrap();
    assert_eq!(timeline.node(finer).config(), &finer);
    assert_eq!(timeline.window(window(4)).config(), &window(4));
    let fine = HistogramConfig::with_scale(6).unwrap();
    let sliding = timeline.window_with_histogram(window(2), fine);
    assert_eq!((sliding.config(), sliding.histogram_config()), (&window(2), Some(fine)));
    assert_eq!(timeline.rolling_window::<u64>(window(5)).config(), &window(5));
    let bucket = timeline.token_bucket(rate(), 3);
    assert_eq!((bucket.rate(), bucket.capacity()), (rate(), 3));
    let bucket = timeline.leaky_bucket(rate(), SECOND * 2);
    assert_eq!((bucket.rate(), bucket.max_wait()), (rate(), SECOND * 2));
    let limiter = timeline.fixed_window_limiter(SECOND * 3, 4).unwrap();
    assert_eq!((limiter.interval(), limiter.limit()), (SECOND * 3, 4));
    let limiter = timeline.bucket_window_limiter(window(2), 5).unwrap();
    assert_eq!((*limiter.config(), limiter.limit()), (window(2), 5));
    let limiter = timeline.warm_up(window(2), 60, WarmUpConfig::new(SECOND, 6.0).unwrap()).unwrap();
    assert_eq!((limiter.limit(), limiter.current_limit()), (60, 10), "cold");
    let config = AdaptiveBreakerConfig::default().k(3.0).unwrap();
    assert_eq!(timeline.adaptive_breaker(config).config(), config);
}

#[test]
fn errors_are_those_of_the_parts() {
    let (timeline, _) = timeline();
    assert!(matches!(
        timeline.fixed_window_limiter(Duration::ZERO, 1).unwrap_err(),
        LimitError::NoWindow(_)
    ));
    let limit = SlidingWindowLimiter::max_limit(&window(2)) + 1;
    assert!(matches!(
        timeline.bucket_window_limiter(window(2), limit).unwrap_err(),
        LimitError::TooHigh { limit: found, .. } if found == limit
    ));
    let none = timeline.warm_up(window(2), 0, WarmUpConfig::default());
    assert_eq!(none.unwrap_err(), LimitError::Zero);
}
