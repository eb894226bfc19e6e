//! The limiters against plain reckonings, and over long times.

use std::collections::VecDeque;
use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leaparray::flow::{
    ConcurrencyLimit, Decision, FixedWindow, LeakyBucket, LimitError, Limiter, Rate, Reason,
    SlidingWindowLimiter, TokenBucket, WarmUp, WarmUpConfig, acquire_with,
};
use leaparray::{
    Clock, ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp, WindowConfig,
};
use proptest::prelude::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn rate(permits: u64, millis: u64) -> Rate {
    Rate::new(permits, ms(millis)).unwrap()
}

/// The permits of a sliding window, bucket by bucket: what the limiter must do, one at a time.
struct Reckoning {
    limit: u64,
    samples: u64,
    newest: u64,
    taken: Vec<(u64, u64)>,
}

impl Reckoning {
    fn of_window(&self, newest: u64) -> u64 {
        self.taken.iter().filter(|(bucket, _)| bucket + self.samples > newest).map(|t| t.1).sum()
    }

    /// Whether so many are admitted in a bucket; if not, the first bucket in which they might be.
    fn ask(&mut self, bucket: u64, permits: u64) -> Result<(), Option<u64>> {
        if permits == 0 {
            return Ok(());
        }
        self.newest = self.newest.max(bucket);
        if permits > self.limit {
            return Err(None);
        }
        if self.of_window(self.newest) + permits <= self.limit {
            self.taken.push((self.newest, permits));
            return Ok(());
        }
        let mut later = self.newest..;
        Err(later.find(|&newest| self.of_window(newest) + permits <= self.limit))
    }
}

fn steps() -> impl Strategy<Value = Vec<(i64, u64)>> {
    let step = prop_oneof![8 => 0..30_i64, 2 => -50..0_i64, 1 => 30..1_000_i64];
    proptest::collection::vec((step, 0..6_u64), 1..80)
}

proptest! {
    #[test]
    fn a_sliding_window_is_the_plain_reckoning(
        samples in 1..6_usize, limit in 0..12_u64, begin in 0..100_u64, steps in steps(),
    ) {
        const LEN: u64 = 10;
        let config = WindowConfig::new(samples, ms(LEN * samples as u64)).unwrap();
        let limiter = SlidingWindowLimiter::new(config, limit).unwrap();
        let mut reckoning =
            Reckoning { limit, samples: samples as u64, newest: 0, taken: Vec::new() };
        let mut time = begin;
        for (step, permits) in steps {
            time = time.saturating_add_signed(step);
            let expected = reckoning.ask(time / LEN, permits);
            let found = limiter.try_acquire_at(at(time), permits).into_result();
            let found = found.map(|_| ()).map_err(|refusal| refusal.retry_at);
            prop_assert_eq!(found, expected.map_err(|bucket| bucket.map(|bucket| at(bucket * LEN))));
            let free = limit - reckoning.of_window(reckoning.newest.max(time / LEN));
            prop_assert_eq!(limiter.available_at(at(time)), free);
        }
        // And what is free later, though nobody asks.
        for later in 0..samples as u64 + 2 {
            let free = limit - reckoning.of_window(reckoning.newest.max(time / LEN + later));
            prop_assert_eq!(limiter.available_at(at(time + later * LEN)), free);
        }
    }

    #[test]
    fn a_token_bucket_never_admits_more_than_its_burst_and_its_rate(
        permits in 1..50_u64, interval in 1..1_000_u64, capacity in 1..20_u64,
        steps in proptest::collection::vec((0..200_u64, 1..6_u64), 1..100),
    ) {
        let rate = rate(permits, interval);
        let bucket = TokenBucket::new(rate, capacity);
        let mut time = 1_000;
        let mut taken = VecDeque::new();
        for (step, permits_asked) in steps {
            time += step;
            let available = bucket.available_at(at(time));
            let decision = bucket.try_acquire_at(at(time), permits_asked);
            prop_assert_eq!(decision.is_admitted(), permits_asked <= available);
            if decision.is_admitted() {
                taken.push_back((time, permits_asked));
            } else if let Some(retry_at) = decision.refusal().unwrap().retry_at {
                prop_assert!(!bucket.try_acquire_at(
                    Timestamp::from_nanos(retry_at.as_nanos() - 1), permits_asked).is_admitted());
                prop_assert!(bucket.available_at(retry_at) >= permits_asked);
            }
            // Since each that was admitted: a burst, and what came since.
            let mut sum = 0;
            for &(since, count) in taken.iter().rev() {
                sum += count;
                let come = (time - since) * permits / interval;
                prop_assert!(sum <= capacity + come + 1, "{sum} since {since}");
            }
        }
    }
}

