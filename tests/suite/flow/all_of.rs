//! Several limiters as one: a request is charged to all of them, or to none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::MetricEvent::{Cancelled, Exception, Success};
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{
    AdaptiveBreaker, AllOf, Ask, BoxLimiter, ConcurrencyLimiter, Decision, FixedWindowLimiter,
    LeakyBucket, Limiter, LimiterExt, Rate, Reason, Refusal, Retry, SlidingWindowLimiter,
    TokenBucket,
};
use leaparray::{
    Clock, Entry, ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp, WindowConfig,
};
use proptest::prelude::*;

use crate::flow::{at, ms, remaining};

fn fixed(millis: u64, limit: u64) -> FixedWindowLimiter<ManualClock> {
    FixedWindowLimiter::with_clock(ms(millis), limit, ManualClock::new(at(60_000))).unwrap()
}

fn token(capacity: u64) -> TokenBucket<ManualClock> {
    let clock = ManualClock::new(at(60_000));
    TokenBucket::with_clock(Rate::per_second(10).unwrap(), capacity, clock)
}

proptest! {
    /// Compared with a list of the admitted requests: 5 in each 100 ms, 12 in each window of 4 ×
    /// 100 ms, and 30 in each second.
    #[test]
    fn request_is_admitted_if_it_is_within_all_limits(
        steps in proptest::collection::vec((0..60_u64, 0..7_u64), 1..100),
    ) {
        let window = WindowConfig::new(4, ms(400)).unwrap();
        let three = || -> (_, _, _) {
            (
                FixedWindowLimiter::new(ms(100), 5).unwrap(),
                SlidingWindowLimiter::of_buckets(window, 12).unwrap(),
                FixedWindowLimiter::new(ms(1_000), 30).unwrap(),
            )
        };
        let tuple = AllOf::new(three());
        let boxed: Vec<BoxLimiter> = {
            let (a, b, c) = three();
            vec![a.boxed(), b.boxed(), c.boxed()]
        };
        let list = AllOf::new(boxed);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        let mut time = 60_000;
        for (step, permits) in steps {
            time += step;
            let since = |start: u64| -> u64 {
                admitted.iter().filter(|&&(time, _)| time >= start).map(|&(_, count)| count).sum()
            };
            let left = [
                5 - since(time / 100 * 100),
                12 - since((time / 100 - 3) * 100),
                30 - since(time / 1_000 * 1_000),
            ];
            let is_within = left.iter().all(|&left| permits <= left);
            let peek = tuple.peek_at(at(time), permits).unwrap();
            prop_assert_eq!(list.peek_at(at(time), permits), Some(peek));
            let decision = tuple.try_acquire_at(at(time), permits);
            prop_assert_eq!(decision.is_admitted(), is_within);
            prop_assert_eq!(decision.map(drop), peek);
            prop_assert_eq!(list.try_acquire_at(at(time), permits).map(drop), peek);
            let (a, b, c) = tuple.limiters();
            let available = [a.quota_at(at(time)).unwrap().remaining, b.quota_at(at(time)).unwrap().remaining, c.quota_at(at(time)).unwrap().remaining];
            let taken = if is_within { permits } else { 0 };
            prop_assert_eq!(available, left.map(|left| left - taken), "charged to all, or to none");
            let quotas = list.limiters().iter().map(|it| it.quota_at(at(time)).unwrap().remaining);
            prop_assert!(quotas.eq(available));
            prop_assert_eq!(tuple.quota_at(at(time)).unwrap().remaining, *available.iter().min().unwrap());
            if is_within {
                admitted.push((time, permits));
            } else if let Retry::At(retry_at) = peek.refusal().unwrap().retry() {
                let before = Timestamp::from_nanos(retry_at.as_nanos() - 1);
                prop_assert!(tuple.peek_at(before, permits).unwrap().is_refused());
                prop_assert!(tuple.peek_at(retry_at, permits).unwrap().is_admitted());
            }
        }
    }
}

/// Refuses each request, and says before that it would admit it, as a limiter whose last permit
/// another thread takes. With `tells` false, it cannot tell.
#[derive(Default)]
struct Overtaken {
    tells: bool,
    asked: AtomicU64,
}

