//! Limits on a trace, beside their references.

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{
    AllOf, BoxLimiter, BoxPermit, ConcurrencyLimiter, Decision, FixedWindowLimiter, Keyed,
    LeakyBucket, LimiterExt, Rate, SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::{ManualClock, Timestamp, WindowConfig};

use super::references::{Reference, Span};
use super::{MILLI, Request, SECOND, Shape, Tally};
use crate::queue::Queue;

/// A limit: of 200 permits in a second, or of the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// From one full second to the next.
    FixedWindow,
    /// In 10 buckets of 100 ms.
    SlidingBuckets,
    /// In any second.
    SlidingWindow,
    /// In 10 buckets of 100 ms, of a service that warms up for 10 s.
    WarmUp,
    /// With a bucket of 50.
    TokenBucket,
    /// With waits of up to 100 ms.
    LeakyBucket,
    /// 16 in flight.
    InFlight,
    /// 16 in flight, a token bucket, and any second.
    AllOf,
    /// A bucket of 10 for each key, with 10 permits in a second.
    Keyed,
}

const RATE: u64 = 200;
const BURST: u64 = 50;
const IN_FLIGHT: u64 = 16;
const MAX_WAIT: u64 = 100 * MILLI;
const OF_KEY: u64 = 10;
/// The attempts of a request that comes again.
const ATTEMPTS: u32 = 20;

/// Later than the epoch, so that no window begins before it.
pub(super) const BEGIN: u64 = 1_000 * SECOND;

enum Limiter {
    One(BoxLimiter),
    Keyed(Box<Keyed<u64, TokenBucket<ManualClock>>>),
}

impl Limiter {
    fn ask(&self, now: u64, request: &Request) -> Decision<BoxPermit> {
        let now = Timestamp::from_nanos(now);
        match self {
            Self::One(limiter) => limiter.try_acquire_at(now, request.permits),
            Self::Keyed(keyed) => keyed
                .try_acquire_at(&request.key, now, request.permits)
                .map(|permit| Box::new(permit) as BoxPermit),
        }
    }
}

