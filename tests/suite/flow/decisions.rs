//! Decisions, refusals and quotas of all limiters, and entries through them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Success};
use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource};
use leaparray::flow::{
    Account, AdaptiveBreaker, Ask, BoxLimiter, ConcurrencyLimiter, Decision, FeedbackPermit,
    FixedWindowLimiter, LeakyBucket, Limiter, LimiterExt, Rate, Reason, Refusal, Retry,
    SlidingWindowLimiter, TokenBucket, WaitQueue, WarmUp, WarmUpConfig,
};
use leaparray::node::{OnDrop, Refusals};
use leaparray::{
    Entry, ManualClock, NodeConfig, Outcome, Permit, ResourceNode, Timestamp, WindowConfig,
};
use proptest::prelude::*;

use crate::flow::{at, ms};

fn second() -> WindowConfig {
    WindowConfig::new(10, ms(1_000)).unwrap()
}

fn node() -> ResourceNode<ManualClock> {
    ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(at(60_000)))
}

fn counts(node: &ResourceNode<ManualClock>) -> [u64; 5] {
    [Pass, Block, Success, Exception, Cancelled].map(|event| node.now().long().sum(event))
}

#[test]
fn paced_request_is_neither_admitted_nor_refused_and_keeps_its_permit_until_the_wait() {
    let pace = LeakyBucket::new(Rate::per_second(10).unwrap(), ms(500));
    assert!(pace.try_acquire_at(at(1_000), 1).is_admitted());
    let paced = pace.try_acquire_at(at(1_000), 1);
    assert!(!paced.is_admitted() && !paced.is_refused());
    assert_eq!((paced.refusal(), paced.wait()), (None, ms(100)));
    assert_eq!(paced.map(|()| 7).into_result().unwrap().into_parts(), (7, ms(100)));
    let refusal = paced.at_once().unwrap_err();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::WaitTooLong, Retry::Unknown));
    assert_eq!(Decision::after(7, Duration::ZERO), Decision::Admitted(7));
}

#[test]
fn retry_after_is_rounded_up_to_whole_seconds() {
    let retry = |at| Refusal::new(Reason::LimitReached, Retry::At(Timestamp::from_nanos(at)));
    let after = |retry_at, now| retry(retry_at).retry_after(Timestamp::from_nanos(now));
    let secs = |secs| Some(Duration::from_secs(secs));
    assert_eq!(after(2_000_000_000, 1_000_000_000), secs(1));
    assert_eq!(after(2_000_000_001, 1_000_000_000), secs(2));
    assert_eq!(after(2_000_000_000, 1_999_999_999), secs(1));
    assert_eq!(after(2_000_000_000, 2_000_000_000), secs(0));
    assert_eq!(after(2_000_000_000, 3_000_000_000), secs(0));
    assert_eq!(after(u64::MAX, 0), secs(18_446_744_074));
    for retry in [Retry::Unknown, Retry::Never] {
        let refusal = Refusal::new(Reason::LimitReached, retry);
        assert_eq!((refusal.retry_after(at(0)), refusal.retry_at()), (None, None));
    }
}

#[test]
fn refusal_tells_a_known_time_an_unknown_one_and_never_apart() {
    let window = SlidingWindowLimiter::of_buckets(second(), 2).unwrap();
    let token = TokenBucket::new(Rate::per_second(10).unwrap(), 2);
    let warm_up = WarmUp::new(second(), 2, WarmUpConfig::default()).unwrap();
    for limiter in [&window as &dyn Limiter<Permit = ()>, &token, &warm_up] {
        let retry =
            |permits| limiter.try_acquire_at(at(60_000), permits).refusal().unwrap().retry();
        assert_eq!(retry(3), Retry::Never);
        assert!(limiter.try_acquire_at(at(60_000), 2).is_admitted());
        assert!(matches!(retry(1), Retry::At(_)));
    }
    let concurrency = ConcurrencyLimiter::new(1);
    let _permit = concurrency.try_acquire();
    assert_eq!(concurrency.try_acquire().refusal().unwrap().retry(), Retry::Unknown);
    assert_eq!(concurrency.try_acquire_many(2).refusal().unwrap().retry(), Retry::Never);
    let slow = LeakyBucket::new(Rate::new(1, WindowConfig::MAX_INTERVAL).unwrap(), ms(0));
    assert!(slow.try_acquire_at(at(60_000), 1).is_admitted());
    let never = slow.try_acquire_at(at(60_000), 1).refusal().unwrap();
    assert_eq!(never.retry(), Retry::Never, "the next request would be due after the end of time");
    assert!(never.to_string().ends_with(", and will always be"), "{never}");
}