const OVERTAKEN: Refusal = Refusal::new(Reason::Custom("overtaken"), Retry::Unknown);

impl Limiter for Overtaken {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Decision::Refused(OVERTAKEN)
    }

    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        self.tells.then_some(Decision::Admitted(()))
    }
}

/// Panics in its decision.
struct Panics;

impl Limiter for Panics {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        panic!("no decision");
    }

    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        Some(Decision::Admitted(()))
    }
}

#[test]
fn permits_are_given_back_if_a_later_limiter_panics() {
    let now = at(60_000);
    let (tokens, flight) = (Arc::new(token(5)), Arc::new(ConcurrencyLimiter::new(5)));
    let tuple = AllOf::new((&tokens, &flight, Panics));
    let list = vec![Arc::clone(&tokens).boxed(), Arc::clone(&flight).boxed(), Panics.boxed()];
    let list = AllOf::new(list);
    let decisions: [&dyn Fn() -> bool; 2] =
        [&|| tuple.try_acquire_at(now, 3).is_admitted(), &|| {
            list.try_acquire_at(now, 3).is_admitted()
        }];
    for decision in decisions {
        assert!(catch_unwind(AssertUnwindSafe(decision)).is_err());
        assert_eq!((tokens.quota_at(now).unwrap().remaining, flight.in_use()), (5, 0));
    }
}

#[test]
fn permits_are_given_back_if_a_later_limiter_refuses() {
    let (now, overtaken) = (at(60_000), || Overtaken { tells: true, ..Overtaken::default() });
    let window = WindowConfig::new(2, ms(1_000)).unwrap();
    let leaky = || {
        let clock = ManualClock::new(now);
        LeakyBucket::with_clock(Rate::per_second(10).unwrap(), ms(500), clock)
    };
    let limiters: Vec<BoxLimiter> = vec![
        token(5).boxed(),
        leaky().boxed(),
        fixed(1_000, 5).boxed(),
        SlidingWindowLimiter::of_buckets_with_clock(window, 5, ManualClock::new(now))
            .unwrap()
            .boxed(),
        Arc::new(ConcurrencyLimiter::new(5)).boxed(),
        AllOf::new((token(5), fixed(1_000, 5))).boxed(),
        AllOf::new(vec![fixed(1_000, 5), fixed(60_000, 5)]).boxed(),
    ];
    for limiter in limiters {
        let held = limiter.try_acquire_at(now, 2);
        let (quota, peek) = (limiter.quota_at(now), limiter.peek_at(now, 3));
        let combined = AllOf::new((&limiter, overtaken()));
        assert_eq!(combined.try_acquire_at(now, 3).refusal(), Some(OVERTAKEN));
        assert_eq!((limiter.quota_at(now), limiter.peek_at(now, 3)), (quota, peek));
        let four = AllOf::new((&limiter, token(9), token(9), overtaken()));
        assert_eq!(four.try_acquire_at(now, 3).refusal(), Some(OVERTAKEN));
        assert_eq!(four.limiters().1.quota_at(now).unwrap().remaining, 9);
        assert_eq!((limiter.quota_at(now), limiter.peek_at(now, 3)), (quota, peek));
        let list: AllOf<Vec<Box<dyn Limiter<Permit = ()>>>> =
            AllOf::new(vec![Box::new(token(9)), Box::new(overtaken()), Box::new(token(9))]);
        assert_eq!(list.try_acquire_at(now, 3).refusal(), Some(OVERTAKEN));
        assert!(
            list.limiters().iter().all(|it| it.quota_at(now).is_none_or(|it| it.remaining == 9))
        );
        drop(held);
    }
}

