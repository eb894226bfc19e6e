//! Changes of the rate and the size of a bucket while it is in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leaparray::flow::{
    Decision, LeakyBucket, Limiter, LimiterExt, Rate, Reason, Retry, TokenBucket,
};
use leaparray::{Clock, ManualClock, Timestamp};
use proptest::prelude::*;

use crate::flow::{at, ms, rate, remaining};

fn bucket(rate: Rate, capacity: u64) -> (TokenBucket<ManualClock>, ManualClock) {
    let clock = ManualClock::new(at(60_000));
    (TokenBucket::with_clock(rate, capacity, clock.clone()), clock)
}

fn float(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}

/// A token in up to 584 years.
fn slow_or_fast() -> impl Strategy<Value = Rate> {
    let nanos = (1..=u64::MAX, 0..64_u32).prop_map(|(nanos, shift)| (nanos >> shift).max(1));
    (1..4_u64, nanos).prop_map(|(permits, nanos)| {
        // With more than one token in an interval, one takes at least four nanoseconds.
        let nanos = if permits == 1 { nanos } else { nanos.max(4 * permits) };
        Rate::new(permits, Duration::from_nanos(nanos)).unwrap()
    })
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u64),
    Rate(u64),
    Capacity(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..8_u64).prop_map(Step::Ask),
        1 => (1..200_u64).prop_map(Step::Rate),
        1 => (0..30_u64).prop_map(Step::Capacity),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Compared with a level of tokens in floating point, which rises at the current rate, up to
    /// the current capacity.
    #[test]
    fn tokens_stay_and_come_at_the_current_rate(
        steps in proptest::collection::vec((0..300_u64, step()), 1..60),
    ) {
        let (mut level, mut capacity, mut per_second) = (10.0_f64, 10_u64, 50_u64);
        let (bucket, clock) = bucket(rate(per_second, 1_000), capacity);
        for (millis, step) in steps {
            clock.advance(ms(millis));
            level = (level + float(millis * per_second) / 1_000.0).min(float(capacity));
            let available = remaining(&bucket);
            prop_assert!(float(available) < level + 1e-5, "{available} of {level}");
            prop_assert!(float(available) + 1.0 > level - 1e-5, "{available} of {level}");
            match step {
                Step::Ask(permits) => {
                    let is_admitted = bucket.try_acquire_many(permits).is_admitted();
                    prop_assert_eq!(is_admitted, permits <= available);
                    if is_admitted {
                        level -= float(permits);
                    }
                }
                Step::Rate(next) => {
                    per_second = next;
                    bucket.reconfigure(rate(next, 1_000), capacity);
                    prop_assert_eq!(bucket.rate(), rate(next, 1_000));
                    prop_assert_eq!(remaining(&bucket), available);
                }
                Step::Capacity(next) => {
                    (capacity, level) = (next, level.min(float(next)));
                    bucket.reconfigure(rate(per_second, 1_000), next);
                    prop_assert_eq!((bucket.capacity(), remaining(&bucket)), (next, available.min(next)));
                }
            }
        }
    }

    /// A change at any time, from any rate and capacity to any other, keeps the tokens as far as
    /// they can be given out.
    #[test]
    fn no_token_is_made_or_lost_by_a_change(
        old in (1..=u64::MAX, 0..=u64::MAX), new in (1..=u64::MAX, 0..=u64::MAX),
        shifts in (0..64_u32, 0..64_u32, 0..64_u32, 0..64_u32), start: u64, taken: u64,
    ) {
        let rate = |nanos: u64, shift: u32| Rate::new(1, Duration::from_nanos((nanos >> shift).max(1))).unwrap();
        let (old_rate, old_capacity) = (rate(old.0, shifts.0), old.1 >> shifts.1);
        let (new_rate, new_capacity) = (rate(new.0, shifts.2), new.1 >> shifts.3);
        let now = Timestamp::from_nanos(start);
        let bucket = TokenBucket::new(old_rate, old_capacity).with_max_lead(Duration::MAX);
        let taken = taken.checked_rem(bucket.quota_at(now).unwrap().remaining).unwrap_or(0);
        prop_assert!(bucket.try_acquire_at(now, taken).is_admitted());
        bucket.reconfigure_at(now, new_rate, old_capacity);
        bucket.reconfigure_at(now, new_rate, new_capacity);
        let after = bucket.quota_at(now).unwrap().remaining;
        // The tokens that can be given out before the end of time, up to the rounding of two
        // changes.
        let until_end = TokenBucket::new(new_rate, u64::MAX).quota_at(now).unwrap().remaining;
        let kept = (old_capacity - taken).min(new_capacity);
        prop_assert!(after <= kept.min(until_end), "{after} of {kept}, {until_end}");
        prop_assert!(after >= kept.min(until_end.saturating_sub(4)), "{after} of {kept}, {until_end}");
        if after > 0 {
            prop_assert!(bucket.try_acquire_at(now, after).is_admitted());
        }
        prop_assert!(bucket.try_acquire_at(now, 1).is_refused());
    }

    /// After a change of a bucket, which may be empty, n available tokens can be taken, and no
    /// more, at once and later. The rates are from a token in nanoseconds to one in centuries.
    #[test]
    fn available_tokens_can_be_taken_after_a_change(
        old in slow_or_fast(), new in slow_or_fast(), capacities in (0..50_u64, 0..50_u64),
        start: u64, taken in 0..50_u64, is_emptied: bool, waits in (0..64_u32, 0..64_u32), part: u64,
    ) {
        let now = Timestamp::from_nanos(start);
        let prepared = || {
            let bucket = TokenBucket::new(old, capacities.0).with_max_lead(Duration::MAX);
            let available = bucket.quota_at(now).unwrap().remaining;
            let taken = if is_emptied { available } else { taken.min(available) };
            assert!(bucket.try_acquire_at(now, taken).is_admitted());
            bucket.reconfigure_at(now, new, capacities.0);
            bucket.reconfigure_at(now, new, capacities.1);
            (bucket, capacities.0 - taken)
        };
        let (bucket, left) = prepared();
        prop_assert!(bucket.quota_at(now).unwrap().remaining <= left.min(capacities.1));
        for wait in [0, part >> waits.0, part >> waits.1, u64::MAX] {
            let later = now.saturating_add(Duration::from_nanos(wait));
            let (bucket, _) = prepared();
            let there = bucket.quota_at(later).unwrap().remaining;
            prop_assert!(there <= capacities.1);
            let refusal = bucket.try_acquire_at(later, there + 1).refusal();
            prop_assert!(refusal.is_some(), "{} of {there} at {later:?}", there + 1);
            if let Retry::At(retry_at) = refusal.unwrap().retry() {
                let before = Timestamp::from_nanos(retry_at.as_nanos() - 1);
                prop_assert!(later < retry_at && bucket.peek_at(before, there + 1).unwrap().is_refused());
                prop_assert!(bucket.peek_at(retry_at, there + 1).unwrap().is_admitted());
            } else {
                let last = bucket.peek_at(Timestamp::MAX, there + 1).unwrap();
                prop_assert!(last.is_refused());
            }
            prop_assert!(there == 0 || bucket.try_acquire_at(later, there).is_admitted());
        }
    }

    /// Each request is due its interval after the one before, by the rate at its decision.
    #[test]
    fn pace_follows_the_rate(
        steps in proptest::collection::vec((0..300_u64, 1..4_u64, 0..40_u64), 1..60),
    ) {
        let clock = ManualClock::new(at(60_000));
        let bucket = LeakyBucket::with_clock(rate(1, 20), ms(500), clock.clone());
        let (mut interval, mut max_wait, mut last) = (20, 500, None);
        for (step, permits, change) in steps {
            clock.advance(ms(step));
            match change {
                1..20 => {
                    interval = change;
                    bucket.reconfigure(rate(1, interval), ms(max_wait));
                }
                20..30 => {
                    max_wait = change * 20;
                    bucket.reconfigure(rate(1, interval), ms(max_wait));
                }
                _ => {}
            }
            prop_assert_eq!((bucket.rate(), bucket.max_wait()), (rate(1, interval), ms(max_wait)));
            let now = clock.now().as_millis();
            let due = last.map_or(now, |last| now.max(last + permits * interval));
            let expected = due - now;
            if expected > max_wait {
                let refusal = bucket.try_acquire_many(permits).refusal().unwrap();
                prop_assert_eq!(refusal.retry(), Retry::At(at(due - max_wait)));
            } else {
                prop_assert_eq!(bucket.try_acquire_many(permits), Decision::after((), ms(expected)));
                last = Some(due);
            }
        }
    }
}