#[test]
fn nothing_is_asked_for_and_nothing_refused() {
    let none = SlidingWindowLimiter::new(WindowConfig::new(2, ms(1_000)).unwrap(), 0).unwrap();
    let bucket = LeakyBucket::new(rate(1, 1_000), ms(0));
    assert!(bucket.try_acquire_at(at(5), 1).is_admitted());
    for limiter in [&none as &dyn Limiter, &bucket, &TokenBucket::new(rate(1, 1_000), 0)] {
        assert!(limiter.try_acquire_at(at(5), 0).is_admitted());
        assert!(!limiter.try_acquire_at(at(5), 1).is_admitted());
    }
}

#[test]
fn who_asks_for_more_than_there_ever_is_need_not_come_again() {
    let config = WindowConfig::new(2, ms(1_000)).unwrap();
    let refused = [
        SlidingWindowLimiter::new(config, 5).unwrap().try_acquire_at(at(70), 6),
        FixedWindow::new(ms(1_000), 5).unwrap().try_acquire_at(at(70), 6),
        TokenBucket::new(rate(5, 1_000), 5).try_acquire_at(at(70), 6),
        WarmUp::new(config, 5, WarmUpConfig::default()).unwrap().try_acquire_at(at(70), 6),
    ];
    for decision in refused {
        let refusal = decision.refusal().unwrap();
        assert_eq!((refusal.reason, refusal.retry_at), (Reason::MoreThanLimit, None));
    }
}

#[test]
fn a_limit_that_does_not_fit_is_refused() {
    let config = WindowConfig::new(10, ms(10)).unwrap();
    let max = SlidingWindowLimiter::max_limit(&config);
    assert!(SlidingWindowLimiter::new(config, max).is_ok());
    let error = SlidingWindowLimiter::new(config, max + 1).unwrap_err();
    let bucket_len = ms(1);
    assert_eq!(error, LimitError::TooHigh { limit: max + 1, max, bucket_len });
    assert!(matches!(FixedWindow::new(ms(0), 1), Err(LimitError::NoWindow(_))));
    let warm = WarmUpConfig::default();
    assert_eq!(WarmUp::new(config, 0, warm).unwrap_err(), LimitError::Zero);
    assert!(matches!(WarmUp::new(config, max + 1, warm), Err(LimitError::TooHigh { .. })));
}

/// The highest limit and the last bucket of time share a word.
#[test]
fn at_the_end_of_time() {
    let config = WindowConfig::new(3, ms(3)).unwrap();
    let limit = SlidingWindowLimiter::max_limit(&config);
    let limiter = SlidingWindowLimiter::new(config, limit).unwrap();
    let warm_up = WarmUp::new(config, 9, WarmUpConfig::default()).unwrap();
    let leaky = LeakyBucket::new(rate(3, 10), ms(5));
    let token = TokenBucket::new(rate(3, 10), 2);
    let last = Timestamp::MAX;
    assert!(limiter.try_acquire_at(last, limit).is_admitted());
    let refusal = limiter.try_acquire_at(last, 1).refusal().unwrap();
    assert_eq!(refusal.retry_at, None, "time ends before");
    assert!(leaky.try_acquire_at(last, 1).is_admitted());
    assert!(!leaky.try_acquire_at(last, 1).is_admitted());
    assert!(!token.try_acquire_at(last, 1).is_admitted(), "it would be full after the end");
    assert!(warm_up.try_acquire_at(last, 3).is_admitted());
    assert!(!warm_up.try_acquire_at(last, 1).is_admitted());
    // And back.
    for limiter in [&limiter as &dyn Limiter, &leaky, &warm_up] {
        assert!(!limiter.try_acquire_at(at(1), 1).is_admitted());
    }
}

