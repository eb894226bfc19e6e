//! The adaptive breaker, with a manual clock and known random numbers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Success};
use leaparray::flow::{
    AdaptiveBreaker, BreakerConfig, BreakerPermit, RandomSource, Reason, Retry, SeededRandom,
    ThreadRandom,
};
use leaparray::{ManualClock, OnDrop, Timestamp, WindowConfig};

const NOON: Timestamp = Timestamp::from_secs(43_200);
const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// A random source that always draws 0, which drops each request whose drop probability is above zero.
struct Strict;

impl RandomSource for Strict {
    fn next_u32(&self) -> u32 {
        0
    }
}

type Breaker<R> = AdaptiveBreaker<ManualClock, R>;

fn breaker<R: RandomSource>(config: BreakerConfig, random: R) -> (Breaker<R>, ManualClock) {
    let clock = ManualClock::new(NOON);
    (AdaptiveBreaker::with_source(config, clock.clone(), random), clock)
}

/// A breaker without a minimum of requests that drops each request whose drop probability is above zero, except for
/// probes.
fn strict() -> (Breaker<Strict>, ManualClock) {
    breaker(BreakerConfig::default().min_requests(0), Strict)
}

/// The numbers of requests that were accepted, rejected and dropped.
fn counts<R: RandomSource>(breaker: &Breaker<R>) -> [u64; 3] {
    [Success, Exception, Block].map(|event| breaker.window().lifetime().sum(event))
}

/// Asks for one request, which the backend accepts or rejects at once. Returns whether the request got through.
fn ask<R: RandomSource>(breaker: &Breaker<R>, accepts: bool) -> bool {
    match breaker.try_acquire().at_once() {
        Ok(permit) => {
            if accepts {
                permit.accept();
            } else {
                permit.reject();
            }
            true
        }
        Err(_) => false,
    }
}

#[test]
fn draws_are_as_likely_low_as_high() {
    fn low(random: impl RandomSource) -> usize {
        (0..1_000).filter(|_| random.next_u32() < 1 << 31).count()
    }
    let seeded = low(SeededRandom::new(7));
    for low in [seeded, low(ThreadRandom)] {
        // A number outside of this range has a probability below 10⁻²⁰.
        assert!((350..=650).contains(&low), "{low}");
    }
    let [lent, shared] = [(); 2].map(|()| Arc::new(SeededRandom::new(7)));
    assert_eq!([low(&*lent), low(shared)], [seeded; 2]);
}

#[test]
fn nothing_is_dropped_while_all_is_accepted() {
    let (breaker, clock) = strict();
    for _ in 0..60_000 {
        assert!(ask(&breaker, true));
        clock.advance(MILLI);
    }
    assert_eq!(counts(&breaker), [60_000, 0, 0]);
}

#[test]
fn nothing_is_dropped_while_one_in_k_is_accepted() {
    let (breaker, clock) = breaker(BreakerConfig::default().k(2.0).unwrap(), Strict);
    for number in 0..60_000 {
        assert!(ask(&breaker, number % 2 == 0));
        clock.advance(MILLI);
    }
}

#[test]
fn first_requests_are_never_dropped() {
    for min_requests in [0, 1, 5, 100] {
        let (breaker, _) = breaker(BreakerConfig::default().min_requests(min_requests), Strict);
        for _ in 0..=min_requests {
            assert!(ask(&breaker, false));
        }
        assert!(
            ask(&breaker, false),
            "a probe: no request that might be dropped got through before"
        );
        assert!(!ask(&breaker, false));
        assert_eq!(counts(&breaker), [0, min_requests + 2, 1]);
    }
}