#[test]
fn fraction_of_a_token_stays() {
    let (bucket, clock) = bucket(rate(1, 100), 3);
    assert!(bucket.try_acquire_many(3).is_admitted());
    clock.advance(ms(130));
    bucket.reconfigure(rate(1, 1_000), 3);
    let retry = |permits| bucket.try_acquire_many(permits).refusal().unwrap().retry_at();
    assert_eq!((remaining(&bucket), retry(2)), (1, Some(at(60_830))), "7 of 10 parts are missing");
    assert_eq!(bucket.quota_at(bucket.account().now()).unwrap().reset, Some(at(61_830)));
    bucket.reconfigure(rate(1, 1_000), 9);
    assert_eq!((remaining(&bucket), retry(2)), (1, Some(at(60_830))));
    bucket.reconfigure(rate(1, 10), 9);
    assert_eq!((remaining(&bucket), retry(2)), (1, Some(at(60_137))));
}

#[test]
fn capacity_that_is_never_reached_keeps_the_tokens() {
    let (bucket, clock) = bucket(rate(1, 1_000), 10);
    assert!(bucket.try_acquire_many(4).is_admitted());
    bucket.reconfigure(rate(1, 1_000), u64::MAX);
    assert_eq!((bucket.capacity(), remaining(&bucket)), (u64::MAX, 6));
    clock.advance(ms(5_000));
    assert_eq!(remaining(&bucket), 11);
    assert!(bucket.try_acquire_many(11).is_admitted() && bucket.try_acquire().is_refused());
    bucket.reconfigure(rate(1, 1_000), 2);
    clock.advance(ms(5_000));
    assert_eq!(remaining(&bucket), 2);
}

