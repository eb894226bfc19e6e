//! Any limiter as the limit of a key.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::adaptive::{Aimd, LimitRange};
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::priority::{Classes, OfClass};
use leaparray::flow::settle::{PerRequest, Settling};
use leaparray::flow::shadow::{Mode, Shadow};
use leaparray::flow::{
    Account, AdaptiveBreaker, AdaptiveLimiter, AllOf, Ask, BoxLimiter, CircuitBreaker,
    CircuitConfig, ConcurrencyLimiter, Decision, FixedWindowLimiter, Keyed, LeakyBucket, Limiter,
    LimiterExt, Quota, SlidingWindowLimiter, TokenBucket, WaitQueue, WarmUp, WarmUpConfig,
};
use leaparray::{ManualClock, Outcome, Permit, Timestamp, WindowConfig};

use super::keyed;
use crate::flow::{at, ms, rate};

#[test]
fn key_with_a_permit_in_flight_is_not_evicted() {
    let limit = || ConcurrencyLimiter::new(2);
    let limiter = keyed!(limit, 1, Duration::ZERO);
    let permit = limiter.try_acquire_at(&1, at(60_000), 1).at_once().unwrap();
    assert_eq!(limiter.evict_at(at(90_000), 10), 0);
    assert!(limiter.try_acquire_at(&2, at(90_000), 1).is_refused(), "no place");
    assert!(limiter.try_acquire_at(&1, at(90_000), 2).is_refused(), "one is in flight");
    drop(permit);
    assert_eq!(limiter.evict_at(at(90_000), 10), 1);
}

#[test]
fn window_is_evicted_once_its_permits_have_left() {
    let make = || {
        let window = WindowConfig::new(10, ms(1_000)).unwrap();
        SlidingWindowLimiter::of_buckets(window, 5).unwrap().with_max_lead(Duration::MAX)
    };
    let limiter = keyed!(make, 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, at(60_050), 5).is_admitted());
    let evicted = [60_999, 61_000].map(|now| limiter.evict_at(at(now), 10));
    assert_eq!(evicted, [0, 1], "bucket 60.0 s leaves at 61.0 s");
}

#[test]
fn stale_request_of_an_evicted_limiter_is_decided_at_the_time_of_the_eviction() {
    let make = || TokenBucket::new(rate(1, 100), 5).with_max_lead(Duration::MAX);
    let limiter = keyed!(make, 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, at(60_000), 5).is_admitted());
    assert_eq!(limiter.evict_at(at(60_500), 10), 1);
    assert!(limiter.try_acquire_at(&1, at(60_000), 5).is_admitted(), "at 60.5 s");
    assert!(limiter.try_acquire_at(&1, at(60_500), 1).is_refused());
}