#[test]
fn limiter_that_cannot_tell_is_asked_first() {
    let window = fixed(1_000, 5);
    let tuple = AllOf::new((&window, Overtaken::default()));
    assert_eq!(tuple.peek_at(at(60_000), 1), None);
    assert_eq!(tuple.try_acquire_at(at(60_000), 1).refusal(), Some(OVERTAKEN));
    assert_eq!(tuple.limiters().1.asked.load(Ordering::Relaxed), 1);
    let told = tuple.try_acquire_at(at(60_000), 6).refusal().unwrap();
    assert_eq!(told.reason, Reason::MoreThanLimit);
    assert_eq!(
        tuple.peek_at(at(60_000), 6),
        Some(Decision::Refused(told)),
        "refused by one that can"
    );
    assert_eq!(tuple.limiters().1.asked.load(Ordering::Relaxed), 1, "refused by a peek");
    let second = fixed(1_000, 5);
    assert!(AllOf::new((&second, Witness(&second))).try_acquire_at(at(60_000), 1).is_admitted());
    let list: AllOf<Vec<Box<dyn Limiter<Permit = ()> + '_>>> =
        AllOf::new(vec![Box::new(&window), Box::new(Witness(&window)), Box::new(&window)]);
    assert_eq!(list.peek_at(at(60_000), 1), None);
    assert!(list.try_acquire_at(at(60_000), 1).is_admitted());
    assert_eq!(window.quota_at(at(60_000)).unwrap().remaining, 3);
}

/// Admits a request if no permit of the window was taken before. It cannot tell in advance.
struct Witness<'a>(&'a FixedWindowLimiter<ManualClock>);

impl Limiter for Witness<'_> {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        let now = ask.now();
        assert_eq!(self.0.quota_at(now).unwrap().remaining, 5, "asked first");
        Decision::Admitted(())
    }
}

#[test]
fn permit_of_a_breaker_is_cancelled_if_another_limiter_refuses() {
    let clock = ManualClock::new(at(60_000));
    let breaker = AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock);
    let told = || [Success, Exception, Cancelled].map(|event| breaker.window().now().sum(event));
    let overtaken = || Overtaken { tells: true, ..Overtaken::default() };
    assert!(AllOf::new((&breaker, overtaken())).try_acquire_at(at(60_000), 1).is_refused());
    assert_eq!(told(), [0, 0, 1]);
    let nested = AllOf::new((AllOf::new((token(1), &breaker)), overtaken()));
    assert!(nested.try_acquire_at(at(60_000), 1).is_refused());
    assert_eq!(
        (told(), nested.limiters().0.limiters().0.quota_at(at(60_000)).unwrap().remaining),
        ([0, 0, 2], 1)
    );
    let both = AllOf::new((token(1), &breaker));
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(at(60_000)));
    both.try_enter(&node).unwrap().success();
    assert!(both.try_enter(&node).is_err());
    assert_eq!(told(), [1, 0, 2], "the refused request does not ask the breaker");
}

#[test]
fn refusal_with_the_latest_retry_time_is_returned() {
    let now = at(60_250);
    let (second, minute) = (fixed(1_000, 1), fixed(60_000, 1));
    let concurrency = ConcurrencyLimiter::new(1);
    for limiter in [&second, &minute] {
        assert!(limiter.try_acquire_at(now, 1).is_admitted());
    }
    let held = concurrency.try_acquire();
    let refusal = |limiter: &dyn Fn(u64) -> Option<Refusal>, permits| limiter(permits).unwrap();
    let all = AllOf::new((&concurrency, &second, &minute));
    let reversed = AllOf::new((&minute, &second, &concurrency));
    let known = Refusal::new(Reason::LimitReached, Retry::At(at(120_000)));
    for limiter in [
        &|permits| all.try_acquire_at(now, permits).refusal() as Option<Refusal>,
        &|permits| reversed.try_acquire_at(now, permits).refusal(),
        &|permits| all.peek_at(now, permits).unwrap().refusal(),
    ] as [&dyn Fn(u64) -> Option<Refusal>; 3]
    {
        assert_eq!(refusal(limiter, 1), known);
        let never = refusal(limiter, 2);
        assert_eq!((never.reason, never.retry()), (Reason::MoreThanLimit, Retry::Never));
    }
    drop(held);
    let unknown = AllOf::new((&concurrency, token(5)));
    let _held = concurrency.try_acquire();
    assert_eq!(unknown.try_acquire_at(now, 1).refusal().unwrap().retry(), Retry::Unknown);
}