/// Before the end of time, one token is added, and with it the bucket would have to be half full.
#[test]
fn bucket_that_cannot_fill_any_more_stays_empty() {
    let slow = Rate::new(1, Duration::from_secs(9_000_000_000)).unwrap();
    let bucket = TokenBucket::new(slow, 0).with_max_lead(Duration::MAX);
    let now = Timestamp::from_secs(9_000_000_000);
    bucket.reconfigure_at(now, slow, 1_000);
    assert_eq!((bucket.capacity(), bucket.quota_at(now).unwrap().remaining), (1_000, 0));
    for (permits, reason) in [(1, Reason::LimitReached), (1_001, Reason::MoreThanLimit)] {
        let refusal = bucket.try_acquire_at(now, permits).refusal().unwrap();
        assert_eq!((refusal.reason, refusal.retry()), (reason, Retry::Never));
    }
}

#[test]
fn slow_rate_and_back_makes_no_tokens() {
    let (bucket, _clock) = bucket(Rate::per_second(1_000).unwrap(), 2_000_000_000);
    assert!(bucket.try_acquire_many(1_000_000_000).is_admitted());
    let year = Rate::new(1, Duration::from_secs(31_557_600)).unwrap();
    bucket.reconfigure(year, 2_000_000_000);
    assert_eq!(remaining(&bucket), 585, "those of the rest of time");
    bucket.reconfigure(Rate::per_second(1_000).unwrap(), 2_000_000_000);
    assert_eq!(remaining(&bucket), 1_000_000_000);
}

/// In year 56, the bucket has two tokens: one that is added again in year 356, and one more.
#[test]
fn empty_bucket_of_a_slow_rate_stays_empty_after_a_change_to_the_same_rate() {
    const YEAR: u64 = 31_536_000;
    let slow = Rate::new(1, Duration::from_secs(300 * YEAR)).unwrap();
    let bucket = TokenBucket::new(slow, 5).with_max_lead(Duration::MAX);
    let now = Timestamp::from_secs(56 * YEAR);
    assert!(bucket.try_acquire_at(now, 2).is_admitted());
    bucket.reconfigure_at(now, slow, 5);
    assert_eq!((bucket.quota_at(now).unwrap().remaining, bucket.capacity()), (0, 5));
    for permits in 1..=6 {
        let refusal = bucket.try_acquire_at(now, permits).refusal().unwrap();
        let reason = if permits == 6 { Reason::MoreThanLimit } else { Reason::LimitReached };
        assert_eq!((refusal.reason, refusal.retry()), (reason, Retry::Never));
    }
}

/// In 570 years, a rate of a token in 13 years adds fewer tokens than the bucket has. Its size is
/// the tokens, and the fraction of the next one is lost.
#[test]
fn slow_rate_keeps_as_many_tokens_as_it_adds_and_no_fraction() {
    let year = Duration::from_secs(31_557_600);
    let bucket = TokenBucket::new(Rate::new(2, Duration::from_nanos(205)).unwrap(), 48)
        .with_max_lead(Duration::MAX);
    let now = at(0);
    assert!(bucket.try_acquire_at(now, 1).is_admitted());
    bucket.reconfigure_at(now, Rate::new(1, 13 * year).unwrap(), 48);
    assert_eq!(bucket.quota_at(now).unwrap().remaining, 45);
    assert!(bucket.try_acquire_at(now, 46).is_refused());
    assert!(bucket.try_acquire_at(now, 45).is_admitted());
}