/// Asks for all 5 permits of a key twice at one time, with an examination in between at a time that
/// only the keyed limiter's lead covers.
fn expect_no_eviction_beyond_the_lead<L>(make: impl Fn(ManualClock) -> L + Send + Sync + 'static)
where
    Arc<L>: Limiter,
{
    let clock = ManualClock::new(at(60_000));
    let of_clock = clock.clone();
    let make = move || make(of_clock.clone());
    let limiter = Keyed::<u64, _>::new((make, clock), 10)
        .unwrap()
        .with_keep(Duration::ZERO)
        .with_max_lead(ms(60_000));
    let ask = || limiter.try_acquire_at(&1, at(60_000), 5).is_admitted();
    assert!(ask());
    assert_eq!(limiter.evict_at(at(120_000), 10), 0, "requests at 120 s are decided at 61 s");
    assert!(!ask());
}

#[test]
fn limiter_with_a_shorter_lead_is_as_new_by_its_own_times() {
    expect_no_eviction_beyond_the_lead(|clock| TokenBucket::with_clock(rate(1, 1_000), 5, clock));
    expect_no_eviction_beyond_the_lead(|clock| {
        let window = WindowConfig::new(2, ms(10_000)).unwrap();
        SlidingWindowLimiter::of_buckets_with_clock(window, 5, clock).unwrap()
    });
    expect_no_eviction_beyond_the_lead(|clock| {
        FixedWindowLimiter::with_clock(ms(10_000), 5, clock).unwrap()
    });
}

#[test]
fn window_that_has_refused_in_a_later_bucket_is_not_evicted_before() {
    let make = || {
        let window = WindowConfig::new(2, ms(2_000)).unwrap();
        SlidingWindowLimiter::of_buckets(window, 5).unwrap().with_max_lead(Duration::MAX)
    };
    let limiter = keyed!(make, 10, Duration::ZERO);
    let ask = |now, permits| limiter.try_acquire_at(&1, at(now), permits).is_admitted();
    assert!(ask(99_000, 5));
    assert!(!ask(101_000, 6), "but the window of bucket 101 has begun");
    assert_eq!([99_500, 100_999].map(|now| limiter.evict_at(at(now), 10)), [0, 0]);
    assert!(ask(99_600, 5), "in bucket 101");
    assert!(!ask(101_000, 1));
    assert!(limiter.evict_at(at(103_000), 10) == 1);
}

/// A pace of which no request asks for more than three permits.
struct UpToThree(LeakyBucket);

impl Limiter for UpToThree {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.0.decide(ask)
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for UpToThree {
    fn is_as_new(&self, now: Timestamp) -> bool {
        self.0.peek_at(now, 3) == Some(Decision::Admitted(()))
    }
}

/// Asks once for a key at 60 s, ends the request, and returns the first of some times at which the
/// key is evicted.
macro_rules! evicted_at {
    ($make:expr, $outcome:expr, $times:expr) => {{
        let limiter = keyed!($make, 10, Duration::ZERO);
        {
            let mut permit = limiter.try_acquire_at(&1, at(60_000), 1).at_once().unwrap();
            Permit::end_at(&mut permit, at(60_000), $outcome);
        }
        $times.into_iter().find(|&now| limiter.evict_at(at(now), 10) > 0)
    }};
}

#[test]
fn leaky_bucket_is_as_new_once_a_request_goes_ahead_at_once() {
    let make = || LeakyBucket::new(rate(1, 100), ms(0)).with_max_lead(Duration::MAX);
    assert_eq!(evicted_at!(make, Outcome::Success, [60_099, 60_100]), Some(60_100));
}

/// A second for the permit to leave the window, and then 2 / (1 + 3) of the period.
#[test]
fn warm_up_is_as_new_once_it_is_cold() {
    let make = || {
        let window = WindowConfig::new(10, ms(1_000)).unwrap();
        let config = WarmUpConfig::new(ms(2_000), 3.0).unwrap();
        WarmUp::new(window, 100, config).unwrap().with_max_lead(Duration::MAX)
    };
    let times = (60_000..70_000).step_by(100);
    assert_eq!(evicted_at!(make, Outcome::Success, times), Some(61_000));
    // Warm, at full demand for 3 s.
    let limiter = keyed!(make, 10, Duration::ZERO);
    for now in (60_000..63_000).step_by(100) {
        while limiter.try_acquire_at(&1, at(now), 1).is_admitted() {}
    }
    let evicted = (63_000..70_000).step_by(100).find(|&now| limiter.evict_at(at(now), 10) > 0);
    // The last permits and refusals leave the window at 63.9 s, and the tokens take a second.
    assert_eq!(evicted, Some(64_900));
}

#[test]
fn circuit_breaker_is_as_new_once_it_is_closed_and_counts_no_call() {
    let clock = ManualClock::new(at(60_000));
    let make = |config| {
        let clock = clock.clone();
        move || CircuitBreaker::with_clock(config, clock.clone()).with_max_lead(Duration::MAX)
    };
    let config = CircuitConfig::default();
    let times = [69_999, 70_000, 80_000];
    for outcome in [Outcome::Success, Outcome::Exception] {
        assert_eq!(evicted_at!(make(config), outcome, times), Some(70_000), "the window");
    }
    let in_a_row = make(config.consecutive_exceptions(2));
    assert_eq!(evicted_at!(in_a_row.clone(), Outcome::Success, times), Some(70_000));
    assert_eq!(evicted_at!(in_a_row, Outcome::Exception, times), None, "one in a row");
    let opens = make(config.consecutive_exceptions(1));
    assert_eq!(evicted_at!(opens, Outcome::Exception, times), None, "open");
    let last = make(config.last_calls(5).unwrap());
    assert_eq!(evicted_at!(last, Outcome::Success, times), None, "one of the last five");
}

#[test]
fn adaptive_breaker_is_as_new_once_no_request_counts() {
    let make = |config| move || AdaptiveBreaker::new(config);
    let times = [69_999, 70_000, 80_000];
    let config = AdaptiveBreakerConfig::default();
    for outcome in [Outcome::Success, Outcome::Exception] {
        assert_eq!(evicted_at!(make(config), outcome, times), Some(70_000), "the window");
    }
}

#[test]
fn limiter_without_a_quota_is_as_new_when_it_says_so() {
    let make = || LeakyBucket::new(rate(1, 100), ms(0)).with_max_lead(Duration::MAX);
    let limiter = keyed!(|| UpToThree(make()), 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, at(60_000), 1).is_admitted());
    assert_eq!([60_299, 60_300].map(|now| limiter.evict_at(at(now), 10)), [0, 1]);
}

#[test]
fn keys_have_limiters_of_different_kinds() {
    // One kind for each call: the kinds of a map need not be those of its keys.
    let limit = || -> BoxLimiter { Arc::new(ConcurrencyLimiter::new(1)).boxed() };
    let limiter = keyed!(limit, 10, Duration::ZERO);
    let permit = limiter.try_acquire_at(&1, at(60_000), 1).at_once().unwrap();
    assert!(limiter.try_acquire_at(&1, at(60_000), 1).is_refused());
    assert!(limiter.try_acquire_at(&2, at(60_000), 1).is_admitted());
    assert_eq!(limiter.evict_at(at(60_000), 10), 1, "key 2, whose permit is dropped");
    drop(permit);
    assert_eq!(limiter.evict_at(at(60_000), 10), 1);
}

#[test]
fn key_of_a_combination_has_a_quota_for_each_limit() {
    let limit = || {
        let limits = [(60_000, 10, "minute"), (3_600_000, 100, "hour")];
        let [minute, hour] = limits.map(|(millis, limit, name)| {
            FixedWindowLimiter::new(ms(millis), limit).unwrap().named(name)
        });
        AllOf::new((minute, hour))
    };
    let limiter = keyed!(limit, 100, ms(60_000));
    assert!(limiter.try_acquire_at(&7, at(7_200_000), 1).is_admitted());
    let mut quotas = Vec::new();
    let mut visit = |quota: Quota| quotas.push((quota.name, quota.remaining));
    limiter.of_key(&7).account().each_quota(at(7_200_000), &mut visit);
    assert_eq!(quotas, [(Some("minute"), 9), (Some("hour"), 99)]);
}

#[test]
fn limiter_of_each_key_is_visited_and_keeps_what_it_has() {
    let limiter = keyed!(|| ConcurrencyLimiter::new(1), 2, Duration::ZERO).with_overflow();
    // Two keys, in one shard each, and one without a place.
    let held = [1, 1 << 63, 3].map(|key| limiter.try_acquire_at(&key, at(60_000), 1).at_once());
    assert!(held.iter().all(Result::is_ok));
    let mut limits = Vec::new();
    limiter.for_each_limiter(|own| {
        limits.push((own.limit(), own.in_use()));
        own.reconfigure(2);
    });
    assert_eq!(limits, [(1, 1); 3]);
    for key in [1, 1 << 63, 3] {
        assert!(limiter.try_acquire_at(&key, at(60_000), 2).is_refused(), "one is in flight");
        assert!(limiter.try_acquire_at(&key, at(60_000), 1).is_admitted());
    }
}

/// A window that may be charged at any time.
type Window = Arc<SlidingWindowLimiter<ManualClock>>;

fn take_all(own: &Window, now: Timestamp) -> Decision {
    own.try_acquire_at(now, 5)
}

/// It is charged after it was found as new, in any way that the keyed limiter does not count as a
/// request.
#[test]
fn limiter_that_was_given_to_a_caller_is_as_new_from_a_later_time_on() {
    for way in ["lent", "in place", "decided by", "peeked by", "kept by a peek"] {
        let clock = ManualClock::new(at(60_000));
        let of_clock = clock.clone();
        let make = move || {
            SlidingWindowLimiter::with_clock(ms(1_000), 5, of_clock.clone())
                .unwrap()
                .with_max_lead(Duration::MAX)
        };
        let limiter = Keyed::<u64, _>::new((make, clock.clone()), 10).unwrap();
        let limiter = limiter.with_keep(ms(5_000));
        drop(limiter.limiter_of(&1));
        assert_eq!(limiter.evict_at(at(62_000), 1_000), 0, "found as new, and kept");
        clock.advance(ms(4_000));
        let (now, ask) = (at(64_000), Ask::at(at(64_000)));
        let decision = match way {
            "lent" => limiter.limiter_of(&1).map(|own| take_all(&own, now)),
            "in place" => limiter.with_limiter_of_at(&1, now, |own| own.try_acquire_at(now, 5)),
            "decided by" => Some(limiter.decide_by(&1, &ask, |own, _| take_all(own, now))),
            "peeked by" => limiter.peek_by(&1, &ask, |own, _| Some(take_all(own, now))),
            _ => {
                let kept = Cell::new(None);
                limiter.peek_by(&1, &ask, |own, _| {
                    kept.set(Some(Arc::clone(own)));
                    None
                });
                kept.take().map(|own| take_all(&own, now))
            }
        };
        assert!(decision.is_some_and(|it| it.is_admitted()), "{way}");
        clock.advance(ms(4_000));
        assert_eq!(limiter.evict_at(at(68_000), 1_000), 0, "{way}: as new for less than 5 s");
        clock.advance(ms(5_000));
        assert_eq!(limiter.evict_at(at(73_000), 1_000), 1, "{way}");
        assert!(limiter.try_acquire_at(&1, at(64_500), 5).is_admitted(), "{way}: at 68 s");
        assert!(limiter.try_acquire_at(&1, at(68_000), 1).is_refused(), "{way}: in its interval");
    }
}

#[test]
fn limiter_asked_in_place_is_the_one_that_is_lent() {
    let make = || SlidingWindowLimiter::new(ms(1_000), 3).unwrap().with_max_lead(Duration::MAX);
    let limiter = keyed!(make, 1, Duration::ZERO);
    let now = at(60_000);
    let take =
        |key| limiter.with_limiter_of_at(&key, now, |own| own.try_acquire_at(now, 2).is_admitted());
    assert_eq!([take(1), take(1)], [Some(true), Some(false)]);
    let lent = limiter.limiter_of_at(&1, now).unwrap();
    assert!(lent.try_acquire_at(now, 1).is_admitted());
    assert_eq!(lent.quota_at(now).unwrap().remaining, 0);
    assert_eq!(take(2), None, "no room");
}

/// Takes 60 of 100 tokens of a key.
fn expect_eviction_after_both<L>(make: impl Fn() -> L + Send + Sync + 'static)
where
    Arc<L>: Limiter,
{
    let limiter = keyed!(make, 10, Duration::ZERO);
    for _ in 0..60 {
        assert!(limiter.try_acquire_at(&1, at(60_000), 1).is_admitted());
    }
    assert_eq!([65_999, 66_000].map(|now| limiter.evict_at(at(now), 10)), [0, 1]);
}

/// A bucket of 100 tokens with a rest of 40, while none of the few permits of the other limiter is
/// in use.
#[test]
fn combination_is_as_new_once_each_of_its_limiters_is() {
    let parts = || {
        let bucket = TokenBucket::new(rate(1, 100), 100).with_max_lead(Duration::MAX);
        (bucket, Arc::new(ConcurrencyLimiter::new(10)))
    };
    let many = move || {
        let (bucket, permits) = parts();
        AllOf::new(vec![bucket.boxed(), permits.boxed()])
    };
    expect_eviction_after_both(move || AllOf::new(parts()));
    expect_eviction_after_both(many);
}

#[test]
fn combination_with_an_absent_limiter_is_as_new_once_the_others_are() {
    let make = || {
        let bucket = TokenBucket::new(rate(1, 100), 5).with_max_lead(Duration::MAX);
        AllOf::new((bucket, None::<TokenBucket>))
    };
    let limiter = keyed!(make, 10, Duration::ZERO);
    assert!(limiter.try_acquire_at(&1, at(60_000), 5).is_admitted());
    assert_eq!([60_499, 60_500].map(|now| limiter.evict_at(at(now), 10)), [0, 1]);
}

#[test]
fn limiter_that_has_learned_its_limit_is_not_forgotten() {
    let aimd = || AdaptiveLimiter::new(Aimd::new(LimitRange::new(1, 100, 100).unwrap()));
    let limiter = keyed!(aimd, 10, Duration::ZERO);
    let permit = limiter.try_acquire_at(&1, at(60_000), 1).at_once().unwrap();
    permit.end_at(at(60_001), Outcome::Exception);
    let limit =
        |now| limiter.of_key(&1).quota_at(at(now)).map(|quota| (quota.limit, quota.remaining));
    assert_eq!(limit(60_001), Some((90, 90)));
    assert_eq!((limiter.evict_at(at(90_000), 10), limit(90_000)), (0, Some((90, 90))));
}

#[test]
fn open_breaker_beside_a_full_bucket_is_not_forgotten() {
    let make = || {
        let config = CircuitConfig::default().consecutive_exceptions(1);
        let bucket = TokenBucket::new(rate(1, 100), 5).with_max_lead(Duration::MAX);
        AllOf::new((Arc::new(CircuitBreaker::new(config)), bucket))
    };
    let limiter = keyed!(make, 10, Duration::ZERO);
    let mut permit = limiter.try_acquire_at(&1, at(60_000), 1).at_once().unwrap();
    permit.end_at(at(60_001), Outcome::Exception);
    assert!(limiter.try_acquire_at(&1, at(60_200), 1).is_refused(), "the breaker is open");
    assert_eq!(limiter.evict_at(at(60_200), 10), 0);
    assert!(limiter.try_acquire_at(&1, at(60_200), 1).is_refused());
}

/// Ends a request of a key with a failure: in the window, and so late that its admission has left.
/// While it is in flight, its key is not evicted, nor does it give its place up.
fn expect_failure_to_reach_its_key<L>(name: &str, make: impl Fn() -> L + Send + Sync + 'static)
where
    Arc<L>: Limiter,
{
    let limiter = keyed!(make, 1, Duration::ZERO);
    for (begin, end) in [(60_000, 61_000), (260_000, 350_000)] {
        let mut permit = limiter.try_acquire_at(&1, at(begin), 1).at_once().unwrap();
        assert_eq!(limiter.evict_at(at(end), 1_000), 0, "{name}: the request is in flight");
        assert!(limiter.try_acquire_at(&2, at(end), 1).is_refused(), "{name}: no place");
        Permit::end_at(&mut permit, at(end), Outcome::Exception);
        drop(permit);
        assert_eq!(limiter.evict_at(at(end), 1_000), 0, "{name}: its failure counts");
        assert_eq!(limiter.evict_at(at(end + 100_000), 1_000), 1, "{name}: it has left");
    }
}

/// The permit of a limiter inside of another refers to the inner one.
#[test]
fn failure_in_flight_is_not_forgotten_with_its_key() {
    let breaker = || CircuitBreaker::new(CircuitConfig::default()).with_max_lead(Duration::MAX);
    let circuit = move || Arc::new(breaker());
    let adaptive = || Arc::new(AdaptiveBreaker::new(AdaptiveBreakerConfig::default()));
    let bucket = || TokenBucket::new(rate(1, 100), 5).with_max_lead(Duration::MAX);
    let all = move || AllOf::new((bucket(), circuit(), adaptive()));
    let shadow = move || Shadow::new(breaker(), Mode::Enforce);
    expect_failure_to_reach_its_key("by itself", breaker);
    expect_failure_to_reach_its_key("arc", circuit);
    expect_failure_to_reach_its_key("boxed", move || breaker().boxed());
    expect_failure_to_reach_its_key("adaptive", adaptive);
    expect_failure_to_reach_its_key("option", move || Some(circuit()));
    expect_failure_to_reach_its_key("named", move || circuit().named("breaker"));
    expect_failure_to_reach_its_key("shadow", shadow);
    expect_failure_to_reach_its_key("all", all);
    expect_failure_to_reach_its_key("all boxed", move || {
        AllOf::new(vec![bucket().boxed(), shadow().boxed(), all().boxed()])
    });
    expect_failure_to_reach_its_key("queue", move || WaitQueue::new(circuit()).boxed());
    expect_failure_to_reach_its_key("requests", move || PerRequest::new(breaker()).boxed());
}

/// A limit that counts what is in flight keeps its key without the help of its references: keys
/// may share one, and are as new once nothing is in flight.
#[test]
fn limit_in_flight_is_not_forgotten_with_its_key() {
    let shared = Arc::new(ConcurrencyLimiter::new(2));
    let of_all = Arc::clone(&shared);
    let make = move || {
        let classes = Classes::new(Arc::new(ConcurrencyLimiter::new(2)), &[1.0]).unwrap();
        let class = OfClass::new(Arc::new(classes), 0);
        AllOf::new(vec![class.boxed(), Arc::clone(&of_all).boxed()]).boxed()
    };
    let limiter = keyed!(make, 1, Duration::ZERO);
    let ask = |key| limiter.try_acquire_at(&key, at(60_000), 1).at_once().ok();
    let permit = ask(1).expect("the first");
    assert_eq!(limiter.evict_at(at(90_000), 10), 0);
    assert!(ask(2).is_none(), "no place");
    let second = ask(1).expect("one of two is left");
    assert!(ask(1).is_none());
    drop((permit, second));
    assert_eq!((limiter.evict_at(at(90_000), 10), shared.in_use()), (1, 0));
}

/// The charge has left the window of the limiter before the cost is known.
#[test]
fn cost_in_flight_is_not_forgotten_with_its_key() {
    let make = || {
        let tokens = TokenBucket::new(rate(1, 100), 5).with_max_lead(Duration::MAX);
        Arc::new(Settling::new(tokens)).boxed()
    };
    let limiter = keyed!(make, 1, Duration::ZERO);
    let reservation = limiter.try_acquire_at(&1, at(60_000), 5).at_once().unwrap();
    assert_eq!(limiter.evict_at(at(90_000), 10), 0, "its cost is not known");
    drop(reservation);
    assert_eq!(limiter.evict_at(at(90_000), 10), 1);
}