#[test]
fn quota_of_each_limiter() {
    let now = at(60_250);
    let fixed = FixedWindowLimiter::new(ms(1_000), 5).unwrap();
    let sliding = SlidingWindowLimiter::of_buckets(second(), 5).unwrap();
    let token = TokenBucket::new(Rate::per_second(10).unwrap(), 5);
    let warm_up = WarmUp::new(second(), 6, WarmUpConfig::default()).unwrap();
    let limiters: [(&dyn Limiter<Permit = ()>, u64, u64); 3] =
        [(&fixed, 5, 61_000), (&sliding, 5, 61_200), (&token, 5, 60_450)];
    for (limiter, limit, reset) in limiters {
        let fresh = limiter.quota_at(now).unwrap();
        assert_eq!((fresh.limit, fresh.remaining), (limit, limit));
        assert_eq!(fresh.reset_after(now), Some(Duration::ZERO));
        assert!(limiter.try_acquire_at(now, 2).is_admitted());
        let quota = limiter.quota_at(now).unwrap();
        assert_eq!((quota.limit, quota.remaining), (limit, limit - 2));
        assert_eq!(quota.reset, Some(at(reset)));
        assert_eq!(quota.reset_after(now), Some(Duration::from_secs(1)));
    }
    // A cold service gets a little more than a third in its first second, and nothing in advance.
    // The limit changes with the load, so its reset is not known.
    assert!(warm_up.try_acquire_at(now, 1).is_admitted());
    let quota = warm_up.quota_at(now).unwrap();
    assert_eq!((quota.limit, quota.remaining, quota.reset), (3, 0, None));
    let concurrency = ConcurrencyLimiter::new(3);
    assert_eq!(concurrency.quota_at(now).unwrap().reset, Some(now), "all permits remain");
    let _permit = concurrency.try_acquire();
    for quota in [concurrency.quota_at(now), concurrency.quota_at(now)] {
        let quota = quota.unwrap();
        assert_eq!((quota.remaining, quota.reset), (2, None));
    }
    assert_eq!(LeakyBucket::new(Rate::per_second(1).unwrap(), ms(0)).quota_at(now), None);
    assert_eq!(AdaptiveBreaker::new(AdaptiveBreakerConfig::default()).quota_at(now), None);
    let boxed = Arc::new(sliding).boxed();
    assert_eq!(boxed.quota_at(now).unwrap().remaining, 3, "through a box and an `Arc`");
}

proptest! {
    /// If no more permits are taken, the whole limit remains from the reset on, and not before.
    #[test]
    fn whole_limit_remains_from_the_reset_on(
        asks in proptest::collection::vec((0..400_u64, 1..4_u64), 1..12),
    ) {
        let limiters: [Box<dyn Limiter<Permit = ()>>; 3] = [
            Box::new(SlidingWindowLimiter::of_buckets(second(), 9).unwrap()),
            Box::new(FixedWindowLimiter::new(ms(700), 9).unwrap()),
            Box::new(TokenBucket::new(Rate::per_second(7).unwrap(), 9)),
        ];
        for limiter in limiters {
            let mut now = 60_000;
            for &(gap, permits) in &asks {
                now += gap;
                let _ = limiter.try_acquire_at(at(now), permits);
                let quota = limiter.quota_at(at(now)).unwrap();
                prop_assert!(quota.remaining <= quota.limit);
                let Some(reset) = quota.reset.filter(|&reset| reset > at(now)) else {
                    prop_assert_eq!(quota.remaining, quota.limit);
                    continue;
                };
                // Tokens that do not take whole nanoseconds may be there a few nanoseconds early.
                let before = Timestamp::from_nanos(reset.as_nanos() - 10);
                prop_assert_eq!(limiter.quota_at(reset).unwrap().remaining, quota.limit);
                prop_assert!(limiter.quota_at(before).unwrap().remaining < quota.limit);
            }
        }
    }
}