#[test]
fn the_beginning_of_time_counts() {
    let limiter = SlidingWindowLimiter::new(WindowConfig::new(2, ms(20)).unwrap(), 3).unwrap();
    assert!(limiter.try_acquire_at(at(0), 3).is_admitted());
    assert!(!limiter.try_acquire_at(at(10), 1).is_admitted());
    assert!(limiter.try_acquire_at(at(20), 1).is_admitted());
    let leaky = LeakyBucket::new(rate(1, 10), ms(11));
    assert_eq!(leaky.try_acquire_at(at(0), 1), Decision::Admitted(()));
    assert!(matches!(leaky.try_acquire_at(at(0), 1), Decision::Wait((), _)));
}

/// As many as come in ten minutes, at rates that are no whole number of nanoseconds.
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

/// Ten minutes of requests, each 1 to 2 ms after the last: how many are admitted.
fn ten_minutes(limiter: &impl Limiter) -> u64 {
    let (begin, mut step, mut admitted) = (1_540_629_600_000_000_000_u64, 0, 0);
    let mut nanos = begin;
    while nanos < begin + 600_000_000_000 {
        admitted +=
            u64::from(limiter.try_acquire_at(Timestamp::from_nanos(nanos), 1).is_admitted());
        // Multiples of the golden ratio are as good as random.
        step += 1;
        nanos += 1_000_000 + (step * 618_033_989_u64) % 1_000_000_000 / 1_000;
    }
    admitted
}

#[test]
fn ten_minutes_of_too_many_requests() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let sliding = SlidingWindowLimiter::new(config, 123).unwrap();
    assert_eq!(ten_minutes(&sliding), 123 * 600);
    assert_eq!(ten_minutes(&FixedWindow::new(ms(1_000), 123).unwrap()), 123 * 600);
    // What comes in the time, and what there was: the last may have come just before the next token.
    let token = ten_minutes(&TokenBucket::new(rate(123, 1_000), 50));
    assert!((123 * 600 + 49..=123 * 600 + 50).contains(&token), "{token}");
    // What is due early waits, up to 100 ms, so that as many go ahead after the end.
    let leaky = ten_minutes(&LeakyBucket::new(rate(123, 1_000), ms(100)));
    assert!((123 * 600 + 11..=123 * 600 + 13).contains(&leaky), "{leaky}");
    // Nobody waits: there is no request at the very time at which one is due.
    let strict = ten_minutes(&LeakyBucket::new(rate(123, 1_000), ms(0)));
    assert!((110 * 600..123 * 600).contains(&strict), "{strict}");
}

#[test]
fn a_burst_is_never_above_the_capacity() {
    // From one in four nanoseconds on, a nanosecond is not a token.
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
    // Faster, it may be one less, and never more but at a nanosecond or two for each.
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
    assert_eq!(bucket.try_acquire_at(at(1_000), 50), Decision::Admitted(()), "the first of all");
    assert_eq!(bucket.try_acquire_at(at(1_000), 3), Decision::Wait((), ms(300)));
    let refusal = bucket.try_acquire_at(at(1_000), 8).refusal().unwrap();
    assert_eq!(refusal.retry_at, Some(at(1_100)));
    assert_eq!(bucket.try_acquire_at(at(2_100), 8), Decision::Admitted(()), "that time is past");
}