#[test]
fn decision_reflects_the_request_that_ended_last() {
    let (breaker, _) = strict();
    let [one, two, three] =
        [(); 3].map(|()| breaker.try_acquire().at_once().expect("nothing has ended"));
    assert!(ask(&breaker, false));
    // The drop probability is 1 / 2. The first request that might be dropped is a probe, and the next one is dropped.
    assert!(ask(&breaker, false) && !ask(&breaker, true));
    // 1 of 4 requests is accepted: (4 − 1.5 · 1) / 5 = 0.5.
    one.accept();
    assert!((breaker.drop_probability() - 0.5).abs() < 1e-9);
    assert!(!ask(&breaker, true));
    // 3 of 7 requests are accepted, still fewer than 2 in 3: (7 − 1.5 · 3) / 8 = 2.5 / 8.
    two.accept();
    three.accept();
    assert!((breaker.drop_probability() - 2.5 / 8.0).abs() < 1e-9);
    assert_eq!(counts(&breaker), [3, 2, 2]);
}

#[test]
fn nothing_is_dropped_once_enough_is_accepted() {
    let (breaker, _) = strict();
    let permits = [(); 4].map(|()| breaker.try_acquire().at_once().expect("nothing has ended"));
    assert!(ask(&breaker, false) && ask(&breaker, false));
    permits.into_iter().for_each(BreakerPermit::accept);
    for _ in 0..100 {
        assert!(ask(&breaker, true));
    }
}

#[test]
fn breaker_recovers_by_time_alone() {
    let (breaker, clock) = strict();
    // The clock does not advance, so all of these are in one slice of one bucket.
    for _ in 0..10 {
        ask(&breaker, false);
    }
    assert!(!ask(&breaker, false));
    clock.advance(SECOND * 10);
    // The first request might be a probe. The second one gets through only if the drop probability is zero.
    let through = [(); 2].map(|()| breaker.try_acquire().map(BreakerPermit::cancel).is_admitted());
    assert_eq!(through, [true, true]);
}

#[test]
fn drops_count_as_requests_from_the_next_slice_on() {
    let (breaker, clock) = strict();
    for _ in 0..100 {
        ask(&breaker, false);
    }
    let [accepts, rejects, drops] = counts(&breaker);
    assert_eq!((accepts, rejects, drops), (0, 2, 98));
    clock.advance(MILLI * 9);
    let refusal = breaker.try_acquire().refusal().expect("the drop probability is above zero");
    assert_eq!(refusal.retry_at(), Some(NOON.saturating_add(SECOND)), "the time of the next probe");
    assert!((breaker.drop_probability() - 101.0 / 102.0).abs() < 1e-9);
}

#[test]
fn refusal_has_the_retry_time() {
    let config = BreakerConfig::default().k(1.0).unwrap().min_requests(0);
    let (breaker, clock) = breaker(config, Strict);
    assert!(ask(&breaker, true) && ask(&breaker, false));
    assert!(breaker.try_acquire().at_once().map(BreakerPermit::cancel).is_ok());
    clock.advance(MILLI);
    let refusal = breaker.try_acquire().refusal().expect("a drop probability of 1 / 3");
    assert_eq!(refusal.reason, Reason::Failing);
    assert_eq!(refusal.retry, Retry::Unknown, "the next draw may differ");

    let breaker = strict().0;
    assert!(ask(&breaker, false) && ask(&breaker, false));
    let refusal = breaker.try_acquire().refusal().expect("a drop probability of 2 / 3");
    assert_eq!(refusal.retry_at(), Some(NOON.saturating_add(SECOND)), "the next probe");
    assert!(breaker.try_acquire_at(refusal.retry_at().unwrap()).is_admitted());
}

#[test]
fn backend_that_fails_entirely_is_probed_once_a_second() {
    let (breaker, clock) = strict();
    assert!(ask(&breaker, false));
    let mut last_probe: Option<u32> = None;
    let mut probes = 0;
    for millis in 0..60_000 {
        if ask(&breaker, false) {
            assert!(
                last_probe.is_none_or(|last| millis - last == 1_000),
                "{last_probe:?} {millis}"
            );
            last_probe = Some(millis);
            probes += 1;
        }
        clock.advance(MILLI);
    }
    assert_eq!(probes, 60);
    assert_eq!(counts(&breaker), [0, 61, 59_940]);
}

