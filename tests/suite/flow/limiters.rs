//! Properties that all limiters share.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leaparray::flow::{
    ConcurrencyLimiter, Decision, FixedWindowLimiter, LeakyBucket, Limiter, LimiterExt, Reason,
    Retry, SlidingWindowLimiter, TokenBucket, WaitQueue, WarmUp, WarmUpConfig,
};
use leaparray::{Clock, ManualClock, Timestamp, WindowConfig};

use crate::flow::{at, ms, rate, remaining};

#[test]
fn request_for_no_permits_is_admitted() {
    let none =
        SlidingWindowLimiter::of_buckets(WindowConfig::new(2, ms(1_000)).unwrap(), 0).unwrap();
    let bucket = LeakyBucket::new(rate(1, 1_000), ms(0));
    assert!(bucket.try_acquire_at(at(5), 1).is_admitted());
    for limiter in
        [&none as &dyn Limiter<Permit = ()>, &bucket, &TokenBucket::new(rate(1, 1_000), 0)]
    {
        assert!(limiter.try_acquire_at(at(5), 0).is_admitted());
        assert!(limiter.try_acquire_at(at(5), 1).is_refused());
    }
}

#[test]
fn request_for_more_than_the_limit_has_no_retry_time() {
    let config = WindowConfig::new(2, ms(1_000)).unwrap();
    let refused = [
        SlidingWindowLimiter::of_buckets(config, 5).unwrap().try_acquire_at(at(70), 6),
        FixedWindowLimiter::new(ms(1_000), 5).unwrap().try_acquire_at(at(70), 6),
        TokenBucket::new(rate(5, 1_000), 5).try_acquire_at(at(70), 6),
        WarmUp::new(config, 5, WarmUpConfig::default()).unwrap().try_acquire_at(at(70), 6),
    ];
    for decision in refused {
        let refusal = decision.refusal().unwrap();
        assert_eq!((refusal.reason, refusal.retry_at()), (Reason::MoreThanLimit, None));
    }
}

/// The highest limit and the number of the last bucket of time fit into one word.
#[test]
fn at_the_end_of_time() {
    let config = WindowConfig::new(3, ms(3)).unwrap();
    let limit = SlidingWindowLimiter::max_limit(&config);
    let lead = Duration::MAX;
    let limiter = SlidingWindowLimiter::of_buckets(config, limit).unwrap().with_max_lead(lead);
    let warm_up = WarmUp::new(config, 9, WarmUpConfig::default()).unwrap().with_max_lead(lead);
    let leaky = LeakyBucket::new(rate(3, 10), ms(5)).with_max_lead(lead);
    let token = TokenBucket::new(rate(3, 10), 2).with_max_lead(lead);
    let last = Timestamp::MAX;
    assert!(limiter.try_acquire_at(last, limit).is_admitted());
    let refusal = limiter.try_acquire_at(last, 1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), None, "time ends before a permit is free again");
    assert!(leaky.try_acquire_at(last, 1).is_admitted());
    assert!(leaky.try_acquire_at(last, 1).is_refused());
    assert_eq!(
        token.quota_at(last).unwrap().remaining,
        1,
        "it would be full only after the end of time"
    );
    assert!(
        token.try_acquire_at(last, 2).is_refused() && token.try_acquire_at(last, 1).is_admitted()
    );
    assert_eq!(token.try_acquire_at(last, 1).refusal().unwrap().retry(), Retry::Never);
    assert_eq!(token.quota_at(last).unwrap().reset, None);
    assert!(warm_up.try_acquire_at(last, 3).is_admitted());
    assert!(warm_up.try_acquire_at(last, 1).is_refused());
    // Permits that were taken at the end of time count for a stale timestamp as well.
    for limiter in [&limiter as &dyn Limiter<Permit = ()>, &leaky, &token, &warm_up] {
        assert!(limiter.try_acquire_at(at(1), 1).is_refused());
    }
}

#[test]
fn beginning_of_time_counts() {
    let limiter =
        SlidingWindowLimiter::of_buckets(WindowConfig::new(2, ms(20)).unwrap(), 3).unwrap();
    assert!(limiter.try_acquire_at(at(0), 3).is_admitted());
    assert!(limiter.try_acquire_at(at(10), 1).is_refused());
    assert!(limiter.try_acquire_at(at(20), 1).is_admitted());
    let leaky = LeakyBucket::new(rate(1, 10), ms(11));
    assert_eq!(leaky.try_acquire_at(at(0), 1), Decision::Admitted(()));
    assert!(matches!(leaky.try_acquire_at(at(0), 1), Decision::Wait(_)));
}