#[test]
fn time_that_goes_back_gives_nothing_back() {
    let limiter = SlidingWindowLimiter::new(WindowConfig::new(4, ms(40)).unwrap(), 2).unwrap();
    assert!(limiter.try_acquire_at(at(100), 1).is_admitted());
    // Counted with what is newest.
    assert!(limiter.try_acquire_at(at(5), 1).is_admitted());
    assert!(!limiter.try_acquire_at(at(5), 1).is_admitted());
    assert!(!limiter.try_acquire_at(at(139), 1).is_admitted());
    assert!(limiter.try_acquire_at(at(140), 2).is_admitted());
}

/// Ten minutes of a request every millisecond, with four of silence in the middle.
#[test]
fn warming_up_takes_its_period_and_cooling_down_is_seen() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let warm_up = WarmUp::new(config, 120, WarmUpConfig::default()).unwrap();
    let begin = 7_000_000;
    let second_of = |second: u64| {
        let times = (0..1_000).map(|millis| at(begin + second * 1_000 + millis));
        times.filter(|&now| warm_up.try_acquire_at(now, 1).is_admitted()).count()
    };
    let first: Vec<_> = (0..180).map(second_of).collect();
    assert!((40..=42).contains(&first[0]), "{}", first[0]);
    assert!(first.is_sorted(), "{first:?}");
    let warm_after = first.iter().position(|&admitted| admitted == 120).unwrap();
    assert!((9..=11).contains(&warm_after), "{warm_after} s");
    let second: Vec<_> = (420..600).map(second_of).collect();
    for (first, second) in first.iter().zip(&second).take(20) {
        assert!(first.abs_diff(*second) <= 1, "{first} {second}: as cold as in the beginning");
    }
}

#[test]
fn a_warm_service_under_some_demand_stays_warm_and_under_little_cools() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let warm_up = WarmUp::new(config, 90, WarmUpConfig::default()).unwrap();
    let begin = 7_000_000;
    let demand = |seconds: std::ops::Range<u64>, every: usize| {
        for millis in (seconds.start * 1_000..seconds.end * 1_000).step_by(every) {
            let _ = warm_up.try_acquire_at(at(begin + millis), 1);
        }
        warm_up.current_limit_at(at(begin + seconds.end * 1_000))
    };
    assert_eq!(demand(0..15, 1), 90);
    assert_eq!(demand(15..200, 20), 90, "50 a second are more than a cold service admits");
    assert_eq!(demand(200..300, 20), 90);
    assert!(demand(300..330, 50) < 45, "20 a second are less");
}

/// A little less than a cold service admits, but in tens, of which each fourth is refused.
#[test]
fn demand_that_is_refused_warms() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let warm_up = WarmUp::new(config, 100, WarmUpConfig::default()).unwrap();
    let begin = 7_000_000;
    for bucket in 0..200 {
        for _ in 0..5 {
            let _ = warm_up.try_acquire_at(at(begin + bucket * 100), 10);
        }
    }
    assert_eq!(warm_up.current_limit_at(at(begin + 20_000)), 100);
}

#[test]
fn who_asks_for_more_than_a_cold_service_has_goes_alone() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let warm_up = WarmUp::new(config, 90, WarmUpConfig::default()).unwrap();
    let begin = 7_000_000;
    assert!(warm_up.try_acquire_at(at(begin), 31).is_admitted());
    let refusal = warm_up.try_acquire_at(at(begin + 100), 31).refusal().unwrap();
    assert_eq!(refusal.retry_at, Some(at(begin + 200)), "it might be warm by then");
    assert!(!warm_up.try_acquire_at(at(begin + 900), 31).is_admitted());
    assert!(warm_up.try_acquire_at(at(begin + 1_000), 31).is_admitted());
    // And so it warms.
    for bucket in 0..600 {
        let _ = warm_up.try_acquire_at(at(begin + 1_100 + bucket * 100), 31);
    }
    assert_eq!(warm_up.current_limit_at(at(begin + 61_100)), 90);
}

