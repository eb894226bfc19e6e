//! Limiters with a rate.

use std::collections::VecDeque;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray::flow::{Decision, LeakyBucket, LimiterExt, Rate, TokenBucket};
use proptest::prelude::*;

use crate::flow::{at, ms, rate};

proptest! {
    #[test]
    fn token_bucket_never_admits_more_than_its_burst_and_its_rate(
        permits in 1..50_u64, interval in 1..1_000_u64, capacity in 1..20_u64,
        steps in proptest::collection::vec((0..200_u64, 1..6_u64), 1..100),
    ) {
        let rate = rate(permits, interval);
        let bucket = TokenBucket::new(rate, capacity);
        let mut time = 1_000;
        let mut taken = VecDeque::new();
        for (step, permits_asked) in steps {
            time += step;
            let available = bucket.quota_at(at(time)).unwrap().remaining;
            let decision = bucket.try_acquire_at(at(time), permits_asked);
            prop_assert_eq!(decision.is_admitted(), permits_asked <= available);
            if decision.is_admitted() {
                taken.push_back((time, permits_asked));
            } else if let Some(retry_at) = decision.refusal().unwrap().retry_at() {
                prop_assert!(!bucket.try_acquire_at(
                    Timestamp::from_nanos(retry_at.as_nanos() - 1), permits_asked).is_admitted());
                prop_assert!(bucket.quota_at(retry_at).unwrap().remaining >= permits_asked);
            }
            // From any admitted request on, at most a burst and the tokens that were added since
            // then are taken.
            let mut sum = 0;
            for &(since, count) in taken.iter().rev() {
                sum += count;
                let come = (time - since) * permits / interval;
                prop_assert!(sum <= capacity + come + 1, "{sum} since {since}");
            }
        }
    }
}

/// Takes the permits of ten minutes. At the first two rates, a permit takes no whole number of
/// nanoseconds.
#[test]
fn pacing_does_not_drift() {
    for (permits, millis) in [(7, 1_000), (333, 1_000), (10_000, 60_000), (1_000, 999)] {
        let bucket = LeakyBucket::new(rate(permits, millis), ms(3_600_000));
        let begin = at(1_540_629_300_123);
        let total = 600_000 * permits / millis;
        let last = (0..=total).map(|_| bucket.try_acquire_at(begin, 1).wait()).last().unwrap();
        let exact = u128::from(total) * u128::from(millis) * 1_000_000 / u128::from(permits);
        assert!(last.as_nanos().abs_diff(exact) <= 1, "{permits} in {millis} ms: {last:?}");
    }
}

#[test]
fn burst_is_never_above_the_capacity() {
    // At up to one permit in four nanoseconds, bursts are exact: the rounding of a time is less
    // than a token.
    for (permits, nanos) in
        [(1, 4), (3, 13), (3, 16), (7, 50), (1_000, 999_999), (3, 1_000_000_000)]
    {
        for capacity in [1, 2, 5, 1_000] {
            let rate = Rate::new(permits, Duration::from_nanos(nanos)).unwrap();
            let bucket = TokenBucket::new(rate, capacity);
            for begin in [1_540_629_300_123_456_789_u64, 1_540_629_300_123_456_790] {
                let now = Timestamp::from_nanos(begin);
                let asked =
                    (0..2 * capacity).filter(|_| bucket.try_acquire_at(now, 1).is_admitted());
                let most = if begin % 10 == 9 { capacity } else { 1 };
                let admitted = asked.count() as u64;
                assert!(admitted <= most, "{permits} in {nanos} ns: {admitted} of {capacity}");
                assert!(begin % 10 == 0 || admitted == capacity, "{admitted} of {capacity}");
            }
        }
    }
    // At higher rates, a burst may be one token short. It is above the capacity only if a token
    // takes one or two nanoseconds.
    for (permits, nanos) in [(3, 8), (2, 5), (5, 14), (3, 10)] {
        let rate = Rate::new(permits, Duration::from_nanos(nanos)).unwrap();
        let bucket = TokenBucket::new(rate, 5);
        let now = at(1_540_629_300_123);
        let admitted = (0..10).filter(|_| bucket.try_acquire_at(now, 1).is_admitted()).count();
        assert!((4..=5).contains(&admitted), "{permits} in {nanos} ns: {admitted}");
    }
}

#[test]
fn one_a_day() {
    let day = Duration::from_secs(86_400);
    let bucket = LeakyBucket::new(Rate::new(1, day).unwrap(), Duration::ZERO);
    let times = (0..10_000_u64).map(|step| Timestamp::from_secs(86_400 * 20_000 + step * 864));
    let admitted = times.filter(|&now| bucket.try_acquire_at(now, 1).is_admitted());
    assert_eq!(admitted.count(), 100);
}

#[test]
fn several_permits_are_due_after_their_time() {
    let bucket = LeakyBucket::new(rate(10, 1_000), ms(1_000));
    assert_eq!(bucket.try_acquire_at(at(1_000), 50), Decision::Admitted(()), "the first request");
    assert_eq!(bucket.try_acquire_at(at(1_000), 3), Decision::after((), ms(300)));
    let refusal = bucket.try_acquire_at(at(1_000), 8).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(1_100)));
    assert_eq!(bucket.try_acquire_at(at(2_100), 8), Decision::Admitted(()), "all 8 are due");
}
