//! The slowest and the fastest rates, capacities of 0 and of any size, and both ends of time.

use std::time::Duration;

use leaparray::flow::{
    ConcurrencyLimiter, Decision, LeakyBucket, Limiter, LimiterExt, Rate, RateError, Reason, Retry,
    SlidingWindowLimiter, TokenBucket,
};
use leaparray::{ManualClock, Timestamp, WindowConfig};
use proptest::prelude::*;

use crate::flow::{at, ms};

const NANO: Duration = Duration::from_nanos(1);

fn bucket(rate: Rate, capacity: u64) -> TokenBucket {
    TokenBucket::new(rate, capacity).with_max_lead(Duration::MAX)
}

/// Numbers of any size, also near both ends.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..20_u64,
        0..=u64::MAX,
        (0..64_u32, 0..3_u64).prop_map(|(bit, more)| (1 << bit) + more),
        (0..100_u64).prop_map(|less| u64::MAX - less),
    ]
}

/// Rates of one permit in 584 years up to one per nanosecond, and whether a permit takes a whole
/// number of nanoseconds.
fn rates() -> impl Strategy<Value = (Rate, bool)> {
    let of = |permits, nanos| Rate::new(permits, Duration::from_nanos(nanos)).unwrap();
    prop_oneof![
        number().prop_map(move |nanos| (of(1, nanos.max(1)), true)),
        (2..50_u64, 1..100_000_u64).prop_map(move |(permits, nanos)| {
            let (one, nanos) = (4 * permits + 1, nanos + 4 * permits);
            (of(permits, nanos.max(one)), nanos.max(one).is_multiple_of(permits))
        }),
    ]
}

