//! Limiters whose clock, or a given time, is wrong for a while.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::{
    Ask, Decision, FixedWindowLimiter, LeakyBucket, Limiter, LimiterExt, Passed,
    SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig,
};
use leaparray::time::ForwardClock;
use leaparray::{Clock, ManualClock, NodeConfig, ResourceNode, Timestamp, WindowConfig};

use crate::flow::{at, ms, rate};

/// The time of the clock at the beginning of each test, in milliseconds. A multiple of the longest
/// bucket.
const BEGIN: u64 = 7_000_000;
const LEAD: u64 = 300;
const HOUR: u64 = 3_600_000;

/// A limiter, the permits that it admits at once, and the longest time in milliseconds after which
/// it does so again.
type Case = (&'static str, Arc<dyn Limiter<Permit = ()> + Send + Sync>, u64, u64);

/// Each limiter with a bound on given times, under a clock that shows [`BEGIN`].
fn limiters<C>(clock: &C, lead: Duration) -> Vec<Case>
where
    C: Clock + Clone + Send + Sync + 'static,
{
    let window = WindowConfig::new(10, ms(1_000)).unwrap();
    let clock = || clock.clone();
    let sliding = SlidingWindowLimiter::of_buckets_with_clock(window, 10, clock()).unwrap();
    let fixed = FixedWindowLimiter::with_clock(ms(1_000), 10, clock()).unwrap();
    let warm_up = WarmUp::with_clock(window, 30, WarmUpConfig::default(), clock()).unwrap();
    let token = TokenBucket::with_clock(rate(10, 1_000), 10, clock());
    let leaky = LeakyBucket::with_clock(rate(1, 1_000), ms(0), clock());
    vec![
        ("sliding", Arc::new(sliding.with_max_lead(lead)), 10, 1_000),
        ("fixed", Arc::new(fixed.with_max_lead(lead)), 10, 1_000),
        ("warm-up", Arc::new(warm_up.with_max_lead(lead)), 10, 1_000),
        ("token", Arc::new(token.with_max_lead(lead)), 10, 1_000),
        ("leaky", Arc::new(leaky.with_max_lead(lead)), 1, 1_000),
    ]
}

fn retry_at(decision: Decision) -> u64 {
    decision.refusal().expect("refused").retry_at().expect("with a retry time").as_millis()
}

#[test]
fn time_that_is_an_hour_ahead_delays_by_the_lead_at_most() {
    for wrong in [at(BEGIN + HOUR), Timestamp::MAX] {
        let clock = ManualClock::new(at(BEGIN));
        for (name, limiter, burst, refills_in) in limiters(&clock, ms(LEAD)) {
            clock.set(at(BEGIN));
            assert!(limiter.try_acquire_at(wrong, burst).is_admitted(), "{name}");
            assert!(!limiter.try_acquire_at(wrong, 1).is_admitted(), "{name}: over the limit");
            // In the time of the clock, and not in the time that was given.
            let retry = retry_at(limiter.try_acquire_at(wrong, burst));
            assert!((BEGIN + LEAD..=BEGIN + LEAD + refills_in).contains(&retry), "{name}: {retry}");
            assert_eq!(retry, retry_at(limiter.try_acquire_many(burst)), "{name}");
            clock.set(at(retry - 1));
            assert!(!limiter.try_acquire_many(burst).is_admitted(), "{name}: over the limit");
            clock.set(at(BEGIN + LEAD + refills_in));
            assert!(limiter.try_acquire_many(burst).is_admitted(), "{name}: dry");
        }
    }
}

/// Each time is a little further ahead than the one before. The limiter stays within the lead of
/// its clock.
#[test]
fn times_that_run_ahead_do_not_take_the_limiter_along() {
    let clock = ManualClock::new(at(BEGIN));
    for (name, limiter, burst, refills_in) in limiters(&clock, ms(LEAD)) {
        clock.set(at(BEGIN));
        for ahead in (0..HOUR).step_by(50) {
            let _ = limiter.try_acquire_at(at(BEGIN + ahead), 1);
        }
        clock.set(at(BEGIN + LEAD + refills_in));
        assert!(limiter.try_acquire_many(burst).is_admitted(), "{name}");
    }
}

#[test]
fn time_within_the_lead_is_used_as_it_is() {
    let clock = ManualClock::new(at(BEGIN));
    for (name, limiter, burst, refills_in) in limiters(&clock, ms(1_000)) {
        assert!(limiter.try_acquire_at(at(BEGIN), burst).is_admitted(), "{name}");
        let later = at(BEGIN + refills_in);
        assert!(limiter.try_acquire_at(later, burst).is_admitted(), "{name}");
        assert!(!limiter.try_acquire_at(later, 1).is_admitted(), "{name}");
    }
}

#[test]
fn without_a_bound_a_limiter_goes_by_the_times_that_it_is_given() {
    let clock = ManualClock::new(Timestamp::MIN);
    for (name, limiter, burst, refills_in) in limiters(&clock, Duration::MAX) {
        for step in 0..5 {
            let now = at(BEGIN + HOUR + step * refills_in);
            assert!(limiter.try_acquire_at(now, burst).is_admitted(), "{name}");
        }
    }
}

/// A limiter never admits more than its limit because its clock goes back. It goes on once the
/// clock has reached the former time.
#[test]
fn clock_that_goes_back_by_five_seconds_gives_no_permit_twice() {
    let clock = ManualClock::new(at(BEGIN));
    for (name, limiter, burst, refills_in) in limiters(&clock, ms(LEAD)) {
        clock.set(at(BEGIN));
        assert!(limiter.try_acquire_many(burst).is_admitted(), "{name}");
        clock.set(at(BEGIN - 5_000));
        for _ in 0..49 {
            assert!(!limiter.try_acquire().is_admitted(), "{name}");
            clock.advance(ms(100));
        }
        let retry = retry_at(limiter.try_acquire_many(burst));
        assert!((BEGIN..=BEGIN + refills_in).contains(&retry), "{name}: {retry}");
        clock.set(at(BEGIN + refills_in));
        assert!(limiter.try_acquire_many(burst).is_admitted(), "{name}");
    }
}

#[test]
fn step_back_of_the_source_of_a_forward_clock_delays_no_limiter() {
    let source = ManualClock::new(at(BEGIN));
    let clock = ForwardClock::new(source.clone());
    for (name, limiter, burst, refills_in) in limiters(&clock, ms(LEAD)) {
        assert!(limiter.try_acquire_many(burst).is_admitted(), "{name}");
        source.set(source.now().saturating_sub(ms(5_000)));
        assert!(!limiter.try_acquire().is_admitted(), "{name}");
        source.advance(ms(refills_in));
        assert!(limiter.try_acquire_many(burst).is_admitted(), "{name}");
        source.advance(ms(refills_in));
    }
}

/// The clock of the node bounds the time, since the time is the node's.
#[test]
fn entry_of_a_node_is_bounded_by_the_clock_of_the_node() {
    let clock = ManualClock::new(at(BEGIN + HOUR));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let behind = ManualClock::new(at(BEGIN));
    let limiter =
        SlidingWindowLimiter::of_buckets_with_clock(*node.config().short(), 1, behind).unwrap();
    assert!(limiter.enter(&node).is_admitted());
    clock.advance(ms(1_000));
    assert!(limiter.enter(&node).is_admitted());
    let wrong = at(BEGIN + 2 * HOUR);
    clock.advance(ms(1_000));
    assert!(limiter.enter_at(&node, wrong).is_admitted());
    assert_eq!(
        limiter.quota_at(at(BEGIN + HOUR + 4_000)).unwrap().remaining,
        1,
        "bounded by the default lead"
    );
}

/// A node whose passes and time the test sets.
struct Passes(ManualClock, Cell<u64>);

impl Passed for Passes {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn passed_since(&self, _start: Timestamp, _now: Timestamp) -> u64 {
        self.1.get()
    }

    fn bucket_end(&self, now: Timestamp) -> Timestamp {
        at(now.as_millis() / 500 * 500 + 500)
    }
}

#[test]
fn wrong_time_does_not_keep_the_count_of_direct_entries() {
    let node = Passes(ManualClock::new(at(60_000)), Cell::new(0));
    let limiter = FixedWindowLimiter::new(ms(60_000), 10).unwrap().with_node_passes();
    // An hour ahead. It is decided in the interval of the clock, and counts the passes there.
    assert!(limiter.ask(&Ask::at(at(3_660_000)).over(&node)).is_admitted());
    node.1.set(10);
    assert!(limiter.ask(&Ask::at(at(61_499)).over(&node)).is_admitted(), "not counted yet");
    assert!(limiter.ask(&Ask::at(at(61_500)).over(&node)).is_refused(), "the lead has passed");
}
