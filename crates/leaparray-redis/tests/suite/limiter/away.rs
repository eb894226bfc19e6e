//! Requests while the server is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::flow::{AllOf, Ask, Decision, Limiter, LimiterExt, Reason, Refusal, Retry};
use leaparray::{Clock, ManualClock, Timestamp};
use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{LeaseState, LeasedLimiter, MemoryEngine, ShareError, StartError, WhenAway};
use tokio::time::sleep;

use crate::limiter::engine::{Network, Simulated, builder, config, opened};

#[tokio::test(start_paused = true)]
async fn closed_limiter_uses_its_lease_and_then_refuses() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    assert!(limiter.try_acquire_many(20).is_refused());
    sleep(Duration::from_millis(11)).await;
    assert!(limiter.in_hand() >= 5);
    network.set_away(true);
    assert!(limiter.try_acquire_many(5).is_admitted());
    // All leases have ended.
    sleep(Duration::from_millis(500)).await;
    assert!(limiter.try_acquire().is_refused());
    sleep(Duration::from_millis(10)).await;
    let LeaseState::Away { error, .. } = limiter.state() else { panic!("{}", limiter.state()) };
    assert_eq!(error, "the server cannot be used: connection refused");
    let refusal = limiter.acquire().await.unwrap_err();
    assert_eq!(refusal.reason, Reason::Custom("the server of the limit is away"));
    assert!(refusal.retry_at().is_some());
    network.set_away(false);
    limiter.acquire_within(Duration::from_secs(3)).await.unwrap();
    assert_eq!(limiter.state(), LeaseState::Leasing);
    assert_eq!((limiter.counts().unlimited, limiter.counts().reserved), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_answer_is_away() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    network.set_hangs(true);
    assert!(limiter.try_acquire_many(20).is_refused());
    sleep(Duration::from_millis(299)).await;
    assert_eq!(limiter.state(), LeaseState::Leasing);
    sleep(Duration::from_millis(2)).await;
    let LeaseState::Away { since, error } = limiter.state() else { panic!("{}", limiter.state()) };
    assert_eq!(error, "the server did not answer in 300ms");
    sleep(Duration::from_secs(10)).await;
    let LeaseState::Away { since: still, .. } = limiter.state() else { panic!() };
    assert_eq!(since, still);
}

#[tokio::test(start_paused = true)]
async fn asks_back_off_while_the_server_is_away() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = opened(clock, &network).await;
    network.set_away(true);
    let before = network.asks();
    for _ in 0..10_000 {
        let _ = limiter.try_acquire();
        sleep(Duration::from_millis(1)).await;
    }
    // A wait is from half a second to a second.
    let asks = network.asks() - before;
    assert!((10..=20).contains(&asks), "{asks} asks in 10 s");
}

#[tokio::test(start_paused = true)]
async fn open_limiter_admits_all_while_the_server_is_away() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = builder(clock).with_when_away(WhenAway::Open).start(network.clone()).unwrap();
    assert!(limiter.try_acquire_many(100).is_admitted(), "before the first answer");
    sleep(Duration::from_millis(20)).await;
    assert!(limiter.try_acquire_many(100).is_admitted(), "in quarantine");
    assert!(limiter.try_acquire_many(101).is_refused());
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(limiter.state(), LeaseState::Leasing);
    limiter.acquire_many(50).await.unwrap();
    assert_eq!(limiter.counts().unlimited, 200);
    network.restart();
    sleep(Duration::from_millis(500)).await;
    let _ = limiter.try_acquire();
    sleep(Duration::from_millis(11)).await;
    assert!(matches!(limiter.state(), LeaseState::Quarantine { .. }), "{}", limiter.state());
    assert_eq!(limiter.counts().new_epochs, 1);
    limiter.acquire().await.unwrap();
}