/// A request that gets through by chance postpones the next probe.
#[test]
fn probe_comes_a_second_after_the_last_that_got_through() {
    struct Nth(std::sync::atomic::AtomicU32);
    impl RandomSource for Nth {
        fn next_u32(&self) -> u32 {
            let before = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if before == 500 { u32::MAX } else { 0 }
        }
    }
    let config = BreakerConfig::default().min_requests(0);
    let (breaker, clock) = breaker(config, Nth(0.into()));
    ask(&breaker, false);
    let passes: Vec<_> = (0..2_000)
        .filter(|_| {
            clock.advance(MILLI);
            ask(&breaker, false)
        })
        .collect();
    assert_eq!(passes, [0, 500, 1_500]);
}

#[test]
fn permit_counts_once_however_it_ends() {
    let (breaker, _) = breaker(BreakerConfig::default(), Strict);
    let acquire = || breaker.try_acquire().at_once().expect("too few requests to drop one");
    acquire().accept();
    acquire().reject();
    acquire().cancel();
    assert_eq!(counts(&breaker), [1, 1, 0]);
    drop(acquire());
    assert_eq!(counts(&breaker), [1, 2, 0]);
    let early_return = || -> Option<()> {
        let permit = acquire();
        None::<()>?;
        permit.accept();
        Some(())
    };
    assert_eq!(early_return(), None);
    assert_eq!(counts(&breaker), [1, 3, 0]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _promise = acquire();
        panic!("in the middle of a request");
    }));
    assert!(panicked.is_err());
    assert_eq!(counts(&breaker), [1, 4, 0]);
    let later = NOON.saturating_add(SECOND);
    acquire().accept_at(later);
    acquire().reject_at(later);
    assert_eq!(counts(&breaker), [2, 5, 0]);
    let later = breaker.window().buckets_at(later).last().expect("the last bucket").totals;
    assert_eq!((later.sum(Success), later.sum(Exception)), (1, 1));
}

#[tokio::test]
async fn owned_permit_is_accepted_on_another_task() {
    let clock = ManualClock::new(NOON);
    let breaker = Arc::new(AdaptiveBreaker::with_clock(BreakerConfig::default(), clock));
    let acquire = || breaker.try_acquire_owned().at_once().expect("too few requests to drop one");
    let permit = acquire();
    tokio::spawn(async move { permit.accept() }).await.expect("the task does not panic");
    let permit = acquire();
    let cancelled = tokio::spawn(async move {
        std::future::pending::<()>().await;
        permit.accept();
    });
    cancelled.abort();
    assert!(cancelled.await.is_err());
    assert_eq!([Success, Exception].map(|event| breaker.window().sum(event)), [1, 1]);
}

#[test]
fn time_that_stands_still() {
    let (breaker, _) = strict();
    let through = (0..10_000).filter(|_| ask(&breaker, false)).count();
    assert_eq!(through, 2, "the first request, and a probe");
    assert_eq!(counts(&breaker), [0, 2, 9_998]);
}

/// A thread reads its clock in the last nanosecond of a bucket, stalls, and reports an acceptance at that stale
/// timestamp.
#[test]
fn rejection_counts_requests_that_end_in_the_bucket_before() {
    let config = BreakerConfig::default().min_requests(0).k(1.0).unwrap();
    let (breaker, _) = breaker(config, Strict);
    let held_up = Timestamp::from_nanos(NOON.as_nanos() - 1);
    let [first, second, third] =
        [(); 3].map(|()| breaker.try_acquire_at(held_up).at_once().unwrap());
    first.reject_at(NOON);
    breaker.try_acquire_at(NOON).at_once().unwrap().cancel();
    assert!(breaker.try_acquire_at(NOON).is_refused(), "the probe is used up");
    second.accept_at(held_up);
    assert!(breaker.drop_probability_at(NOON) > 0.0);
    assert!(
        (0..100).all(|_| !breaker.try_acquire_at(NOON).map(BreakerPermit::cancel).is_admitted())
    );
    third.accept_at(NOON);
}

