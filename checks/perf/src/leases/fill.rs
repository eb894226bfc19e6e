//! Limiters in the state that a case measures.

use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
use leaparray::{Clock, ManualClock, WindowConfig};
use leaparray_redis::lease::{Ask, LeaseConfig, LeaseKeys};
use leaparray_redis::{Engine, LeaseState, LeasedLimiter, MemoryEngine};
use tokio::runtime::Runtime;

use crate::scenarios::NOW;

/// The permits that a limiter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permits {
    /// More than a sample takes.
    InHand,
    /// None, and it is known when there will be some.
    Short,
}

/// Far more than a sample takes, and far less than the limit.
const PLENTY: u64 = 1 << 26;

/// Returns a limiter of one process.
pub(super) fn local<C: Clock>(
    window: WindowConfig,
    permits: Permits,
    clock: C,
) -> SlidingWindowLimiter<C> {
    let limit = match permits {
        // Tens of millions.
        Permits::InHand => SlidingWindowLimiter::max_limit(&window),
        Permits::Short => 1,
    };
    let limiter =
        SlidingWindowLimiter::of_buckets_with_clock(window, limit, clock).expect("a valid limit");
    assert!(limiter.try_acquire().is_admitted(), "there is a permit");
    limiter
}

/// Returns a limiter that has asked its server, an engine in memory. Its lease ends after five
/// buckets or more, and a shortage after a bucket.
///
/// The task of the limiter runs only here, so nothing but the requests touches the limiter
/// afterwards.
pub(super) fn leased<C: Clock + Clone + Send + Sync + 'static>(
    runtime: &Runtime,
    config: LeaseConfig,
    permits: Permits,
    clock: C,
) -> LeasedLimiter<C> {
    runtime.block_on(async {
        let server = ManualClock::new(NOW);
        let engine = MemoryEngine::with_clock(server.clone());
        let keys = LeaseKeys::new("limit", &config).expect("a valid name");
        // The first ask begins a quarantine.
        other(&engine, &keys, &config, 1, 0).await;
        server.advance(config.quarantine());
        if permits == Permits::Short {
            let granted = other(&engine, &keys, &config, 2, config.limit()).await;
            assert_eq!(granted, config.limit(), "another node has all permits");
        }
        let limiter = LeasedLimiter::builder("limit", config).with_clock(clock).start(engine);
        let limiter = limiter.expect("a runtime");
        // The request lacks permits, so the task asks for them.
        assert!(limiter.try_acquire_many(PLENTY).is_refused());
        while limiter.state() == LeaseState::Connecting {
            tokio::task::yield_now().await;
        }
        match permits {
            Permits::InHand => assert!(limiter.in_hand() >= PLENTY),
            Permits::Short => assert_eq!(limiter.in_hand(), 0),
        }
        limiter
    })
}

/// Asks for another node. Returns the permits that it is granted.
async fn other(
    engine: &impl Engine,
    keys: &LeaseKeys,
    config: &LeaseConfig,
    seq: u64,
    want: u64,
) -> u64 {
    let validity = config.validity();
    let (horizon, weight, moves) = (0, want, vec![]);
    let (epoch, seen) = (None, 0);
    let ask = Ask { node: 0, seq, nonce: seq, epoch, seen, want, validity, horizon, weight, moves };
    engine.lease(keys, config, &ask).await.expect("an engine in memory").granted
}