/// Asks for one permit every 1 to 2 ms for ten minutes. Returns how many requests go ahead, at once
/// or after a wait.
fn ten_minutes(limiter: &impl Limiter) -> u64 {
    let (begin, mut step, mut admitted) = (1_540_629_600_000_000_000_u64, 0, 0);
    let mut nanos = begin;
    while nanos < begin + 600_000_000_000 {
        admitted +=
            u64::from(!limiter.try_acquire_at(Timestamp::from_nanos(nanos), 1).is_refused());
        // Multiples of the golden ratio spread as evenly as random numbers.
        step += 1;
        nanos += 1_000_000 + (step * 618_033_989_u64) % 1_000_000_000 / 1_000;
    }
    admitted
}

#[test]
fn ten_minutes_of_too_many_requests() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let sliding = SlidingWindowLimiter::of_buckets(config, 123).unwrap();
    assert_eq!(ten_minutes(&sliding), 123 * 600);
    assert_eq!(ten_minutes(&FixedWindowLimiter::new(ms(1_000), 123).unwrap()), 123 * 600);
    // The tokens that are added in that time, and the first 50. The last token may be added after
    // the last request.
    let token = ten_minutes(&TokenBucket::new(rate(123, 1_000), 50));
    assert!((123 * 600 + 49..=123 * 600 + 50).contains(&token), "{token}");
    // A request may wait up to 100 ms, so the requests that are due within 100 ms after the end are
    // admitted as well.
    let leaky = ten_minutes(&LeakyBucket::new(rate(123, 1_000), ms(100)));
    assert!((123 * 600 + 11..=123 * 600 + 13).contains(&leaky), "{leaky}");
    // No request waits, and hardly any request comes exactly when one is due, so some time is lost
    // before each.
    let strict = ten_minutes(&LeakyBucket::new(rate(123, 1_000), ms(0)));
    assert!((110 * 600..123 * 600).contains(&strict), "{strict}");
}

#[test]
fn request_is_admitted_at_the_retry_time() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let clock = ManualClock::new(at(5_000));
    let limiters: [Box<dyn Limiter<Permit = ()>>; 4] = [
        Box::new(SlidingWindowLimiter::of_buckets_with_clock(config, 3, clock.clone()).unwrap()),
        Box::new(FixedWindowLimiter::with_clock(ms(700), 3, clock.clone()).unwrap()),
        Box::new(TokenBucket::with_clock(rate(7, 1_000), 3, clock.clone())),
        Box::new(LeakyBucket::with_clock(rate(7, 1_000), ms(10), clock.clone())),
    ];
    for limiter in limiters {
        for permits in [3, 3, 1, 2, 3] {
            let sleep = |wait| {
                clock.advance(wait);
                ready(())
            };
            let asked = clock.now();
            let queue = WaitQueue::new(&limiter);
            let acquire = pin!(queue.acquire_with(permits, ms(5_000), sleep));
            let polled = acquire.poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Ok(_))), "{polled:?}");
            assert!(clock.now().saturating_since(asked) <= ms(1_000));
        }
    }
}

#[test]
fn timeout_passes_before_the_wait_not_after() {
    let clock = ManualClock::new(at(5_000));
    let bucket = TokenBucket::with_clock(rate(1, 1_000), 1, clock.clone());
    assert!(bucket.try_acquire().is_admitted());
    let queue = WaitQueue::new(&bucket);
    let with_timeout = |millis| {
        let sleep = |wait| {
            clock.advance(wait);
            ready(())
        };
        let acquire = pin!(queue.acquire_with(1, ms(millis), sleep));
        acquire.poll(&mut Context::from_waker(Waker::noop())).map(|result| result.is_ok())
    };
    assert_eq!(with_timeout(999), Poll::Ready(false));
    assert_eq!(clock.now(), at(5_000), "a refused request does not sleep");
    assert_eq!(with_timeout(1_000), Poll::Ready(true));
    assert_eq!(clock.now(), at(6_000));
}