/// A period has more buckets than there are parts of a token to count.
#[test]
fn a_long_period_of_short_buckets_warms_in_time_and_cools() {
    let config = WindowConfig::new(10, ms(10)).unwrap();
    let period = Duration::from_secs(300);
    let warm_up = WarmUp::new(config, 1_000, WarmUpConfig::new(period, 3.0).unwrap()).unwrap();
    let begin = 7_000_000;
    let warm_after = (0..400_000).find(|bucket| {
        for permits in [100, 50, 20, 10, 10, 5, 5] {
            let _ = warm_up.try_acquire_at(at(begin + bucket), permits);
        }
        warm_up.current_limit_at(at(begin + bucket)) == 1_000
    });
    let warm_after = warm_after.unwrap();
    assert!((280_000..320_000).contains(&warm_after), "{warm_after} ms");
    for bucket in warm_after..warm_after + 400_000 {
        assert!(warm_up.try_acquire_at(at(begin + bucket), 1).is_admitted());
    }
    let cold = warm_up.current_limit_at(at(begin + warm_after + 400_000));
    assert!((333..340).contains(&cold), "{cold}");
}

#[test]
fn the_highest_of_all_limits_warms_up() {
    let config = WindowConfig::new(1, Duration::from_nanos(u64::MAX)).unwrap();
    let limit = SlidingWindowLimiter::max_limit(&config);
    let warm_up = WarmUp::new(config, limit, WarmUpConfig::default()).unwrap();
    assert!(warm_up.try_acquire_at(at(5), limit).is_admitted(), "alone");
    assert!(!warm_up.try_acquire_at(at(5), 1).is_admitted());
    assert!(!warm_up.try_acquire_at(at(5), u64::MAX).is_admitted());
}

#[test]
fn a_warm_service_says_when_permits_come_back() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let warm_up = WarmUp::new(config, 90, WarmUpConfig::default()).unwrap();
    let begin = 7_000_000;
    let refusal = (0..200).find_map(|bucket| {
        let now = at(begin + bucket * 100);
        let refusal = (0..9).find_map(|_| warm_up.try_acquire_at(now, 5).refusal());
        refusal.filter(|_| bucket > 150).map(|refusal| (now, refusal))
    });
    let (now, refusal) = refusal.unwrap();
    assert_eq!(warm_up.current_limit_at(now), 90);
    let retry_at = refusal.retry_at.unwrap();
    assert!(retry_at > now);
    let before = Timestamp::from_nanos(retry_at.as_nanos() - 1);
    assert!(!warm_up.try_acquire_at(before, 5).is_admitted());
    assert!(warm_up.try_acquire_at(retry_at, 5).is_admitted());
}

#[test]
fn asking_again_is_worth_while_at_the_time_that_was_named() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let clock = ManualClock::new(at(5_000));
    let limiters: [Box<dyn Limiter>; 4] = [
        Box::new(SlidingWindowLimiter::with_clock(config, 3, clock.clone()).unwrap()),
        Box::new(FixedWindow::with_clock(ms(700), 3, clock.clone()).unwrap()),
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
            let acquire = pin!(acquire_with(&limiter, permits, ms(5_000), sleep));
            let polled = acquire.poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled, Poll::Ready(Ok(())));
            assert!(clock.now().saturating_since(asked) <= ms(1_000));
        }
    }
}