impl Limit {
    /// Each limit.
    pub const ALL: [Self; 9] = [
        Self::FixedWindow,
        Self::SlidingBuckets,
        Self::SlidingWindow,
        Self::WarmUp,
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::InFlight,
        Self::AllOf,
        Self::Keyed,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "`FixedWindowLimiter`",
            Self::SlidingBuckets => "`SlidingWindowLimiter` of buckets",
            Self::SlidingWindow => "`SlidingWindowLimiter`",
            Self::WarmUp => "`WarmUp`",
            Self::TokenBucket => "`TokenBucket`",
            Self::LeakyBucket => "`LeakyBucket`",
            Self::InFlight => "`ConcurrencyLimiter`",
            Self::AllOf => "`AllOf`",
            Self::Keyed => "`Keyed`",
        }
    }

    fn build(self, clock: ManualClock) -> (Limiter, Reference) {
        const VALID: &str = "a valid limit";
        let rate = Rate::per_second(RATE).expect(VALID);
        let second = Duration::from_nanos(SECOND);
        let tenths = WindowConfig::new(10, second).expect(VALID);
        let of_buckets = |count| Span::Buckets { count, length: SECOND / count };
        let log = |span| Reference::log(RATE, span);
        let in_flight = || Reference::InFlight { limit: IN_FLIGHT, in_use: 0 };
        let (limiter, reference) = match self {
            Self::FixedWindow => {
                let limiter = FixedWindowLimiter::with_clock(second, RATE, clock).expect(VALID);
                (limiter.boxed(), log(of_buckets(1)))
            }
            Self::SlidingBuckets => {
                let limiter = SlidingWindowLimiter::of_buckets_with_clock(tenths, RATE, clock);
                (limiter.expect(VALID).boxed(), log(of_buckets(10)))
            }
            Self::SlidingWindow => {
                let limiter = SlidingWindowLimiter::with_clock(second, RATE, clock).expect(VALID);
                (limiter.boxed(), log(Span::Any(SECOND)))
            }
            Self::WarmUp => {
                let config = WarmUpConfig::default();
                let limiter = WarmUp::with_clock(tenths, RATE, config, clock).expect(VALID);
                let mut reference = log(of_buckets(10));
                // Its curve says when it refuses earlier.
                if let Reference::Log { lower, .. } = &mut reference {
                    *lower = false;
                }
                (limiter.boxed(), reference)
            }
            Self::TokenBucket => {
                let limiter = TokenBucket::with_clock(rate, BURST, clock);
                (limiter.boxed(), Reference::level(RATE, BURST))
            }
            Self::LeakyBucket => {
                let max_wait = Duration::from_nanos(MAX_WAIT);
                let limiter = LeakyBucket::with_clock(rate, max_wait, clock);
                let pace = Reference::Pace { rate: RATE, max_wait: MAX_WAIT, due: None };
                (limiter.boxed(), pace)
            }
            Self::InFlight => (Arc::new(ConcurrencyLimiter::new(IN_FLIGHT)).boxed(), in_flight()),
            Self::AllOf => {
                let token = TokenBucket::with_clock(rate, BURST, clock.clone());
                let sliding = SlidingWindowLimiter::with_clock(second, RATE, clock).expect(VALID);
                let limit = Arc::new(ConcurrencyLimiter::new(IN_FLIGHT));
                let references =
                    vec![in_flight(), Reference::level(RATE, BURST), log(Span::Any(SECOND))];
                (AllOf::new((limit, token, sliding)).boxed(), Reference::All(references))
            }
            Self::Keyed => {
                let rate = Rate::per_second(OF_KEY).expect(VALID);
                let token = TokenBucket::with_clock(rate, OF_KEY, clock);
                let keyed = Keyed::new(token, 100).expect(VALID);
                let of_key = Box::new(Reference::level(OF_KEY, OF_KEY));
                let reference = Reference::Keyed(of_key, std::collections::HashMap::new());
                return (Limiter::Keyed(Box::new(keyed)), reference);
            }
        };
        (Limiter::One(limiter), reference)
    }
}

enum Event {
    /// A request asks, and has asked this number of times.
    Ask(Request, u32),
    /// A call ends, with its permits.
    End(BoxPermit, u64),
}

/// Runs a limit on a trace.
///
/// # Panics
///
/// Panics if a bucket lets a request wait for another time than its reference.
#[must_use]
pub fn limit(limit: Limit, shape: Shape, seed: u64) -> Tally {
    let clock = ManualClock::new(Timestamp::from_nanos(BEGIN));
    let (limiter, mut reference) = limit.build(clock.clone());
    let (mut events, mut tally) = (Queue::new(), Tally::default());
    for request in shape.draw(seed) {
        events.add(BEGIN + request.at, Event::Ask(request, 1));
    }
    while let Some((now, event)) = events.next() {
        clock.set(Timestamp::from_nanos(now));
        let (request, attempt) = match event {
            Event::Ask(request, attempt) => (request, attempt),
            Event::End(permit, permits) => {
                drop(permit);
                reference.end(permits);
                continue;
            }
        };
        let expected = reference.expects(now, request.key, request.permits);
        let result = limiter.ask(now, &request).into_result();
        tally.count(result.is_ok(), expected);
        match result {
            Ok(delayed) => {
                let (permit, wait) = delayed.into_parts();
                let wait = u64::try_from(wait.as_nanos()).expect("short");
                let is_right = reference.take(now, request.key, request.permits, wait);
                assert!(
                    is_right,
                    "{limit:?}, {shape:?}, seed {seed}: a wait of {wait} ns at {now}"
                );
                events.add(now + wait + request.length, Event::End(permit, request.permits));
            }
            Err(refusal) if request.comes_again && attempt < ATTEMPTS => {
                // A limit in flight does not know when a call ends.
                let again = refusal.retry_at().map_or(now + SECOND, Timestamp::as_nanos);
                events.add(again.max(now), Event::Ask(request, attempt + 1));
            }
            Err(_) => {}
        }
    }
    tally
}