#[test]
fn entry_through_a_limiter_counts_passes_and_refusals_by_reason() {
    let (node, clock) = (node(), ManualClock::new(at(60_000)));
    let rate = Rate::per_second(1).unwrap();
    let limiters: [(BoxLimiter, Reason); 5] = [
        (
            SlidingWindowLimiter::of_buckets_with_clock(second(), 1, clock.clone())
                .unwrap()
                .boxed(),
            Reason::LimitReached,
        ),
        (TokenBucket::with_clock(rate, 1, clock.clone()).boxed(), Reason::LimitReached),
        (LeakyBucket::with_clock(rate, ms(0), clock.clone()).boxed(), Reason::WaitTooLong),
        (Arc::new(ConcurrencyLimiter::new(1)).boxed(), Reason::LimitReached),
        (Closed.boxed(), Reason::Custom("closed")),
    ];
    let mut held = Vec::new();
    for (limiter, reason) in &limiters {
        // The limiter of the window also counts the passes that the node has already.
        held.extend(limiter.try_enter(&node));
        let refusal = limiter.enter(&node).refusal().expect("one was taken");
        assert_eq!(refusal.reason, *reason);
    }
    let concurrency = held.len() as u64;
    assert_eq!((concurrency, node.concurrency()), (4, 4));
    held.into_iter().for_each(Entry::success);
    let refused = Refusals::from([
        (Reason::LimitReached, 3),
        (Reason::WaitTooLong, 1),
        (Reason::Custom("any"), 2),
    ]);
    assert_eq!(node.refusals(), refused);
    assert_eq!((node.refusals().sum(), node.now().snapshot().refusals), (6, refused));
    assert_eq!(counts(&node), [4, 6, 4, 0, 0]);
    node.block();
    assert_eq!((node.refusals().sum(), node.now().long().sum(Block)), (6, 7), "without a reason");
}

/// Refuses every request.
struct Closed;

impl Limiter for Closed {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(Refusal::new(Reason::Custom("closed"), Retry::Unknown))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Closed {
    fn now(&self) -> Timestamp {
        at(60_000)
    }
}

#[test]
fn end_of_an_entry_ends_the_permit_of_its_controller() {
    let clock = ManualClock::new(at(60_000));
    let concurrency = ConcurrencyLimiter::new(1);
    let breaker = Arc::new(AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock));
    let both = |node| {
        let permits = concurrency.try_acquire_at(at(60_000), 1).at_once().unwrap();
        let decision = breaker.try_acquire_at(at(60_000), 1).map(|permit| (permit, permits));
        decision.enter_many_at(node, at(60_000), 1).sleep().unwrap()
    };
    let reported =
        || [Success, Exception, Cancelled].map(|event| breaker.window().now().sum(event));
    let node = node();
    for (number, expected) in
        [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 2, 1], [1, 2, 2]].iter().enumerate()
    {
        let entry = both(&node);
        assert_eq!(concurrency.in_use(), 1);
        match number {
            0 => entry.end_at(at(60_001), Outcome::Success),
            1 => entry.end_at(at(60_001), Outcome::Exception),
            2 => entry.end_at(at(60_001), Outcome::Cancelled),
            3 => drop(entry),
            _ => drop(entry.on_drop(OnDrop::Cancelled)),
        }
        assert_eq!((reported(), concurrency.in_use()), (*expected, 0), "end {number}");
    }
    assert_eq!(counts(&node), [5, 0, 1, 2, 2]);
}