/// Two threads ask in turn. The timestamp of one of them is behind by two probe intervals.
#[test]
fn stale_timestamp_gets_no_probe_of_its_own() {
    let config = BreakerConfig::default().min_requests(0).probe_interval(MILLI).unwrap();
    let (breaker, _) = breaker(config, Strict);
    let in_time = NOON.saturating_add(MILLI * 3);
    for _ in 0..2 {
        breaker.try_acquire_at(in_time).at_once().unwrap().reject_at(in_time);
    }
    for now in [NOON.saturating_add(MILLI), in_time].repeat(10) {
        assert!(breaker.try_acquire_at(now).map(BreakerPermit::cancel).is_refused(), "{now}");
    }
}

#[test]
fn time_that_goes_back() {
    let (breaker, clock) = strict();
    for _ in 0..100 {
        ask(&breaker, false);
        clock.advance(MILLI * 20);
    }
    // Back by less than the window, as with a stale timestamp. Probes begin again once time has caught up.
    clock.set(NOON.saturating_sub(SECOND).saturating_add(MILLI * 500));
    assert!(ask(&breaker, false), "the window at that time is empty");
    let through = (0..300).filter(|_| {
        clock.advance(MILLI * 10);
        ask(&breaker, false)
    });
    assert!((1..=2).contains(&through.count()));
    // Back by much more than the window: all earlier counts are ahead, so no request is dropped.
    clock.set(Timestamp::from_secs(1));
    let before = counts(&breaker);
    assert!((0..100).all(|_| ask(&breaker, true)));
    clock.set(NOON.saturating_add(SECOND * 2));
    assert!(!ask(&breaker, true));
    assert_eq!(counts(&breaker), [before[0] + 100, before[1], before[2] + 1], "no count is lost");
}

#[test]
fn both_ends_of_time() {
    for (end, retry) in
        [(Timestamp::MIN, Retry::Unknown), (Timestamp::MAX, Retry::At(Timestamp::MAX))]
    {
        let (breaker, clock) = strict();
        clock.set(end);
        assert!(ask(&breaker, false));
        let through = (0..100).filter(|_| ask(&breaker, false)).count();
        // The time of the last pass is 0 at first, as if a request had got through at the beginning of time.
        assert_eq!(through, usize::from(end == Timestamp::MAX));
        let refusal = breaker.try_acquire().refusal().expect("all requests have failed");
        // At a probability of one half, the time to ask again is unknown. Above, it is the next probe, before which time
        // ends.
        assert_eq!(refusal.retry, retry);
    }
}

#[test]
fn windows_of_any_size() {
    let nanos = Duration::from_nanos;
    for window in [
        WindowConfig::new(1, nanos(2)),
        WindowConfig::new(3, nanos(300)),
        WindowConfig::new(2, SECOND * 86_400),
        WindowConfig::new(1, nanos(u64::MAX)),
    ] {
        let config = BreakerConfig::default().window(window.unwrap()).min_requests(0);
        let (breaker, clock) = breaker(config, Strict);
        assert!(ask(&breaker, false) && ask(&breaker, false));
        assert!(!ask(&breaker, false), "{config:?}");
        clock.advance(window.unwrap().interval());
        assert!(ask(&breaker, true), "{config:?}");
    }
}