/// A refund gives back what was taken from a lease, and never what was admitted without one.
#[tokio::test(start_paused = true)]
async fn open_limiter_gives_back_what_it_has_leased() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    let limiter = builder(clock).with_when_away(WhenAway::Open).start(network.clone()).unwrap();
    let gives_back = |at: Timestamp| limiter.refund_at(at, 40, Duration::ZERO);
    let without_lease = clock.now();
    assert!(limiter.try_acquire_many(40).is_admitted(), "before the first answer");
    assert!(!gives_back(without_lease));
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(limiter.state(), LeaseState::Leasing);
    limiter.acquire_many(100).await.unwrap();
    assert!(!gives_back(without_lease), "of that time, none has a lease");
    let leased = clock.now();
    assert!(limiter.try_acquire().is_refused());
    assert!(gives_back(leased), "they are back in hand");
    assert_eq!(limiter.counts().unlimited, 40);
    assert!(limiter.try_acquire_many(40).is_admitted());
    assert_eq!(limiter.counts().unlimited, 40);
}

/// Refuses in its decision, of which no peek tells.
struct Refuses;

impl Limiter for Refuses {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::Unknown))
    }
}

/// Of a request that another limit refuses, permits of a lease are given back, and none of a
/// limiter that has admitted it without one.
#[tokio::test(start_paused = true)]
async fn refused_combination_gives_back_leases_alone() {
    let clock = Simulated::start();
    let open = || builder(clock).with_when_away(WhenAway::Open);
    let (network, unreachable) = (Network::new(clock), Network::new(clock));
    unreachable.set_away(true);
    let leased = open().start(network).unwrap();
    let away = open().start(unreachable.clone()).unwrap();
    sleep(Duration::from_millis(1_500)).await;
    leased.acquire_many(40).await.unwrap();
    assert!(leased.refund_at(clock.now(), 40, Duration::ZERO));
    let in_hand = leased.in_hand();
    let all = AllOf::new((&leased, &away, Refuses));
    for requests in 1..=10 {
        assert!(all.try_acquire_many(5).is_refused());
        assert_eq!((leased.in_hand(), leased.counts().unlimited), (in_hand, 0));
        assert_eq!((away.in_hand(), away.counts().unlimited), (0, 5 * requests));
    }
    // A request at a time ahead of the clock, whose server then comes back.
    let ahead = clock.now().saturating_add(Duration::from_secs(5));
    assert!(away.try_acquire_at(ahead, 5).is_admitted());
    unreachable.set_away(false);
    sleep(Duration::from_secs(3)).await;
    away.acquire_many(40).await.unwrap();
    let (in_hand, early) = (away.in_hand(), clock.now());
    for doubtful in [ahead, early, Timestamp::MIN] {
        assert!(!away.refund_at(doubtful, 5, Duration::ZERO), "before the end of that time");
        assert_eq!(away.in_hand(), in_hand);
    }
    sleep(Duration::from_secs(3)).await;
    away.acquire_many(40).await.unwrap();
    assert!(away.refund_at(clock.now(), 40, Duration::ZERO), "after it");
    assert!(!away.refund_at(ahead, 5, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn shares_and_leases_together_are_the_limit() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    network.set_away(true);
    let share = WhenAway::Share { part: 0.25, processes: 2 };
    let start = || builder(clock).with_when_away(share).start(network.clone()).unwrap();
    let (first, second) = (start(), start());
    assert!(first.try_acquire().is_refused(), "an earlier incarnation may have used the share");
    // n + 2 buckets, and one for the drift.
    sleep(Duration::from_millis(1_300)).await;
    assert!(first.try_acquire_many(12).is_admitted());
    assert!(first.try_acquire().is_refused());
    assert!(second.try_acquire_many(12).is_admitted());
    assert_eq!(first.counts().reserved, 12);
    network.set_away(false);
    sleep(Duration::from_secs(5)).await;
    // 76 permits are leased, and each process has its 12. The first one keeps a permit in hand.
    assert_eq!(first.quota_at(first.account().now()).unwrap().limit, 76);
    first.acquire_many(70).await.unwrap();
    sleep(Duration::from_millis(500)).await;
    let mut admitted = 0;
    let start = clock.now();
    while clock.now().saturating_since(start) < Duration::from_millis(900) {
        for limiter in [&first, &second] {
            admitted += u64::from(limiter.try_acquire().is_admitted());
        }
        sleep(Duration::from_millis(2)).await;
    }
    assert!(admitted <= 100, "{admitted}");
    assert!(admitted >= 90, "{admitted}");
}

/// The buckets of the server have other edges than those of the process, so any second counts.
#[tokio::test(start_paused = true)]
async fn share_is_used_once_in_any_window_of_the_server() {
    let clock = Simulated::start();
    let network = Network::new(clock);
    network.set_away(true);
    let share = WhenAway::Share { part: 0.5, processes: 1 };
    let limiter = builder(clock).with_when_away(share).start(network).unwrap();
    // The last millisecond of a bucket of the process.
    sleep(Duration::from_millis(5_099)).await;
    assert!(limiter.try_acquire_many(50).is_admitted());
    let start = clock.now();
    while limiter.try_acquire().is_refused() {
        sleep(Duration::from_millis(1)).await;
    }
    let after = clock.now().saturating_since(start);
    assert!((Duration::from_secs(1)..=Duration::from_millis(1_400)).contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn share_that_cannot_be_split_is_refused() {
    let clock = Simulated::start();
    let start = |part, processes| {
        let share = WhenAway::Share { part, processes };
        builder(clock).with_when_away(share).start(Network::new(clock)).map(|_| ())
    };
    for part in [0.0, 1.0, -0.5, f64::NAN] {
        let error = start(part, 2).unwrap_err();
        assert!(matches!(error, StartError::Share(ShareError::Part { .. })), "{error}");
    }
    for (part, processes) in [(0.5, 0), (0.5, 51), (0.01, 2)] {
        let error = start(part, processes).unwrap_err();
        assert!(matches!(error, StartError::Share(ShareError::TooSmall { .. })), "{error}");
    }
    assert_eq!(start(0.5, 50), Ok(()));
    assert_eq!(config().limit(), 100);
}

/// The clock of a server that steps back.
#[derive(Clone, Debug)]
struct Stepping {
    clock: ManualClock,
    behind: Arc<AtomicU64>,
}

impl Clock for Stepping {
    fn now(&self) -> Timestamp {
        let behind = self.behind.load(Ordering::Relaxed);
        Timestamp::from_micros(self.clock.now().as_micros() - behind)
    }
}

#[tokio::test(start_paused = true)]
async fn step_back_of_the_clock_of_the_server_is_a_standstill() {
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let behind = Arc::new(AtomicU64::new(0));
    let server = Stepping { clock: clock.clone(), behind: Arc::clone(&behind) };
    let builder = LeasedLimiter::builder("orders", config()).with_clock(clock.clone());
    let builder = builder.with_when_away(WhenAway::Open);
    let limiter = builder.start(MemoryEngine::with_clock(server)).unwrap();
    sleep(Duration::from_millis(1)).await;
    clock.advance(config().quarantine());
    assert!(limiter.try_acquire().is_admitted());
    sleep(Duration::from_millis(1)).await;
    assert_eq!(limiter.state(), LeaseState::Leasing);
    behind.store(20_000_000, Ordering::Relaxed);
    assert!(limiter.try_acquire_many(100).is_refused());
    sleep(Duration::from_millis(1)).await;
    let until = clock.now().saturating_add(Duration::from_secs(20));
    assert_eq!(limiter.state(), LeaseState::Standstill { until });
    // Nothing is left, and the policy decides.
    let before = limiter.counts().unlimited;
    assert!(limiter.try_acquire_many(100).is_admitted());
    assert!(limiter.try_acquire_many(100).is_admitted());
    assert!(limiter.counts().unlimited > before);
}

#[tokio::test(start_paused = true)]
async fn round_trip_longer_than_a_lease_is_told() {
    let clock = Simulated::start();
    // Leases are valid for 6 ms, and a round trip takes 10 ms.
    let config = LeaseConfig::of_buckets(100, 10, Duration::from_millis(10)).unwrap();
    let builder = LeasedLimiter::builder("orders", config).with_clock(clock);
    let limiter = builder.start(Network::new(clock)).unwrap();
    sleep(Duration::from_millis(200)).await;
    assert!(limiter.acquire().await.is_err());
    let (round_trip, lease) = (Duration::from_millis(10), Duration::from_millis(6));
    assert_eq!(limiter.state(), LeaseState::TooSlow { round_trip, lease });
}
