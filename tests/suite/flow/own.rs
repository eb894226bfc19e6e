//! A limiter of one's own, in each place in which a limiter fits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::flow::keyed::OfKey;
use leaparray::flow::{
    Account, AllOf, Ask, ConcurrencyLimiter, Decision, Keyed, Limiter, LimiterExt, Quota, Reason,
    Refusal, Retry, TokenBucket, WaitQueue,
};
use leaparray::{Clock, ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};

use crate::flow::{at, ms, rate};

/// A number of permits for good, and the number of requests that have reached the limiter.
#[derive(Debug)]
struct Budget {
    limit: u64,
    left: AtomicU64,
    reached: AtomicU64,
}

impl Limiter for Budget {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.reached.fetch_add(ask.is_first().into(), Ordering::Relaxed);
        let take = |left: u64| left.checked_sub(ask.permits());
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Decision::Admitted(()),
            Err(_) => Decision::Refused(Refusal::new(Reason::Custom("spent"), Retry::Never)),
        }
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.reached.fetch_add(ask.is_first().into(), Ordering::Relaxed);
        (self.left.load(Ordering::Relaxed) >= ask.permits()).then_some(Decision::Admitted(()))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Budget {
    fn quota(&self, _now: Timestamp) -> Option<Quota> {
        Some(Quota::new(self.limit, self.left.load(Ordering::Relaxed), None))
    }

    fn refund(&self, ask: &Ask<'_>, _wait: Duration) -> bool {
        self.left.fetch_add(ask.permits(), Ordering::Relaxed);
        true
    }
}

fn budget(limit: u64) -> Budget {
    Budget { limit, left: AtomicU64::new(limit), reached: AtomicU64::new(0) }
}

impl Budget {
    /// Returns the permits that are left, and the requests that have reached it.
    fn seen(&self) -> (u64, u64) {
        (self.left.load(Ordering::Relaxed), self.reached.load(Ordering::Relaxed))
    }
}

fn tokens(clock: &ManualClock, capacity: u64) -> TokenBucket<ManualClock> {
    TokenBucket::with_clock(rate(1, 1_000), capacity, clock.clone())
}

#[test]
fn limiter_of_ones_own_enters_a_node() {
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(at(60_000)));
    let own = budget(3);
    own.try_enter_at(&node, Ask::at(at(60_000)).many(3)).unwrap().success();
    let refusal = own.try_enter(&node).unwrap_err();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::Custom("spent"), Retry::Never));
    let counts = [MetricEvent::Pass, MetricEvent::Block].map(|event| node.now().long().sum(event));
    assert_eq!((counts, own.seen()), ([3, 1], (0, 2)));
}

/// Both limiters are told of each request once: also of those that only one of them refuses.
#[test]
fn combination_reaches_each_limiter_once_for_a_request() {
    let clock = ManualClock::new(at(60_000));
    let (first, own) = (budget(10), budget(4));
    let tuple = AllOf::new((&first, &own, tokens(&clock, 3)));
    assert!(tuple.try_acquire_at(at(60_000), 3).is_admitted());
    assert!(tuple.try_acquire_at(at(60_000), 1).is_refused(), "no token");
    assert!(tuple.try_acquire_at(at(61_000), 1).is_admitted());
    assert!(tuple.try_acquire_at(at(62_000), 1).is_refused(), "the budget is spent");
    assert_eq!((first.seen(), own.seen()), ((6, 4), (0, 4)));
    let list = AllOf::new(vec![&first, &own]);
    assert!(list.try_acquire_at(at(62_000), 1).is_refused());
    assert_eq!((first.seen(), own.seen()), ((6, 5), (0, 5)));
}

/// A request that asks five times reaches the limiter once, and a look reaches it never.
#[test]
fn queue_reaches_the_limiter_once_for_a_request() {
    let clock = ManualClock::new(at(60_000));
    let own = budget(10);
    let queue = WaitQueue::new(AllOf::new((tokens(&clock, 1), &own)));
    for _ in 0..5 {
        queue.acquire_by(1, ms(2_000), |wait| clock.advance(wait)).unwrap();
    }
    assert_eq!((clock.now(), own.seen()), (at(64_000), (5, 5)));
    assert!(queue.peek_at(at(65_000), 5).is_some());
    assert_eq!(own.seen(), (5, 5));
}