#[test]
fn limiter_behind_a_reference_counts_direct_requests_of_the_node() {
    let limiter = || SlidingWindowLimiter::of_buckets(second(), 10).unwrap().with_node_passes();
    let admitted = |limiter: &dyn Fn(&ResourceNode<ManualClock>) -> bool| {
        let node = node();
        Entry::enter_many_at(&node, at(60_000), 6).end_at(at(60_000), Outcome::Success);
        (0..10).filter(|_| limiter(&node)).count()
    };
    let (own, shared, boxed) = (limiter(), Arc::new(limiter()), limiter().boxed());
    let (erased, fixed) = (limiter(), FixedWindowLimiter::new(ms(1_000), 10).unwrap());
    let fixed = fixed.with_node_passes();
    let erased: Box<dyn Limiter<Permit = ()>> = Box::new(erased);
    assert_eq!(admitted(&|node| own.enter(node).is_admitted()), 4);
    assert_eq!(admitted(&|node| shared.enter(node).is_admitted()), 4);
    assert_eq!(admitted(&|node| boxed.enter(node).is_admitted()), 4);
    assert_eq!(admitted(&|node| erased.enter(node).is_admitted()), 4);
    assert_eq!(admitted(&|node| fixed.enter(node).is_admitted()), 4);
}

#[test]
fn refusals_of_many_threads_add_up() {
    let node = node();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..100 {
                    node.refuse_many_at(at(60_000), 2, Reason::Failing);
                }
            });
        }
    });
    let mut refusals = node.refusals();
    assert_eq!((refusals[Reason::Failing], refusals.sum()), (4_000, 4_000));
    refusals += &node.refusals();
    assert_eq!(refusals[Reason::Failing], 8_000);
}

#[test]
fn counts_of_refusals_saturate() {
    let node = node();
    for _ in 0..2 {
        node.refuse_many_at(at(60_000), u64::MAX, Reason::Failing);
    }
    node.refuse(Reason::Custom("closed"));
    let refusals = node.refusals();
    assert_eq!(
        (refusals[Reason::Failing], refusals[Reason::Custom("any")], refusals.sum()),
        (u64::MAX, 1, u64::MAX)
    );
}

#[test]
fn request_that_would_have_to_wait_is_blocked_if_its_caller_cannot_wait() {
    let node = node();
    let pace = LeakyBucket::new(Rate::per_second(1).unwrap(), ms(5_000));
    pace.try_enter_at(&node, at(60_000)).unwrap().end_at(at(60_000), Outcome::Success);
    let refusal = pace.try_enter_at(&node, at(60_000)).unwrap_err();
    assert_eq!(refusal, Refusal::new(Reason::WaitTooLong, Retry::At(at(61_000))));
    assert_eq!(counts(&node), [1, 1, 1, 0, 0]);
    assert_eq!((node.refusals()[Reason::WaitTooLong], node.concurrency()), (1, 0));
    // The refused request has taken no permits: it is admitted when it is due, also through a box.
    let boxed = pace.boxed();
    assert!(boxed.try_enter_at(&node, at(60_999)).is_err());
    boxed.try_enter_at(&node, at(61_000)).unwrap().end_at(at(61_000), Outcome::Success);
    // The permit is told that the request was cancelled.
    let breaker =
        AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), ManualClock::new(at(60_000)));
    assert!(Paced(&breaker).try_enter_at(&node, at(60_000)).is_err());
    let told = [Success, Exception, Cancelled].map(|event| breaker.window().now().sum(event));
    assert_eq!((told, counts(&node)), ([0, 0, 1], [1, 2, 1, 0, 0]));
}

/// Makes each request of a breaker wait.
struct Paced<'a>(&'a AdaptiveBreaker<ManualClock>);