/// The bucket paces at one a second. Eleven requests are ahead, so the next one that need not wait
/// comes 11 s later.
#[test]
fn request_that_cannot_wait_is_admitted_at_its_retry_time_and_no_earlier() {
    let clock = ManualClock::new(at(60_000));
    let pace = LeakyBucket::with_clock(Rate::per_second(1).unwrap(), ms(20_000), clock.clone());
    for _ in 0..11 {
        assert!(!pace.try_acquire().is_refused());
    }
    let all = AllOf::new((&pace, fixed(1_000, 100)));
    let refusal = all.ask(&Ask::at(at(60_000)).at_once()).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(71_000)));
    for (time, is_admitted) in [(70_999, false), (71_000, true)] {
        clock.set(at(time));
        let decision = all.ask(&Ask::at(at(time)).at_once());
        assert_eq!(decision.is_admitted(), is_admitted, "at {time} ms");
    }
}

#[test]
fn longest_wait_counts() {
    let clock = ManualClock::new(at(60_000));
    let pace = |per_second| {
        LeakyBucket::with_clock(Rate::per_second(per_second).unwrap(), ms(1_000), clock.clone())
    };
    let both = AllOf::new((pace(10), pace(4)));
    let waits = [(); 3].map(|()| both.try_acquire().wait().as_millis());
    assert_eq!(waits, [0, 250, 500]);
    assert_eq!(both.peek_at(clock.now(), 1).unwrap().wait(), ms(750));
    let three = AllOf::new(vec![pace(10), pace(4), pace(5)]);
    assert_eq!([(); 2].map(|()| three.try_acquire().wait()), [ms(0), ms(250)]);
    // A request that cannot wait takes nothing.
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let mixed = AllOf::new((token(5), pace(10)));
    mixed.try_enter(&node).unwrap().success();
    let refusal = mixed.try_enter(&node).unwrap_err();
    assert_eq!(refusal, Refusal::new(Reason::WaitTooLong, Retry::At(at(60_100))));
    assert_eq!(mixed.limiters().0.quota_at(at(60_000)).unwrap().remaining, 4);
    assert!(mixed.refund_at(at(60_000), 1, ms(0)) && !mixed.refund_at(at(60_000), 1, ms(0)));
    assert_eq!(mixed.limiters().0.quota_at(at(60_000)).unwrap().remaining, 5);
}

/// The combination has waited for 250 ms, and a request to the faster bucket alone is due at that
/// time as well.
#[test]
fn combination_gives_no_time_of_another_request_back() {
    let clock = ManualClock::new(at(60_000));
    let pace = |per_second| {
        LeakyBucket::with_clock(Rate::per_second(per_second).unwrap(), ms(1_000), clock.clone())
    };
    let (fast, slow) = (pace(20), pace(4));
    let tuple = AllOf::new((&fast, &slow));
    let list = AllOf::new(vec![&fast, &slow]);
    assert_eq!([(); 2].map(|()| tuple.try_acquire().wait()), [ms(0), ms(250)]);
    assert_eq!([(); 4].map(|()| fast.try_acquire().wait()), [ms(100), ms(150), ms(200), ms(250)]);
    assert!(!tuple.refund_at(clock.now(), 1, ms(250)) && !list.refund_at(clock.now(), 1, ms(250)));
    assert_eq!([&fast, &slow].map(|pace| pace.try_acquire().wait()), [ms(300), ms(500)]);
}

