//! Each limiter that contains another one passes every question on to it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::{
    AllOf, Decision, KeyedLimiter, Limiter, LimiterPerKey, OfKey, Passed, Quota, Reason, Refusal,
    Retry, WaitQueue,
};
use leaparray::{ManualClock, NodeConfig, ResourceNode, Timestamp};

use super::at;

/// A limiter that notes which methods were called, and whose answers are not the default ones.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<&'static str>>>);

impl Witness {
    fn note(&self, method: &'static str) {
        self.0.lock().unwrap().push(method);
    }

    /// Returns whether the method was called, and forgets all calls.
    fn saw(&self, method: &'static str) -> bool {
        self.0.lock().unwrap().drain(..).any(|it| it == method)
    }
}

impl Limiter for Witness {
    type Permit = ();

    fn now(&self) -> Timestamp {
        at(60_000)
    }

    fn try_acquire_at(&self, _now: Timestamp, _permits: u64) -> Decision {
        self.note("try_acquire_at");
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::Unknown))
    }

    fn try_acquire_for(&self, _node: &dyn Passed, now: Timestamp, permits: u64) -> Decision {
        self.note("try_acquire_for");
        self.try_acquire_at(now, permits)
    }

    fn try_acquire_at_once(
        &self,
        _node: Option<&dyn Passed>,
        now: Timestamp,
        permits: u64,
    ) -> Decision {
        self.note("try_acquire_at_once");
        self.try_acquire_at(now, permits)
    }

    fn peek_at(&self, _now: Timestamp, _permits: u64) -> Option<Decision> {
        self.note("peek_at");
        None
    }

    fn refund_at(&self, _now: Timestamp, _permits: u64, _wait: Duration) -> bool {
        self.note("refund_at");
        true
    }

    fn quota_at(&self, _now: Timestamp) -> Option<Quota> {
        self.note("quota_at");
        Some(Quota::new(7, 3, None))
    }

    fn each_quota_at(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.note("each_quota_at");
        [self.quota_at(now), self.quota_at(now)].into_iter().flatten().for_each(visit);
    }

    fn is_as_new_at(&self, _now: Timestamp) -> bool {
        self.note("is_as_new_at");
        false
    }

    fn wake_on_answer(&self, _waker: &Waker) -> bool {
        self.note("wake_on_answer");
        true
    }
}

/// Asks each question. `lacks` are the methods that the wrapper does not pass on, by its
/// documentation.
fn check<L: Limiter>(name: &str, witness: &Witness, limiter: &L, lacks: &[&str]) {
    let now = at(60_000);
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(now));
    let saw = |method| {
        let saw = witness.saw(method);
        assert_eq!(saw, !lacks.contains(&method), "{name}: {method}");
        saw
    };
    assert!(limiter.try_acquire_at(now, 1).is_refused() && saw("try_acquire_at"), "{name}");
    assert!(limiter.try_acquire_for(&node, now, 1).is_refused(), "{name}");
    saw("try_acquire_for");
    assert!(limiter.try_acquire_at_once(Some(&node), now, 1).is_refused(), "{name}");
    saw("try_acquire_at_once");
    assert_eq!(limiter.peek_at(now, 1), None, "{name}");
    saw("peek_at");
    let is_back = limiter.refund_at(now, 1, Duration::ZERO);
    assert_eq!(is_back, saw("refund_at"), "{name}");
    assert_eq!(limiter.quota_at(now).map(|it| it.remaining), Some(3), "{name}");
    saw("quota_at");
    let quotas = RefCell::new(0);
    limiter.each_quota_at(now, &mut |_| *quotas.borrow_mut() += 1);
    assert_eq!(quotas.into_inner(), 2, "{name}");
    saw("each_quota_at");
    assert!(!limiter.is_as_new_at(now), "{name}");
    saw("is_as_new_at");
    assert!(limiter.wake_on_answer(Waker::noop()), "{name}");
    saw("wake_on_answer");
}

#[test]
fn every_question_is_passed_on() {
    let witness = Witness::default();
    let inner = || witness.clone();
    check("itself", &witness, &inner(), &[]);
    check("reference", &witness, &&inner(), &[]);
    check("Box", &witness, &Box::new(inner()), &[]);
    check("Arc", &witness, &Arc::new(inner()), &[]);
    check("boxed", &witness, &inner().boxed(), &[]);
    check("named", &witness, &inner().named("orders"), &[]);
    check("queue", &witness, &WaitQueue::new(inner()), &[]);
    check("tuple", &witness, &AllOf::new((inner(), AllOf::new(Vec::<Witness>::new()))), &[]);
    check("list", &witness, &AllOf::new(vec![inner()]), &[]);
    // A key has no node, gives no tokens back, and its limiter is asked for what it keeps.
    let clone = inner();
    let limit = LimiterPerKey::new(move || clone.clone());
    let clock = ManualClock::new(at(60_000));
    let keyed = KeyedLimiter::<u64, _, _>::with_clock(limit, 10, clock).unwrap();
    let key = OfKey::new(Arc::new(keyed), Box::new(7));
    assert!(key.try_acquire().is_refused());
    witness.saw("");
    check("key", &witness, &key, &["try_acquire_for", "refund_at", "is_as_new_at"]);
}