#[test]
fn bucket_that_is_empty_for_ever_fills_at_a_faster_rate() {
    let (bucket, clock) = bucket(Rate::new(1, Duration::from_nanos(u64::MAX)).unwrap(), 5);
    assert!(bucket.try_acquire().is_admitted());
    assert_eq!(bucket.try_acquire().refusal().unwrap().retry(), Retry::Never);
    bucket.reconfigure(rate(1, 10), 5);
    assert_eq!(remaining(&bucket), 0);
    clock.advance(ms(20));
    assert_eq!(remaining(&bucket), 2);
}

#[test]
fn change_with_a_stale_time_makes_no_tokens() {
    let (bucket, clock) = bucket(rate(1, 100), 2);
    clock.set(at(61_000));
    assert!(bucket.try_acquire_many(2).is_admitted());
    // At 60 s, the bucket was full. The tokens were taken a second later.
    bucket.reconfigure_at(at(60_000), rate(1, 10), 2);
    assert!(bucket.quota_at(at(60_990)).unwrap().remaining == 0);
    assert!(
        bucket.quota_at(at(61_000)).unwrap().remaining <= 20,
        "at most the new rate since the given time"
    );
    bucket.reconfigure_at(at(60_000), rate(1, 10), 1);
    assert!(bucket.quota_at(at(61_000)).unwrap().remaining <= 1);
}

#[test]
fn tokens_that_were_taken_before_a_change_are_not_given_back() {
    let (bucket, clock) = bucket(rate(1, 100), 5);
    assert!(bucket.try_acquire_many(3).is_admitted());
    bucket.reconfigure(rate(1, 100), 2);
    assert!(!bucket.refund_at(at(60_000), 3, Duration::ZERO));
    clock.advance(ms(1));
    assert!(bucket.try_acquire_many(2).is_admitted());
    assert!(bucket.refund_at(clock.now(), 2, Duration::ZERO));
    assert_eq!(remaining(&bucket), 2);
    let leaky = LeakyBucket::with_clock(rate(1, 10), ms(500), clock.clone());
    assert!(leaky.try_acquire().is_admitted());
    leaky.reconfigure(rate(1, 100), ms(500));
    assert!(!leaky.refund_at(clock.now(), 1, Duration::ZERO));
    assert_eq!(leaky.try_acquire().wait(), ms(100));
    assert!(leaky.refund_at(clock.now(), 1, ms(100)));
    assert_eq!(leaky.try_acquire().wait(), ms(100));
}

#[test]
fn last_nanosecond_of_time_is_no_closed_word() {
    let fastest = Rate::new(1, Duration::from_nanos(1)).unwrap();
    let leaky = LeakyBucket::new(fastest, ms(1)).with_max_lead(Duration::MAX);
    let (last, before) = (Timestamp::MAX, Timestamp::from_nanos(u64::MAX - 1));
    assert_eq!(leaky.peek_at(last, 1), Some(Decision::Admitted(())));
    assert_eq!(leaky.try_acquire_at(last, 1), Decision::Admitted(()));
    for now in [last, before] {
        let peek = leaky.peek_at(now, 1).unwrap();
        assert_eq!(peek.refusal().unwrap().retry(), Retry::Never);
        assert_eq!(leaky.try_acquire_at(now, 1), peek);
        assert!(!leaky.refund_at(last, 1, Duration::ZERO));
    }
    leaky.reconfigure(rate(1, 1), ms(1));
    assert!(leaky.try_acquire_at(last, 1).is_refused());
}

/// Threads take tokens while another one changes the settings, and the time stands still: all
/// tokens are taken, and no more.
#[test]
fn tokens_are_taken_once_while_the_settings_change() {
    const TOKENS: u64 = 4_000;
    let (bucket, _clock) = bucket(rate(1, 1_000), TOKENS);
    let (taken, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let takers = [(); 3].map(|()| {
            scope.spawn(|| {
                while bucket.try_acquire().is_admitted() {
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        scope.spawn(|| {
            let mut turn = 0;
            while !is_done.load(Ordering::Relaxed) {
                turn += 1;
                bucket.reconfigure(rate(1, 1_000 * (turn % 7 + 1)), TOKENS + turn % 5);
            }
        });
        for taker in takers {
            taker.join().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!((taken.into_inner(), remaining(&bucket)), (TOKENS, 0));
}