/// Times near the beginning, near the end, and in between.
fn times() -> impl Strategy<Value = u64> {
    prop_oneof![0..1_000_u64, number(), (0..1_000_000_u64).prop_map(|less| u64::MAX - less)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// If n tokens are available, n are taken at once, or one by one, and no more.
    #[test]
    fn available_tokens_can_be_taken(
        (rate, is_whole) in rates(), capacity in number(), start in times(),
        first in number(), wait in number(), singles in 0..20_u64,
    ) {
        let now = Timestamp::from_nanos(start);
        let later = now.saturating_add(Duration::from_nanos(wait));
        let prepared = || {
            let bucket = bucket(rate, capacity);
            let _ = bucket.try_acquire_at(now, first);
            bucket
        };
        let available = prepared().quota_at(later).unwrap().remaining;
        prop_assert!(available <= capacity);
        prop_assert_eq!(prepared().quota_at(later).unwrap().remaining, available);
        if available > 0 {
            prop_assert!(prepared().try_acquire_at(later, available).is_admitted());
        }
        if let Some(more) = available.checked_add(1) {
            let bucket = prepared();
            let refusal = bucket.try_acquire_at(later, more).refusal();
            prop_assert!(refusal.is_some(), "{more} of {available}");
            // The time to retry is the first at which the request is admitted.
            if let Retry::At(retry_at) = refusal.unwrap().retry() {
                prop_assert!(retry_at > later);
                let before = Timestamp::from_nanos(retry_at.as_nanos() - 1);
                prop_assert!(bucket.try_acquire_at(before, more).is_refused());
                prop_assert!(bucket.try_acquire_at(retry_at, more).is_admitted());
            } else {
                prop_assert!(bucket.try_acquire_at(Timestamp::MAX, more).is_refused());
            }
        }
        let bucket = prepared();
        let singles = singles.min(available);
        let rest = available - singles;
        prop_assert!(rest == 0 || bucket.try_acquire_at(later, rest).is_admitted());
        let admitted = (0..=singles).filter(|_| bucket.try_acquire_at(later, 1).is_admitted());
        let admitted = admitted.count() as u64;
        // One by one, fractions of a nanosecond may add up to one: the last token comes a
        // nanosecond later, or one more fits before the end of time.
        let is_at_end = bucket.quota_at(later).unwrap().reset.is_none() && rest + admitted <= capacity;
        let is_rounded = admitted + 1 == singles || is_at_end && admitted == singles + 1;
        prop_assert!(admitted == singles || !is_whole && is_rounded,
            "{admitted} of {singles} after {rest}");
        if is_whole {
            prop_assert_eq!(bucket.quota_at(later).unwrap().remaining, 0);
        }
    }
}

/// At any rate, it is as a full bucket of which all tokens were taken at once.
#[test]
fn bucket_that_starts_empty_is_as_one_that_was_emptied() {
    let second = Duration::from_secs(1);
    let rates = [(1, second), (3, second), (1_000_000_000, second), (7, Duration::from_nanos(22))];
    for (permits, interval) in rates {
        for capacity in [0, 1, 5, 1_000] {
            let clock = ManualClock::new(Timestamp::from_secs(60));
            let rate = Rate::new(permits, interval).unwrap();
            let full = TokenBucket::with_clock(rate, capacity, clock.clone());
            let empty = TokenBucket::with_clock(rate, capacity, clock.clone()).starting_empty();
            assert!(full.try_acquire_many(capacity).is_admitted());
            for nanos in [0, 1, 333_333_333, 333_333_334, 1_000_000_000, 5_000_000_000] {
                let now = Timestamp::from_secs(60).saturating_add(Duration::from_nanos(nanos));
                let remaining = |it: &TokenBucket<_>| it.quota_at(now).map(|it| it.remaining);
                assert_eq!(remaining(&empty), remaining(&full), "{rate:?} {capacity} {nanos}");
            }
        }
    }
    // A token a year, and 584 years: it is never full.
    let (clock, year) = (ManualClock::new(Timestamp::MIN), second * 3_600 * 24 * 365);
    let yearly = TokenBucket::with_clock(Rate::new(1, year).unwrap(), 1_000, clock.clone());
    let yearly = yearly.starting_empty().with_max_lead(Duration::MAX);
    let before = Timestamp::from_nanos(Timestamp::MIN.saturating_add(year).as_nanos() - 1);
    assert!(yearly.try_acquire_at(before, 1).is_refused());
    for years in 1..=250 {
        let now = Timestamp::MIN.saturating_add(year * years);
        assert!(yearly.try_acquire_at(now, 1).is_admitted(), "{years}");
        assert!(yearly.try_acquire_at(now, 1).is_refused(), "{years}");
    }
    // Its tokens would be added after the end of time.
    let slowest = Rate::new(1, Duration::from_nanos(u64::MAX)).unwrap();
    let empty = TokenBucket::new(slowest, 5).starting_empty();
    assert_eq!(empty.try_acquire().refusal().unwrap().retry(), Retry::Never);
    assert_eq!(TokenBucket::new(slowest, 0).starting_empty().capacity(), 0);
}

#[test]
fn slowest_bucket_gives_out_one_token() {
    let slowest = Rate::new(1, Duration::from_nanos(u64::MAX)).unwrap();
    for now in [at(0), at(60_000), at(1_540_629_300_123), Timestamp::MAX] {
        for capacity in [1, 2, u64::MAX] {
            let bucket = bucket(slowest, capacity);
            let expected = if now == at(0) { capacity.min(1) } else { 1 };
            assert_eq!(bucket.quota_at(now).unwrap().remaining, expected);
            assert_eq!(bucket.try_acquire_at(now, 2).refusal().unwrap().retry(), Retry::Never);
            assert!(bucket.try_acquire_at(now, 1).is_admitted());
            assert_eq!(
                (
                    bucket.quota_at(now).unwrap().remaining,
                    bucket.quota_at(Timestamp::MAX).unwrap().remaining
                ),
                (0, 0)
            );
            assert_eq!(bucket.try_acquire_at(now, 1).refusal().unwrap().retry(), Retry::Never);
            assert!(bucket.try_acquire_at(Timestamp::MAX, 1).is_refused());
        }
    }
}

#[test]
fn bucket_that_is_never_full_again_has_the_tokens_of_the_rest_of_time() {
    let year = Duration::from_secs(31_557_600);
    let bucket = bucket(Rate::new(1, year).unwrap(), 1_000);
    let now = at(1_540_629_300_123);
    // 48 years have passed.
    assert_eq!(bucket.quota_at(now).unwrap().remaining, 584 - 48);
    assert!(bucket.try_acquire_at(now, 500).is_admitted());
    assert_eq!(bucket.quota_at(now).unwrap().remaining, 36);
    assert!(bucket.try_acquire_at(now, 37).is_refused());
    assert!(bucket.try_acquire_at(now, 36).is_admitted());
    assert_eq!(bucket.quota_at(Timestamp::MAX).unwrap().remaining, 0);
}

#[test]
fn one_permit_per_nanosecond() {
    let fastest = Rate::new(1, NANO).unwrap();
    assert_eq!(Rate::per_second(1_000_000_000), Ok(fastest));
    let (bucket, now) = (bucket(fastest, 3), at(60_000));
    assert!((0..3).all(|_| bucket.try_acquire_at(now, 1).is_admitted()));
    let refusal = bucket.try_acquire_at(now, 1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(now.saturating_add(NANO)));
    assert_eq!(bucket.quota_at(now.saturating_add(2 * NANO)).unwrap().remaining, 2);
    let leaky = LeakyBucket::new(fastest, NANO);
    let waits = [(); 2].map(|()| leaky.try_acquire_at(now, 1));
    assert_eq!(waits, [Decision::Admitted(()), Decision::after((), NANO)]);
    let refusal = leaky.try_acquire_at(now, 1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(now.saturating_add(NANO)));
}

#[test]
fn rate_of_zero_is_an_error_and_a_limit_of_zero_refuses_everything() {
    assert!(matches!(Rate::per_second(0), Err(RateError::ZeroPermits { .. })));
    assert!(matches!(Rate::new(1, Duration::ZERO), Err(RateError::ZeroInterval { .. })));
    let rate = Rate::per_second(10).unwrap();
    let window =
        SlidingWindowLimiter::of_buckets(WindowConfig::new(2, ms(1_000)).unwrap(), 0).unwrap();
    for limiter in [&bucket(rate, 0) as &dyn Limiter<Permit = ()>, &window] {
        for permits in [1, u64::MAX] {
            let refusal = limiter.try_acquire_at(at(60_000), permits).refusal().unwrap();
            assert_eq!((refusal.reason, refusal.retry()), (Reason::MoreThanLimit, Retry::Never));
        }
        assert!(limiter.try_acquire_at(at(60_000), 0).is_admitted());
        let quota = limiter.quota_at(at(60_000)).unwrap();
        assert_eq!((quota.limit, quota.remaining), (0, 0));
    }
    let refusal = ConcurrencyLimiter::new(0).try_acquire().refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::MoreThanLimit, Retry::Never));
}

#[test]
fn leaky_bucket_saves_nothing_up() {
    let bucket = LeakyBucket::new(Rate::per_second(10).unwrap(), ms(150));
    assert!(bucket.try_acquire_at(at(60_000), u64::MAX).is_admitted(), "the first request");
    assert_eq!(bucket.try_acquire_at(at(90_000), 1), Decision::Admitted(()));
    assert_eq!(bucket.try_acquire_at(at(90_000), 1), Decision::after((), ms(100)));
    let refusal = bucket.try_acquire_at(at(90_000), 2).refusal().unwrap();
    assert_eq!(refusal.retry(), Retry::At(at(90_150)));
    let refusal = bucket.try_acquire_at(at(90_000), u64::MAX).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::WaitTooLong, Retry::Never));
}