impl<'a> Limiter for Paced<'a> {
    type Permit = FeedbackPermit<&'a AdaptiveBreaker<ManualClock>>;

    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permit> {
        let now = ask.now();
        let permit = self.0.try_acquire_at(now, 1).at_once().unwrap();
        Decision::after(permit, ms(100))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Paced<'_> {
    fn now(&self) -> Timestamp {
        at(60_000)
    }
}

#[test]
fn decision_for_several_permits_counts_each_of_them() {
    let node = node();
    let pace = LeakyBucket::new(Rate::per_second(10).unwrap(), ms(500));
    let decide = |permits| {
        let now = at(60_000);
        let decision = pace.try_acquire_at(now, permits).enter_many_at(&node, now, permits);
        let wait = decision.wait();
        let _ = decision.map(|entry| entry.end_at(now.saturating_add(wait), Outcome::Success));
        wait
    };
    assert_eq!([2, 5].map(decide), [ms(0), ms(500)]);
    assert_eq!(counts(&node)[..2], [7, 0], "2 permits at once, and 5 after a wait");
    assert_eq!(decide(3), ms(0));
    assert_eq!(
        (counts(&node)[..2].to_vec(), node.refusals()[Reason::WaitTooLong]),
        (vec![7, 3], 3)
    );
}

#[test]
fn drop_of_an_entry_is_cancelled_for_the_breaker_if_either_policy_says_so() {
    for (of_node, of_breaker, expected) in [
        (OnDrop::Exception, OnDrop::Exception, [1, 0]),
        (OnDrop::Exception, OnDrop::Cancelled, [0, 1]),
        (OnDrop::Cancelled, OnDrop::Exception, [0, 1]),
        (OnDrop::Cancelled, OnDrop::Cancelled, [0, 1]),
    ] {
        let node = node();
        node.set_on_drop(of_node);
        let config = AdaptiveBreakerConfig::default().on_drop(of_breaker);
        let breaker = AdaptiveBreaker::with_clock(config, ManualClock::new(at(60_000)));
        let told = || [Exception, Cancelled].map(|event| breaker.window().now().sum(event));
        drop(breaker.try_enter(&node).unwrap());
        assert_eq!(told(), expected, "{of_node:?}, {of_breaker:?}");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _entry = breaker.try_enter(&node).unwrap();
            panic!("in the middle of a request");
        }));
        assert!(panicked.is_err());
        assert_eq!(told(), [expected[0] + 1, expected[1]], "a panic is a rejection");
    }
}

#[test]
fn permit_of_a_breaker_reports_once() {
    let clock = ManualClock::new(at(60_000));
    let breaker = AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default(), clock);
    let mut permit = breaker.try_acquire().at_once().unwrap();
    for outcome in [Outcome::Success, Outcome::Exception] {
        Permit::end_at(&mut permit, at(60_000), outcome);
    }
    drop(permit);
    assert_eq!([Success, Exception].map(|event| breaker.window().now().sum(event)), [1, 0]);
}

#[test]
fn acquire_gives_up_on_a_breaker_whose_next_draw_may_differ() {
    /// Draws the lowest number, so that each request is dropped that can be dropped.
    struct Lowest;

    impl RandomSource for Lowest {
        fn next_u32(&self) -> u32 {
            0
        }
    }

    let (config, clock) =
        (AdaptiveBreakerConfig::default().min_requests(0), ManualClock::new(at(60_000)));
    let breaker = AdaptiveBreaker::with_source(config, clock.clone(), Lowest);
    for event in [Success, Exception, Exception] {
        breaker.window().add(event, 1);
    }
    breaker.try_acquire().at_once().unwrap().reject();
    let sleep = |_| panic!("the time to ask again is unknown");
    let queue = WaitQueue::new(&breaker);
    let refusal = queue.acquire_by(1, ms(60_000), sleep).expect_err("one in two is dropped");
    assert_eq!((refusal.reason, refusal.retry()), (Reason::Failing, Retry::Unknown));
}