#[test]
fn patience_runs_out_before_the_wait_not_after() {
    let clock = ManualClock::new(at(5_000));
    let bucket = TokenBucket::with_clock(rate(1, 1_000), 1, clock.clone());
    assert!(bucket.try_acquire().is_admitted());
    let patience = |millis| {
        let sleep = |wait| {
            clock.advance(wait);
            ready(())
        };
        let acquire = pin!(acquire_with(&bucket, 1, ms(millis), sleep));
        acquire.poll(&mut Context::from_waker(Waker::noop())).map(|result| result.is_ok())
    };
    assert_eq!(patience(999), Poll::Ready(false));
    assert_eq!(clock.now(), at(5_000), "nobody slept");
    assert_eq!(patience(1_000), Poll::Ready(true));
    assert_eq!(clock.now(), at(6_000));
}

#[test]
fn a_permit_is_given_back_whatever_happens() {
    let limit = ConcurrencyLimit::new(3);
    let panicked = std::panic::catch_unwind(|| {
        let _permit = limit.try_acquire_many(2);
        assert!(!limit.try_acquire_many(2).is_admitted());
        assert!(limit.try_acquire().is_admitted());
        panic!("as a request may");
    });
    assert!(panicked.is_err());
    assert_eq!(limit.in_use(), 0);
    let refusal = limit.try_acquire_many(4).refusal().unwrap();
    assert_eq!(refusal.reason, Reason::MoreThanLimit);
    assert!(!ConcurrencyLimit::new(0).try_acquire().is_admitted());
    let (permit, _) = limit.try_acquire().into_result().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(permit));
    });
    assert_eq!(limit.in_use(), 0);
}

#[test]
fn who_is_held_up_sees_what_has_passed_a_node_meanwhile() {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(at(60_000)));
    let limiter = SlidingWindowLimiter::new(*node.config().second(), 10).unwrap();
    node.enter_many_at(at(60_500), 9).success_at(at(60_500));
    let enter =
        |now| limiter.enter_at(&node, now).into_result().map(|(entry, _)| entry.success_at(now));
    assert!(enter(at(60_500)).is_ok());
    assert!((0..10).all(|_| enter(at(60_499)).is_err()));
}

#[test]
fn what_can_never_be_had_is_no_demand() {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    let warm_up = WarmUp::new(config, 10, WarmUpConfig::default()).unwrap();
    let begin = 7_000_000;
    for bucket in 0..400 {
        for _ in 0..10 {
            let _ = warm_up.try_acquire_at(at(begin + bucket * 100), 1);
        }
    }
    assert_eq!(warm_up.current_limit_at(at(begin + 40_000)), 10);
    for bucket in 400..1_400 {
        assert!(!warm_up.try_acquire_at(at(begin + bucket * 100), 11).is_admitted());
    }
    assert_eq!(warm_up.current_limit_at(at(begin + 140_000)), 3);
}

#[test]
fn what_passes_a_node_beside_its_limiter_counts() {
    let clock = ManualClock::new(at(60_000));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let limiter =
        SlidingWindowLimiter::with_clock(*node.config().second(), 10, clock.clone()).unwrap();
    let enter = || limiter.enter(&node).into_result().map(|(entry, _)| entry.success()).is_ok();
    node.enter_many(6).success();
    assert_eq!((0..10).filter(|_| enter()).count(), 4);
    let refusal = limiter.enter_many_at(&node, clock.now(), 5).refusal().unwrap();
    assert_eq!(refusal.retry_at, Some(at(60_500)), "what came beside may leave");
    let refusal = limiter.enter_many_at(&node, clock.now(), 7).refusal().unwrap();
    assert_eq!(refusal.retry_at, Some(at(61_000)), "some of the four have to");
    assert_eq!(node.minute_sum(MetricEvent::Pass), 10);
    assert_eq!(node.minute_sum(MetricEvent::Block), 6 + 5 + 7);
    clock.advance(ms(1_000));
    // Taken of the next bucket before: it passes there.
    let occupied = node.try_occupy_next(7, 10).unwrap();
    clock.advance(occupied.wait());
    assert_eq!((0..10).filter(|_| enter()).count(), 3);
    node.enter_occupied(occupied).success();
    assert_eq!(node.concurrency(), 0);
}
