//! Each limiter that contains another one passes every question on to it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::keyed::OfKey;
use leaparray::flow::{
    Account, AllOf, Ask, Decision, Keyed, Limiter, LimiterExt, Quota, Reason, Refusal, Retry,
    WaitQueue,
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

/// A decision and a peek, by what the question says: neither, over a node, at once, both.
const DECIDE: [&str; 4] = ["decide", "decide over", "decide at once", "decide over, at once"];
const PEEK: [&str; 4] = ["peek", "peek over", "peek at once", "peek over, at once"];

/// Returns the index of what a question says.
fn kind(ask: &Ask<'_>) -> usize {
    assert_eq!((ask.now(), ask.permits()), (at(60_000), 3));
    usize::from(ask.node().is_some()) + 2 * usize::from(!ask.can_wait())
}

impl Limiter for Witness {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.note(DECIDE[kind(ask)]);
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::Unknown))
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.note(PEEK[kind(ask)]);
        None
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Witness {
    fn now(&self) -> Timestamp {
        at(60_000)
    }

    fn refund(&self, _ask: &Ask<'_>, _wait: Duration) -> bool {
        self.note("refund_at");
        true
    }

    fn quota(&self, _now: Timestamp) -> Option<Quota> {
        self.note("quota_at");
        Some(Quota::new(7, 3, None))
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.note("each_quota_at");
        [Account::quota(self, now), Account::quota(self, now)]
            .into_iter()
            .flatten()
            .for_each(visit);
    }

    fn is_as_new(&self, _now: Timestamp) -> bool {
        self.note("is_as_new_at");
        false
    }

    fn wake_on_answer(&self, _waker: &Waker) -> bool {
        self.note("wake_on_answer");
        true
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.note("note_wait");
        Some(Box::new(permits))
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
    let ask = Ask::at(now).many(3);
    for ask in [ask, ask.over(&node), ask.at_once(), ask.over(&node).at_once()] {
        assert!(limiter.ask(&ask).is_refused(), "{name}");
        saw(DECIDE[kind(&ask)]);
        assert_eq!(limiter.foretell(&ask), None, "{name}");
        saw(PEEK[kind(&ask)]);
    }
    let is_back = limiter.refund_at(now, 3, Duration::ZERO);
    assert_eq!(is_back, saw("refund_at"), "{name}");
    assert_eq!(limiter.quota_at(now).map(|it| it.remaining), Some(3), "{name}");
    saw("quota_at");
    let quotas = RefCell::new(0);
    limiter.account().each_quota(now, &mut |_| *quotas.borrow_mut() += 1);
    assert_eq!(quotas.into_inner(), 2, "{name}");
    saw("each_quota_at");
    assert!(!limiter.account().is_as_new(now), "{name}");
    saw("is_as_new_at");
    assert!(limiter.account().wake_on_answer(Waker::noop()), "{name}");
    saw("wake_on_answer");
    assert!(limiter.account().note_wait(3).is_some(), "{name}");
    saw("note_wait");
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
    check("Option", &witness, &Some(inner()), &[]);
    check("named", &witness, &inner().named("orders"), &[]);
    check("queue", &witness, &WaitQueue::new(inner()), &[]);
    check("tuple", &witness, &AllOf::new((inner(), AllOf::new(Vec::<Witness>::new()))), &[]);
    check("list", &witness, &AllOf::new(vec![inner()]), &[]);
    // A key has no node, gives no tokens back, and its limiter is asked for what it keeps.
    let clone = inner();
    let limit = (move || clone.clone(), ManualClock::new(at(60_000)));
    let keyed = Keyed::<u64, _>::new(limit, 10).unwrap();
    let key = OfKey::new(Arc::new(keyed), Box::new(7));
    assert!(key.try_acquire_many(3).is_refused());
    witness.saw("");
    let over = [DECIDE[1], DECIDE[3], PEEK[1], PEEK[3]];
    check("key", &witness, &key, &[&over[..], &["refund_at", "is_as_new_at"]].concat());
}