/// The peek at a key that is not stored asks a limiter that is dropped, so the decision is the
/// first question to the limiter of the key.
#[test]
fn first_request_of_a_key_reaches_its_limiter() {
    let clock = ManualClock::new(at(60_000));
    let limiters = Mutex::new(Vec::new());
    let make = || {
        let own = Arc::new(budget(10));
        limiters.lock().unwrap().push(Arc::clone(&own));
        own
    };
    let keyed = Keyed::<u64, _>::new((make, clock.clone()), 10).unwrap();
    let both = AllOf::new((tokens(&clock, 3), keyed.of_key(&7)));
    assert!((0..3).all(|_| both.try_acquire().is_admitted()) && both.try_acquire().is_refused());
    let seen: Vec<_> = limiters.lock().unwrap().iter().map(|own| own.seen()).collect();
    assert_eq!(seen, [(10, 0), (7, 4)]);
}

/// The peek at a key without a place reaches the limiter that such keys share, and is the first
/// question of its request to that limiter, also if a place might become free.
#[test]
fn first_request_of_a_key_without_a_place_reaches_the_shared_limiter() {
    let clock = ManualClock::new(at(60_000));
    let keyed = Keyed::<u64, _>::new((|| budget(4), clock.clone()), 1).unwrap().with_overflow();
    assert!(keyed.try_acquire(&1).is_admitted(), "takes the only place");
    let both = AllOf::new((tokens(&clock, 3), keyed.of_key(&7)));
    assert!((0..3).all(|_| both.try_acquire().is_admitted()) && both.try_acquire().is_refused());
    let queue = WaitQueue::new(keyed.of_key(&8));
    assert!(queue.try_acquire().is_admitted() && queue.try_acquire().is_refused());
    let mut seen = Vec::new();
    keyed.for_each_limiter(|own| seen.push(own.seen()));
    assert_eq!(seen, [(3, 1), (0, 6)]);
}

#[test]
fn limiter_of_ones_own_is_boxed_and_keyed() {
    let clock = ManualClock::new(at(60_000));
    let boxed = budget(1).named("own").boxed();
    let layers = [boxed.clone(), boxed];
    assert!(layers[0].try_acquire().is_admitted() && layers[1].try_acquire().is_refused());
    assert_eq!(layers[0].quota_at(at(60_000)).and_then(|quota| quota.name), Some("own"));
    let limit = (|| budget(2), clock);
    let keyed = Arc::new(Keyed::<u64, _>::new(limit, 10).unwrap());
    let [seven, eight] = [7, 8].map(|key| OfKey::new(Arc::clone(&keyed), Box::new(key)));
    let none = None::<Budget>;
    assert!(Some(&seven).try_acquire_many(2).is_admitted() && seven.try_acquire().is_refused());
    assert!(eight.try_acquire().is_admitted() && none.try_acquire_many(9).is_admitted());
}

/// A controller whose permits refer to it is boxed by itself, and each clone shares it.
#[test]
fn controller_is_boxed_without_an_arc() {
    let boxed = ConcurrencyLimiter::new(4).boxed();
    let held: Vec<_> = (0..4).map(|_| boxed.clone().try_acquire().at_once().unwrap()).collect();
    assert!(boxed.try_acquire().is_refused());
    drop(held);
    assert!(boxed.try_acquire_many(4).is_admitted());
    let named = ConcurrencyLimiter::new(1).named("in flight");
    assert_eq!(named.quota_at(at(0)).and_then(|quota| quota.name), Some("in flight"));
}

#[test]
fn refusal_has_the_innermost_name() {
    let limiter_of = |refused: Option<Refusal>| refused.expect("no permit is left").limiter();
    let full = || Arc::new(ConcurrencyLimiter::new(0));
    let idle = || Arc::new(ConcurrencyLimiter::new(1));
    assert_eq!(limiter_of(full().try_acquire_at(at(0), 1).refusal()), None);
    let both = AllOf::new((idle(), full().named("inner")));
    assert_eq!(limiter_of(both.try_acquire_at(at(0), 1).refusal()), Some("inner"));
    let outer = both.named("outer");
    assert_eq!(limiter_of(outer.try_acquire_at(at(0), 1).refusal()), Some("inner"));
    let peeked = outer.peek_at(at(0), 1).expect("both can tell");
    assert_eq!(limiter_of(peeked.refusal()), Some("inner"));
    let outer = AllOf::new((idle(), full())).named("outer").boxed();
    assert_eq!(limiter_of(outer.try_acquire_at(at(0), 1).refusal()), Some("outer"));
}

/// A limiter that does not look whether a request can wait.
struct Slow;

impl Limiter for Slow {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::after((), ms(5))
    }

    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        Some(Decision::after((), ms(5)))
    }
}

#[test]
fn refusal_of_a_request_that_cannot_wait_has_the_name() {
    let slow = Slow.named("slow");
    let ask = Ask::at(at(0)).at_once();
    assert_eq!(slow.ask(&ask).refusal().and_then(|it| it.limiter()), Some("slow"));
    let peeked = slow.foretell(&ask).and_then(|it| it.refusal());
    assert_eq!(peeked.and_then(|it| it.limiter()), Some("slow"));
}
