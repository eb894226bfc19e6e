//! A queue over each limiter of the workspace.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::adaptive::Headroom;
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::keyed::OfKey;
use leaparray::flow::{
    AdaptiveBreaker, AdaptiveLimiter, AllOf, BoxLimiter, CircuitBreaker, CircuitConfig,
    ConcurrencyLimiter, FixedWindowLimiter, Keyed, LeakyBucket, Limiter, LimiterExt, Rate, Reason,
    Retry, SlidingWindowLimiter, TokenBucket, WaitQueue, WarmUp, WarmUpConfig,
};
use leaparray::{Clock, MetricEvent, NodeConfig, ResourceNode, WindowConfig};
use leaparray_redis::{LeaseState, LeasedLimiter};
use tokio::time::sleep;

use crate::limiter::engine::{Network, Simulated, builder, opened};

const SECOND: Duration = Duration::from_secs(1);
const ROUND_TRIP: Duration = Duration::from_millis(10);

type Queue = WaitQueue<BoxLimiter>;

/// Starts a limiter of a fleet, and waits until its permits are given back and no ask is due.
async fn idle(clock: Simulated) -> LeasedLimiter<Simulated> {
    let limiter = opened(clock, &Network::new(clock)).await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!((limiter.in_hand(), limiter.state()), (0, LeaseState::Leasing));
    limiter
}

/// A limiter for each key that lends out the leases of one limit.
async fn leases_of_key(clock: Simulated) -> BoxLimiter {
    let limiter = idle(clock).await;
    let limit = (move || limiter.clone(), clock);
    let keyed = Keyed::<u64, _>::new(limit, 10).unwrap();
    OfKey::new(Arc::new(keyed), Box::new(7)).boxed()
}

/// A queue over each limiter of the workspace, idle, with the wait of its first request.
async fn queues(clock: Simulated) -> Vec<(&'static str, Queue, Duration)> {
    let rate = Rate::per_second(10).unwrap();
    let window = WindowConfig::new(10, SECOND).unwrap();
    let sliding = SlidingWindowLimiter::of_buckets_with_clock(window, 10, clock).unwrap();
    let fixed = FixedWindowLimiter::with_clock(SECOND, 10, clock).unwrap();
    let warm_up = WarmUp::with_clock(window, 300, WarmUpConfig::default(), clock).unwrap();
    let adaptive = AdaptiveLimiter::with_clock(Headroom::default(), clock);
    let breaker = AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock);
    let circuit = CircuitBreaker::with_clock(CircuitConfig::default(), clock);
    let token = || TokenBucket::with_clock(rate, 10, clock);
    let keyed = TokenBucket::with_clock(rate, 10, clock);
    let keyed = Keyed::<u64, _>::new(keyed, 10).unwrap();
    let at_once = [
        ("token bucket", token().boxed()),
        ("leaky bucket", LeakyBucket::with_clock(rate, SECOND, clock).boxed()),
        ("sliding window", sliding.boxed()),
        ("fixed window", fixed.boxed()),
        ("warm-up", warm_up.boxed()),
        ("concurrency", Arc::new(ConcurrencyLimiter::new(10)).boxed()),
        ("adaptive limit", Arc::new(adaptive).boxed()),
        ("adaptive breaker", Arc::new(breaker).boxed()),
        ("circuit breaker", Arc::new(circuit).boxed()),
        ("key", OfKey::new(Arc::new(keyed), Box::new(7)).boxed()),
        ("queue", WaitQueue::new(token()).boxed()),
        ("all of two", AllOf::new((token(), token())).boxed()),
    ];
    let after_an_answer = [
        ("leases", idle(clock).await.boxed()),
        ("leases behind a reference", Arc::new(idle(clock).await).boxed()),
        ("leases with a name", idle(clock).await.named("orders").boxed()),
        ("leases in a queue", WaitQueue::new(idle(clock).await).boxed()),
        ("leases and a bucket", AllOf::new((token(), idle(clock).await)).boxed()),
        ("list with leases", AllOf::new(vec![token().boxed(), idle(clock).await.boxed()]).boxed()),
        ("leases of a key", leases_of_key(clock).await),
    ];
    let queue = |wait| move |(name, limiter)| (name, WaitQueue::new(limiter), wait);
    let at_once = at_once.into_iter().map(queue(Duration::ZERO));
    at_once.chain(after_an_answer.into_iter().map(queue(ROUND_TRIP))).collect()
}