/// Simulates ten minutes of 100 requests a second, which take 30 ms each, while the backend is down from minute 3 to 5.
/// Returns how many requests of each second got through.
fn simulate(seed: u64) -> Vec<u32> {
    let (breaker, clock) = breaker(BreakerConfig::default(), SeededRandom::new(seed));
    let mut seconds = vec![0; 600];
    let mut under_way: VecDeque<Option<BreakerPermit<_, _, _>>> = VecDeque::new();
    for tick in 0..60_000 {
        if under_way.len() == 3 {
            let is_down = (18_000..30_000).contains(&tick);
            match under_way.pop_front().flatten() {
                Some(permit) if !is_down => permit.accept(),
                // The permit of a failed request is dropped, as on an early return, which rejects. A dropped request
                // has no permit.
                Some(_) | None => {}
            }
        }
        let permit = breaker.try_acquire().at_once().ok();
        seconds[tick / 100] += u32::from(permit.is_some());
        under_way.push_back(permit);
        clock.advance(MILLI * 10);
    }
    seconds
}

#[test]
fn ten_minutes_with_an_outage_in_the_middle() {
    for seed in [1, 2] {
        let seconds = simulate(seed);
        let sent = |from: usize, to: usize| seconds[from..to].iter().sum::<u32>();
        assert_eq!(sent(0, 180), 18_000, "no request is dropped before the outage");
        assert!((400..800).contains(&sent(180, 190)), "requests are dropped within ten seconds");
        for tens in (190..300).step_by(10) {
            // About one probe a second, and up to as many requests that get through by chance.
            assert!((9..=22).contains(&sent(tens, tens + 10)), "{}", sent(tens, tens + 10));
        }
        assert!(sent(300, 310) < 60, "few requests get through at first: {}", sent(300, 310));
        assert!(sent(350, 360) > 900, "within a minute, 9 of 10 get through: {}", sent(350, 360));
        assert_eq!(sent(360, 600), 24_000, "no request is dropped a minute after the outage");
    }
}

#[test]
fn clients_that_go_away_do_not_make_the_breaker_drop_requests() {
    let refused_of = |policy| {
        let config = BreakerConfig::default().on_drop(policy);
        let (breaker, clock) = breaker(config, SeededRandom::new(1));
        let refused = (0..1_000).filter(|_| {
            clock.advance(MILLI);
            !breaker.try_acquire().is_admitted()
        });
        (refused.count(), breaker)
    };
    let (refused, breaker) = refused_of(OnDrop::Cancelled);
    assert_eq!((refused, counts(&breaker)), (0, [0, 0, 0]));
    assert_eq!(breaker.window().lifetime().sum(Cancelled), 1_000);
    assert!(refused_of(OnDrop::Exception).0 > 500, "by default, a drop rejects");
}

#[test]
fn permit_that_is_dropped_follows_its_own_policy_and_a_panic_rejects() {
    let (breaker, _) = breaker(BreakerConfig::default(), ThreadRandom);
    let cancelled = |breaker: &Breaker<_>| breaker.window().lifetime().sum(Cancelled);
    drop(breaker.try_acquire().map(|permit| permit.on_drop(OnDrop::Cancelled)));
    assert_eq!((counts(&breaker), cancelled(&breaker)), ([0, 0, 0], 1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = breaker.try_acquire().map(|permit| permit.on_drop(OnDrop::Cancelled));
        panic!("in the middle of a request");
    }));
    assert!(panicked.is_err());
    assert_eq!((counts(&breaker), cancelled(&breaker)), ([0, 1, 0], 1));
}

#[test]
fn cancelled_request_does_not_change_the_drop_probability() {
    let (breaker, _) = strict();
    let permits: Vec<_> = (0..5).map(|_| breaker.try_acquire().at_once().unwrap()).collect();
    for _ in 0..3 {
        breaker.window().add(Exception, 1);
    }
    let before = breaker.drop_probability();
    assert!(before > 0.5);
    for permit in permits {
        permit.cancel_at(NOON);
    }
    assert_eq!(breaker.drop_probability().to_bits(), before.to_bits());
}
