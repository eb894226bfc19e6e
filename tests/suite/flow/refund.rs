//! Permits that are given back: none is lost, and the requests that go ahead stay within the limit.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use leaparray::flow::{
    AllOf, Ask, ConcurrencyLimiter, Decision, FixedWindowLimiter, LeakyBucket, Limiter, LimiterExt,
    Rate, SlidingWindowLimiter, TokenBucket,
};
use leaparray::{Clock, ManualClock, Timestamp, WindowConfig};
use proptest::prelude::*;

use crate::flow::{at, ms, rate, remaining};

const AT_ONCE: Duration = Duration::ZERO;

fn nanos(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

proptest! {
    /// Each request asks, and may be given back, at once or later. Of the requests that stay, no
    /// more than a burst and the tokens that were added since are admitted from any one on.
    #[test]
    fn tokens_that_are_given_back_do_not_exceed_the_rate(
        permits in 1..50_u64, interval in 1..1_000_u64, capacity in 1..20_u64,
        steps in proptest::collection::vec((0..2_000_u64, 1..6_u64, 0..4_usize), 1..100),
    ) {
        // In microseconds.
        let rate = Rate::new(permits, Duration::from_micros(interval)).unwrap();
        let clock = ManualClock::new(nanos(1_000_000));
        let bucket = TokenBucket::with_clock(rate, capacity, clock.clone());
        let mut time = 1_000_000;
        let mut stay: Vec<(u64, u64)> = Vec::new();
        for (step, asked, back) in steps {
            time += step * 100;
            clock.set(nanos(time));
            let before = bucket.quota_at(nanos(time)).unwrap().remaining;
            let is_admitted = bucket.try_acquire_at(nanos(time), asked).is_admitted();
            if is_admitted {
                stay.push((time, asked));
            }
            // The last one, or one of those before.
            if back > 0 && stay.len() >= back {
                let (since, taken) = stay[stay.len() - back];
                let is_back = bucket.refund_at(nanos(since), taken, AT_ONCE);
                if is_admitted && back == 1 {
                    prop_assert!(is_back);
                    let after = bucket.quota_at(nanos(time)).unwrap().remaining;
                    // If a token takes no whole number of nanoseconds, one may be there a
                    // nanosecond later.
                    let rounding = u64::from(interval * 1_000 % permits != 0);
                    prop_assert!(before <= after + rounding && after <= before, "{after} of {before}");
                }
                if is_back {
                    stay.remove(stay.len() - back);
                }
            }
            for (first, &(since, _)) in stay.iter().enumerate() {
                let sum: u64 = stay[first..].iter().map(|&(_, count)| count).sum();
                let come = (time - since) * permits / (interval * 1_000);
                prop_assert!(sum <= capacity + come + 1, "{sum} since {since}");
            }
            prop_assert!(remaining(&bucket) <= capacity);
        }
    }

    /// The requests of a leaky bucket that stay are each due their permits' intervals after the one
    /// before.
    #[test]
    fn time_that_is_given_back_keeps_the_pace(
        permits in 1..50_u64, interval in 1..1_000_u64,
        steps in proptest::collection::vec((0..300_u64, 1..6_u64, 0..3_usize), 1..100),
    ) {
        let rate = rate(permits, interval);
        let bucket = LeakyBucket::new(rate, ms(2_000));
        let mut time = 1_000;
        let mut stay: Vec<(u64, Duration, u64, u64)> = Vec::new();
        for (step, asked, back) in steps {
            time += step;
            let decision = bucket.try_acquire_at(at(time), asked);
            if !decision.is_refused() {
                let wait = decision.wait();
                let due = at(time).saturating_add(wait).as_nanos();
                if let Some(&(.., last)) = stay.last() {
                    let apart = u128::from(due - last) * u128::from(permits);
                    let least = u128::from(asked * interval) * 1_000_000;
                    prop_assert!(apart + 2 * u128::from(permits) >= least, "{apart} of {least}");
                }
                stay.push((time, wait, asked, due));
            }
            if back > 0 && stay.len() >= back {
                let (asked_at, wait, taken, _) = stay[stay.len() - back];
                let is_back = bucket.refund_at(at(asked_at), taken, wait);
                prop_assert_eq!(is_back, back == 1, "only the last one");
                if is_back {
                    stay.pop();
                    // A request for as many permits takes its place.
                    let peek = bucket.peek_at(at(asked_at), taken).unwrap();
                    prop_assert!(peek.wait().abs_diff(wait) <= Duration::from_nanos(2));
                    // The idle time before the first one is not known any more.
                    let decision = bucket.try_acquire_at(at(asked_at), taken);
                    let due = at(asked_at).saturating_add(decision.wait()).as_nanos();
                    stay.push((asked_at, decision.wait(), taken, due));
                }
            }
        }
    }

    /// Permits that are given back in their bucket are as if they had not been taken. Later, they
    /// are not given back.
    #[test]
    fn permits_that_are_given_back_are_as_if_not_taken(
        samples in 1..5_usize, limit in 0..12_u64,
        steps in proptest::collection::vec((0..25_u64, 0..6_u64, 0..15_u64, any::<bool>()), 1..80),
    ) {
        let window = WindowConfig::new(samples, ms(10 * samples as u64)).unwrap();
        let limiters = [(); 2].map(|()| SlidingWindowLimiter::of_buckets(window, limit).unwrap());
        let [limiter, without] = &limiters;
        let mut time = 1_000;
        for (step, permits, later, is_back) in steps {
            time += step;
            let stays = is_back && later > 10 - time % 10 - 1;
            let decision = limiter.try_acquire_at(at(time), permits);
            if decision.is_admitted() && is_back {
                let taken_at = time;
                if stays {
                    // Another request opens a later bucket first.
                    prop_assert!(without.try_acquire_at(at(time), permits).is_admitted());
                    time += later;
                    for limiter in &limiters {
                        let _ = limiter.try_acquire_at(at(time), limit + 1);
                    }
                }
                let expected = !stays || permits == 0;
                prop_assert_eq!(limiter.refund_at(at(taken_at), permits, AT_ONCE), expected);
            } else {
                prop_assert_eq!(without.try_acquire_at(at(time), permits), decision);
            }
            let [found, expected] = [limiter, without].map(|it| it.permits_by_bucket_at(at(time)));
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn token_is_given_back_once_although_the_bucket_was_full_since() {
    let clock = ManualClock::new(at(60_000));
    let bucket = TokenBucket::with_clock(rate(1, 100), 1, clock.clone());
    assert!(bucket.try_acquire().is_admitted());
    clock.advance(ms(150));
    // The bucket was full at 60.1 s. The next request takes the token that was added.
    assert!(bucket.try_acquire().is_admitted());
    assert!(!bucket.refund_at(at(60_000), 1, AT_ONCE));
    assert_eq!(remaining(&bucket), 0);
    // 30 ms later, the time of a token less 30 ms is given back.
    clock.advance(ms(30));
    assert!(bucket.refund_at(at(60_150), 1, AT_ONCE));
    assert_eq!([at(60_179), at(60_180)].map(|now| bucket.quota_at(now).unwrap().remaining), [0, 1]);
}

/// A clock whose next reader is interrupted after its reading: half a second passes, and another
/// request takes 2 tokens.
#[derive(Clone)]
struct Interrupting {
    clock: ManualClock,
    bucket: Rc<RefCell<Weak<TokenBucket<Self>>>>,
}

impl Clock for Interrupting {
    fn now(&self) -> Timestamp {
        let reading = self.clock.now();
        let bucket = self.bucket.take();
        if let Some(bucket) = bucket.upgrade() {
            self.clock.advance(ms(500));
            assert!(bucket.try_acquire_at(self.clock.now(), 2).is_admitted());
        }
        reading
    }
}

#[test]
fn refund_that_is_interrupted_after_it_has_read_the_clock_keeps_the_rate() {
    let clock = ManualClock::new(at(60_000));
    let interrupting = Interrupting { clock: clock.clone(), bucket: Rc::default() };
    let bucket = Rc::new(TokenBucket::with_clock(rate(10, 1_000), 5, interrupting.clone()));
    assert!(bucket.try_acquire_at(at(60_000), 5).is_admitted());
    *interrupting.bucket.borrow_mut() = Rc::downgrade(&bucket);
    assert!(!bucket.refund_at(at(60_000), 5, AT_ONCE), "as many were added since");
    assert_eq!((clock.now(), remaining(&*bucket)), (at(60_500), 3));
}

#[test]
fn refund_deducts_tokens_up_to_a_request_that_was_ahead_of_the_clock() {
    let bucket = TokenBucket::with_clock(rate(10, 1_000), 5, ManualClock::new(at(60_000)));
    assert!(bucket.try_acquire_at(at(60_000), 5).is_admitted());
    assert!(bucket.try_acquire_at(at(60_900), 5).is_admitted());
    assert!(!bucket.refund_at(at(60_000), 5, AT_ONCE));
    assert!(bucket.try_acquire_at(at(60_900), 1).is_refused());
    // The second request is given back itself.
    assert!(bucket.refund_at(at(60_900), 5, AT_ONCE));
    assert_eq!(bucket.quota_at(at(60_900)).unwrap().remaining, 5);
}

/// The tokens are taken at 61 s, and the clock is at 61.5 s when they would be given back.
#[test]
fn tokens_of_a_time_beyond_the_lead_are_not_given_back() {
    let clock = ManualClock::new(at(60_000));
    let bucket = TokenBucket::with_clock(rate(10, 1_000), 5, clock.clone());
    let wrong = at(3_660_000);
    assert!(bucket.try_acquire_at(wrong, 5).is_admitted());
    clock.set(at(61_500));
    assert!(bucket.try_acquire_many(5).is_admitted());
    assert!(!bucket.refund_at(wrong, 5, AT_ONCE) && bucket.refund_at(wrong, 0, AT_ONCE));
    assert!(bucket.try_acquire().is_refused());
}

#[test]
fn bucket_never_has_more_tokens_than_its_capacity() {
    let bucket = TokenBucket::with_clock(rate(1, 100), 3, ManualClock::new(at(60_000)));
    assert!(bucket.try_acquire_many(2).is_admitted());
    assert!(bucket.refund_at(at(60_000), 2, AT_ONCE));
    // More than were taken: an error of the caller.
    let _ = bucket.refund_at(at(60_000), u64::MAX, AT_ONCE);
    assert_eq!((remaining(&bucket), bucket.quota_at(at(90_000)).unwrap().remaining), (3, 3));
    let slowest = Rate::new(1, Duration::from_nanos(u64::MAX)).unwrap();
    let bucket = TokenBucket::with_clock(slowest, 1, ManualClock::new(at(60_000)));
    assert!(bucket.try_acquire().is_admitted());
    assert!(!bucket.refund_at(at(60_000), 1, AT_ONCE), "how late the bucket is full is not known");
}

#[test]
fn window_gives_back_only_permits_of_its_newest_bucket() {
    let window = WindowConfig::new(2, ms(20)).unwrap();
    let limiter = SlidingWindowLimiter::of_buckets(window, 9).unwrap();
    assert!(!limiter.refund_at(at(100), 1, AT_ONCE), "none was taken");
    assert!(limiter.try_acquire_at(at(100), 3).is_admitted());
    assert!(limiter.try_acquire_at(at(110), 4).is_admitted());
    // A stale timestamp: its permits are taken in the newest bucket.
    assert!(limiter.try_acquire_at(at(100), 1).is_admitted());
    let refund = |now, permits| limiter.refund_at(at(now), permits, AT_ONCE);
    assert!(!refund(100, 1) && !refund(120, 1) && !refund(110, 6), "not taken in that bucket");
    assert!(refund(110, 0) && refund(110, 5));
    assert_eq!(limiter.quota_at(at(110)).unwrap().remaining, 6);
    let fixed = FixedWindowLimiter::new(ms(10), 2).unwrap();
    assert!(fixed.try_acquire_at(at(100), 2).is_admitted() && fixed.refund_at(at(100), 1, AT_ONCE));
    assert_eq!(fixed.quota_at(at(100)).unwrap().remaining, 1);
}

#[test]
fn first_request_of_a_leaky_bucket_can_be_given_back() {
    let bucket = LeakyBucket::new(rate(1, 100), ms(0));
    for now in [at(0), at(50), at(100), at(60_000)] {
        assert_eq!(bucket.try_acquire_at(now, 1), Decision::Admitted(()));
        assert!(bucket.refund_at(now, 1, AT_ONCE) && !bucket.refund_at(now, 1, AT_ONCE));
    }
    assert!(bucket.try_acquire_at(at(60_000), 1).is_admitted());
    assert!(bucket.refund_at(at(60_000), 0, AT_ONCE), "no permits");
    assert!(!ConcurrencyLimiter::new(1).refund_at(at(0), 1, AT_ONCE), "its permits are dropped");
}

/// A request is an hour ahead of the clock, and takes its permits at the horizon. When the clock
/// has reached the time of the request, they are not there to be given back: other requests have
/// taken those of that time.
#[test]
fn permits_of_a_time_that_was_cut_are_not_given_back_later() {
    let (hour, ahead) = (3_600_000, at(3_660_000));
    let second = WindowConfig::new(2, ms(1_000)).unwrap();
    let clock = || ManualClock::new(at(60_000));
    let check = |name, clock: ManualClock, limiter: &dyn Limiter<Permit = ()>| {
        assert!(!limiter.try_acquire_at(ahead, 5).is_refused(), "{name}");
        clock.advance(ms(hour));
        assert!(!limiter.try_acquire_at(ahead, 10).is_refused(), "{name}");
        assert!(!limiter.refund_at(ahead, 5, AT_ONCE), "{name}");
        assert!(limiter.ask(&Ask::at(ahead).many(5).at_once()).is_refused(), "{name}: 15 of 10");
        // A later request is given back as ever.
        let later = at(3_680_000);
        clock.advance(ms(20_000));
        assert_eq!(limiter.try_acquire_at(later, 5).wait(), AT_ONCE, "{name}");
        assert!(limiter.refund_at(later, 5, AT_ONCE), "{name}");
    };
    let time = clock();
    check(
        "window",
        time.clone(),
        &SlidingWindowLimiter::of_buckets_with_clock(second, 10, time).unwrap(),
    );
    let time = clock();
    let fixed = FixedWindowLimiter::with_clock(ms(1_000), 10, time.clone()).unwrap();
    check("interval", time, &fixed);
    let time = clock();
    check("tokens", time.clone(), &TokenBucket::with_clock(rate(10, 1_000), 10, time));
    let time = clock();
    check("leaky", time.clone(), &LeakyBucket::with_clock(rate(10, 1_000), ms(0), time));
}

/// An absent limiter has taken no permits, so the others give theirs back and the refund is whole.
#[test]
fn combination_with_an_absent_limiter_gives_back() {
    let bucket = TokenBucket::with_clock(rate(1, 60_000), 10, ManualClock::new(at(60_000)));
    let both = AllOf::new((None::<TokenBucket>, &bucket));
    assert!(both.try_acquire_at(at(60_000), 4).is_admitted());
    assert!(both.refund_at(at(60_000), 4, AT_ONCE));
    assert_eq!(bucket.quota_at(at(60_000)).unwrap().remaining, 10);
}