#[tokio::test(start_paused = true)]
async fn first_request_waits_for_no_more_than_an_answer() {
    let clock = Simulated::start();
    for (name, queue, wait) in queues(clock).await {
        let start = clock.now();
        let permit = queue.acquire_with(1, 10 * SECOND, sleep).await;
        assert_eq!(permit.map(drop), Ok(()), "{name}");
        assert_eq!(clock.now().saturating_since(start), wait, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn first_request_enters_a_node_after_no_more_than_an_answer() {
    let clock = Simulated::start();
    for (name, queue, wait) in queues(clock).await {
        let (node, start) = (ResourceNode::with_clock(NodeConfig::default(), clock), clock.now());
        let entry = queue.enter_with(&node, 1, 10 * SECOND, sleep).await.expect(name);
        assert_eq!(clock.now().saturating_since(start), wait, "{name}");
        entry.success();
        assert_eq!(node.now().long().sum(MetricEvent::Success), 1, "{name}");
    }
}

/// The requests behind the first one wait for it, and not for their timeouts.
#[tokio::test(start_paused = true)]
async fn requests_at_the_same_time_are_all_admitted() {
    let clock = Simulated::start();
    for (name, queue, wait) in queues(clock).await {
        let (queue, start) = (Arc::new(queue), clock.now());
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move {
                    let permit = queue.acquire_with(1, 10 * SECOND, sleep).await;
                    permit.map(drop)
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Ok(()), "{name}");
        }
        // A leaky bucket lets one through each 100 ms; the others have 10 permits.
        let most = Duration::from_millis(200).max(3 * wait);
        assert!(clock.now().saturating_since(start) <= most, "{name}");
        assert_eq!(queue.waiting(), 0, "{name}");
    }
}

/// A request of a queue asks the server once, for as much as a request that does not wait.
#[tokio::test(start_paused = true)]
async fn request_of_a_queue_is_demand_once() {
    let clock = Simulated::start();
    let networks = [(); 2].map(|()| Network::new(clock));
    let [direct, waits] = [opened(clock, &networks[0]).await, opened(clock, &networks[1]).await];
    sleep(Duration::from_secs(120)).await;
    let before = [direct.counts().granted, waits.counts().granted];
    let asks = networks[1].asks();
    assert!(direct.try_acquire_many(4).is_refused());
    let queue = WaitQueue::new(waits.clone());
    queue.acquire_with(4, 10 * SECOND, sleep).await.unwrap();
    sleep(ROUND_TRIP / 2).await;
    assert!(direct.try_acquire_many(4).is_admitted());
    assert_eq!(networks[1].asks() - asks, 1);
    let granted = [direct.counts().granted - before[0], waits.counts().granted - before[1]];
    assert_eq!(granted[0], granted[1]);
}

/// A permit that is given back, or a recheck, is no further demand while an answer is to come.
#[tokio::test(start_paused = true)]
async fn request_that_waits_for_an_answer_is_demand_once() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(120)).await;
    let (queue, before) = (Arc::new(WaitQueue::new(limiter)), network.asks());
    let request = {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.acquire_with(1, 10 * SECOND, sleep).await.map(drop) })
    };
    for _ in 0..4 {
        sleep(ROUND_TRIP / 5).await;
        queue.recheck();
    }
    assert_eq!((request.await.unwrap(), network.asks() - before), (Ok(()), 1));
    sleep(2 * ROUND_TRIP).await;
    assert_eq!(network.asks() - before, 1);
}

