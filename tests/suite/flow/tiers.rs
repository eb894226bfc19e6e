//! Several limiters over one node, each for some of its requests.

use std::sync::Arc;

use leaparray::flow::adaptive::Headroom;
use leaparray::flow::keyed::OfKey;
use leaparray::flow::{
    AdaptiveLimiter, AllOf, BoxLimiter, ConcurrencyLimiter, FixedWindowLimiter, Keyed, LeakyBucket,
    LimiterExt, SlidingWindowLimiter, TokenBucket, WaitQueue, WarmUp, WarmUpConfig,
};
use leaparray::{Clock, Entry, ManualClock, MetricEvent, NodeConfig, ResourceNode, WindowConfig};

use super::{at, ms, rate};

/// Returns a limiter of each kind, by its name, that admits at least 5 requests at first. A cold
/// service admits a third of its limit, evenly.
fn limiters(clock: &ManualClock) -> Vec<(&'static str, BoxLimiter)> {
    let second = WindowConfig::new(10, ms(1_000)).unwrap();
    let clock = || clock.clone();
    let sliding = || SlidingWindowLimiter::of_buckets_with_clock(second, 10, clock()).unwrap();
    let fixed = FixedWindowLimiter::with_clock(ms(1_000), 10, clock()).unwrap();
    let warm_up = WarmUp::with_clock(second, 300, WarmUpConfig::default(), clock()).unwrap();
    let keyed = TokenBucket::with_clock(rate(10, 1_000), 10, clock());
    let keyed = Keyed::<u64, _>::new(keyed, 10).unwrap();
    let adaptive = AdaptiveLimiter::with_clock(Headroom::default(), clock());
    vec![
        ("sliding window", sliding().boxed()),
        ("fixed window", fixed.boxed()),
        ("warm-up", warm_up.boxed()),
        ("token bucket", TokenBucket::with_clock(rate(10, 1_000), 10, clock()).boxed()),
        ("leaky bucket", LeakyBucket::with_clock(rate(10, 1), ms(10), clock()).boxed()),
        ("concurrency", Arc::new(ConcurrencyLimiter::new(10)).boxed()),
        ("adaptive limit", Arc::new(adaptive).boxed()),
        ("key", OfKey::new(Arc::new(keyed), Box::new(7)).boxed()),
        ("all of two", AllOf::new((sliding(), sliding())).boxed()),
        ("queue", WaitQueue::new(sliding()).boxed()),
    ]
}

/// Members enter without a limit, or with a limiter of their own of any kind. The limiter of the
/// guests admits as many as if it were alone.
#[test]
fn requests_of_one_tier_are_not_counted_in_another() {
    let clock = ManualClock::new(at(60_000));
    let members = limiters(&clock);
    for of_members in members.iter().map(Some).chain([None]) {
        for (name, guests) in limiters(&clock) {
            let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
            let mut entries = Vec::new();
            for _ in 0..18 {
                match of_members {
                    Some((_, limiter)) => entries.extend(limiter.try_enter(&node)),
                    None => node.enter().success(),
                }
            }
            let before = node.now().long().sum(MetricEvent::Pass);
            let admitted = (0..5).filter(|_| !guests.enter(&node).is_refused()).count();
            let of_members = of_members.map_or("no limit", |(name, _)| name);
            assert_eq!(admitted, 5, "{name}, members: {of_members}");
            drop(entries);
            assert!(before > 0 && node.now().long().sum(MetricEvent::Pass) > before);
            clock.advance(ms(60_000));
        }
    }
}

/// Counting the other passes is what a limiter is told to do.
#[test]
fn limiter_with_node_passes_counts_other_tiers() {
    let clock = ManualClock::new(at(60_000));
    let second = WindowConfig::new(2, ms(1_000)).unwrap();
    let sliding = SlidingWindowLimiter::of_buckets_with_clock(second, 10, clock.clone()).unwrap();
    let fixed = FixedWindowLimiter::with_clock(ms(1_000), 10, clock.clone()).unwrap();
    for limiter in [sliding.with_node_passes().boxed(), fixed.with_node_passes().boxed()] {
        let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
        Entry::enter_many_at(&node, node.clock().now(), 8).success();
        assert_eq!((0..5).filter(|_| limiter.enter(&node).is_admitted()).count(), 2);
        // The passes of the others do not remain.
        let quota = limiter.quota_at(at(60_000)).unwrap();
        assert_eq!((quota.remaining, quota.reset), (0, Some(at(61_000))));
        let quota = limiter.quota_at(at(60_500)).unwrap();
        assert_eq!((quota.remaining, quota.reset), (0, Some(at(61_000))), "all are in the window");
        assert_eq!(limiter.quota_at(at(61_000)).unwrap().remaining, 10);
    }
}