#[test]
fn limit_can_be_changed_while_it_is_in_use() {
    let clock = ManualClock::new(at(5_500));
    let fixed = FixedWindowLimiter::with_clock(ms(1_000), 5, clock.clone()).unwrap();
    assert!(fixed.try_acquire_many(3).is_admitted());
    assert_eq!((fixed.limit(), remaining(&fixed)), (5, 2));
    fixed.reconfigure(4).unwrap();
    assert_eq!((fixed.limit(), remaining(&fixed)), (4, 1));
    fixed.reconfigure(2).unwrap();
    assert_eq!([at(5_999), at(6_000)].map(|now| fixed.quota_at(now).unwrap().remaining), [0, 2]);
    clock.advance(ms(500));
    assert!(fixed.try_acquire_many(3).is_refused() && fixed.try_acquire_many(2).is_admitted());

    let config = WindowConfig::new(2, ms(1_000)).unwrap();
    let sliding = SlidingWindowLimiter::of_buckets_with_clock(config, 5, clock.clone()).unwrap();
    assert!(sliding.try_acquire_many(3).is_admitted());
    sliding.reconfigure(9).unwrap();
    assert_eq!((sliding.limit(), remaining(&sliding)), (9, 6));

    let limit = ConcurrencyLimiter::new(5);
    let permit = limit.try_acquire_many(3).at_once().unwrap();
    assert_eq!((limit.limit(), limit.in_use(), permit.permits()), (5, 3, 3));
    limit.reconfigure(2);
    let reasons = [2, 3].map(|asked| limit.try_acquire_many(asked).refusal().unwrap().reason);
    assert_eq!(reasons, [Reason::LimitReached, Reason::MoreThanLimit]);
    drop(permit);
    assert!(limit.try_acquire_many(3).is_refused() && limit.try_acquire_many(2).is_admitted());
}

#[test]
fn settings_can_be_read() {
    let clock = ManualClock::new(at(60_000));
    let token = TokenBucket::with_clock(rate(1, 1_000), 5, clock.clone());
    assert!(token.try_acquire_many(4).is_admitted());
    clock.advance(ms(2_000));
    assert_eq!((token.capacity(), remaining(&token)), (5, 3));
    let config = WindowConfig::new(2, ms(1_000)).unwrap();
    let warm_up = WarmUp::with_clock(config, 30, WarmUpConfig::default(), clock).unwrap();
    assert_eq!((warm_up.limit(), warm_up.current_limit_at(at(62_000))), (30, 10));
    let rate = rate(30, 1_000);
    let printed = format!("{rate}, {rate:?}");
    assert_eq!(printed, "3 in 100ms, Rate { permits: 3, nanos: 100000000 }");
    let permit = ConcurrencyLimiter::new(2).try_acquire_many(2).map(|permit| format!("{permit:?}"));
    assert_eq!(permit, Decision::Admitted("ConcurrencyPermit { permits: 2, .. }".to_owned()));
}

#[test]
fn reference_to_a_limiter_is_a_limiter() {
    fn asked(limiter: impl Limiter) -> (Timestamp, bool, bool) {
        let [one, other] = [(); 2].map(|()| limiter.try_acquire_at(at(7_000), 1).is_admitted());
        (limiter.account().now(), one, other)
    }
    let limiter =
        || FixedWindowLimiter::with_clock(ms(1_000), 1, ManualClock::new(at(7_000))).unwrap();
    let expected = (at(7_000), true, false);
    let lent = limiter();
    assert_eq!(asked(&lent), expected);
    assert_eq!(asked(Box::new(limiter()) as Box<dyn Limiter<Permit = ()>>), expected);
    assert_eq!(asked(Arc::new(limiter())), expected);
}

#[test]
fn permit_is_given_back_whatever_happens() {
    let limit = ConcurrencyLimiter::new(3);
    let panicked = std::panic::catch_unwind(|| {
        let _permit = limit.try_acquire_many(2);
        assert!(limit.try_acquire_many(2).is_refused());
        assert!(limit.try_acquire().is_admitted());
        panic!("in the middle of a request");
    });
    assert!(panicked.is_err());
    assert_eq!(limit.in_use(), 0);
    let refusal = limit.try_acquire_many(4).refusal().unwrap();
    assert_eq!(refusal.reason, Reason::MoreThanLimit);
    assert!(ConcurrencyLimiter::new(0).try_acquire().is_refused());
    let permit = limit.try_acquire().at_once().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(permit));
    });
    assert_eq!(limit.in_use(), 0);
}