/// A limiter that was closed between the question and the registration wakes none.
#[tokio::test(start_paused = true)]
async fn closed_limiter_has_no_answer_to_come() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(120)).await;
    network.set_hangs(true);
    assert_eq!(limiter.try_acquire().refusal().unwrap().retry(), Retry::OnAnswer);
    assert!(limiter.account().wake_on_answer(Waker::noop()));
    limiter.close().await;
    assert!(!limiter.account().wake_on_answer(Waker::noop()));
}

/// A combination that refuses while an ask is in flight tells the limiter of its demand, as a
/// direct request does.
#[tokio::test(start_paused = true)]
async fn requests_to_a_combination_are_demand() {
    let mut admitted = [0; 2];
    for is_combined in [false, true] {
        let clock = Simulated::start();
        let limiter = opened(clock, &Network::new(clock)).await;
        let rate = Rate::per_second(1_000).unwrap();
        let both = AllOf::new((limiter.clone(), TokenBucket::with_clock(rate, 1_000, clock)));
        // Bursts of 50 requests, each a millisecond after the one before.
        for _ in 0..20 {
            sleep(Duration::from_secs(10)).await;
            for _ in 0..50 {
                let is_admitted = if is_combined {
                    both.try_acquire().is_admitted()
                } else {
                    limiter.try_acquire().is_admitted()
                };
                admitted[usize::from(is_combined)] += u32::from(is_admitted);
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
    assert!(admitted[0] > 500, "{admitted:?}");
    assert_eq!(admitted[0], admitted[1]);
}

/// A limiter that has not heard from the server yet has asked it, and its quarantine is known.
#[tokio::test(start_paused = true)]
async fn queue_over_a_new_limit_waits_for_its_quarantine() {
    let clock = Simulated::start();
    let limiter = builder(clock).start(Network::new(clock)).unwrap();
    assert_eq!(limiter.state(), LeaseState::Connecting);
    let (queue, start) = (WaitQueue::new(limiter), clock.now());
    queue.acquire_with(1, 10 * SECOND, sleep).await.unwrap();
    let waited = clock.now().saturating_since(start);
    // The server opens 1.4 s after the first ask has arrived. Timers have steps of a millisecond.
    assert_eq!(waited, Duration::from_millis(1_413));
}

#[tokio::test(start_paused = true)]
async fn queue_waits_for_a_server_that_is_away_until_its_timeout() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(120)).await;
    network.set_away(true);
    let (queue, start) = (Arc::new(WaitQueue::new(limiter)), clock.now());
    let refusal = queue.acquire_with(1, 2 * SECOND, sleep).await.unwrap_err();
    assert_eq!(refusal.reason, Reason::WaitTooLong);
    let waited = clock.now().saturating_since(start);
    // A request whose next ask would be after its timeout need not wait for it.
    assert!(waited > SECOND && waited <= 2 * SECOND, "{waited:?}");
    let request = {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.acquire_with(1, 10 * SECOND, sleep).await.map(drop) })
    };
    sleep(SECOND).await;
    network.set_away(false);
    assert_eq!(request.await.unwrap(), Ok(()));
}

/// A closed limiter wakes the requests that wait for an answer.
#[tokio::test(start_paused = true)]
async fn closed_limiter_refuses_the_requests_of_a_queue() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    sleep(Duration::from_secs(120)).await;
    network.set_hangs(true);
    let queue = Arc::new(WaitQueue::new(limiter.clone()));
    let request = {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.acquire_with(1, 3_600 * SECOND, sleep).await.map(drop) })
    };
    sleep(ROUND_TRIP).await;
    assert_eq!(queue.waiting(), 1);
    limiter.close().await;
    let refusal = request.await.unwrap().unwrap_err();
    assert_eq!(refusal.reason, Reason::Custom("the limiter is closed"));
}