/// The waits are 250 ms and 500 ms. A combination in a combination does not know those of its
/// limiters, and gives none of them back.
#[test]
fn refused_request_gives_each_limiter_its_own_wait_back() {
    let clock = ManualClock::new(at(60_000));
    let pace = |per_second| {
        LeakyBucket::with_clock(Rate::per_second(per_second).unwrap(), ms(1_000), clock.clone())
    };
    let (fast, slow) = (pace(4), pace(2));
    let overtaken = || Overtaken { tells: true, ..Overtaken::default() };
    let placed = [fast.try_acquire().wait(), slow.try_acquire().wait()];
    assert_eq!(placed, [ms(0); 2]);
    assert!(AllOf::new((&fast, &slow, overtaken())).try_acquire().is_refused());
    let list: AllOf<Vec<Box<dyn Limiter<Permit = ()> + '_>>> =
        AllOf::new(vec![Box::new(&slow), Box::new(&fast), Box::new(overtaken())]);
    assert!(list.try_acquire().is_refused());
    let wait = |pace: &LeakyBucket<_>| pace.peek_at(clock.now(), 1).unwrap().wait();
    assert_eq!((wait(&fast), wait(&slow)), (ms(250), ms(500)));
    // The time and the token of the inner combination stay taken.
    let nested = AllOf::new((AllOf::new((&fast, token(5))), &slow, overtaken()));
    assert!(nested.try_acquire().is_refused());
    assert_eq!((wait(&fast), wait(&slow)), (ms(500), ms(500)));
    assert_eq!(remaining(&nested.limiters().0.limiters().1), 4);
}

#[test]
fn direct_entries_of_a_node_count_and_are_charged_to_none() {
    let clock = ManualClock::new(at(60_000));
    let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    let window =
        SlidingWindowLimiter::of_buckets_with_clock(*node.config().short(), 10, clock).unwrap();
    let window = window.with_node_passes();
    Entry::enter_many_at(&node, node.clock().now(), 6).success();
    let both = AllOf::new((token(100), window));
    assert_eq!((0..10).filter(|_| both.enter(&node).is_admitted()).count(), 4);
    assert_eq!(
        both.limiters().0.quota_at(at(60_000)).unwrap().remaining,
        96,
        "the refused ones have their tokens back"
    );
    assert_eq!(
        (node.now().long().sum(MetricEvent::Pass), node.now().long().sum(MetricEvent::Block)),
        (10, 6)
    );
}

#[test]
fn combination_reads_the_clock_of_the_first_limiter_that_has_one() {
    let concurrency = ConcurrencyLimiter::new(1);
    assert_eq!(AllOf::new((&concurrency, fixed(1_000, 1))).account().now(), at(60_000));
    assert_eq!(AllOf::new(vec![&concurrency, &concurrency]).account().now(), Timestamp::MIN);
    let none = AllOf::new(Vec::<TokenBucket>::new());
    assert_eq!((none.account().now(), none.quota_at(at(0))), (Timestamp::MIN, None));
    assert!(none.try_acquire_many(u64::MAX).is_admitted() && none.limiters().is_empty());
}

/// Threads race for the permits of two limits. No limit is exceeded, and each limiter is charged
/// for the admitted requests alone.
#[test]
fn threads_that_race_exceed_no_limit_and_leave_nothing_charged() {
    for order in [false, true] {
        let clock = ManualClock::new(at(60_000));
        let bucket = TokenBucket::with_clock(Rate::per_second(1).unwrap(), 300, clock.clone());
        let both = Arc::new((
            bucket,
            FixedWindowLimiter::with_clock(Duration::from_secs(1), 400, clock).unwrap(),
        ));
        let (admitted, beside) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (both, admitted, beside) = (&both, &admitted, &beside);
                scope.spawn(move || {
                    for turn in 0..300 {
                        let permits = turn % 3 + 1;
                        if thread == 0 {
                            let passed = both.1.try_acquire_many(1).is_admitted();
                            beside.fetch_add(u64::from(passed), Ordering::Relaxed);
                            continue;
                        }
                        let is_admitted = if order {
                            AllOf::new((&both.0, &both.1)).try_acquire_many(permits).is_admitted()
                        } else {
                            AllOf::new((&both.1, &both.0)).try_acquire_many(permits).is_admitted()
                        };
                        admitted
                            .fetch_add(if is_admitted { permits } else { 0 }, Ordering::Relaxed);
                    }
                });
            }
        });
        let (admitted, beside) = (admitted.into_inner(), beside.into_inner());
        assert!(admitted <= 300 && admitted + beside <= 400);
        assert_eq!(remaining(&both.0), 300 - admitted);
        assert_eq!(remaining(&both.1), 400 - admitted - beside);
    }
}
