//! Endings: each pass is a success, an exception or a cancellation.

use leaparray::MetricEvent::{Cancelled, Exception};
use leaparray::node::OnDrop;
use leaparray::{Clock, Entry, Outcome};

use super::*;

type Held = Entry<Arc<ResourceNode<ManualClock>>, ManualClock>;

/// The passes, and the three kinds of their ends.
fn ends(node: &ResourceNode<ManualClock>) -> [u64; 4] {
    let lifetime = node.lifetime();
    [Pass, Success, Exception, Cancelled].map(|event| lifetime.sum(event))
}

#[test]
fn pass_ends_in_exactly_one_way() {
    type End = fn(Held);
    let endings: [(End, [u64; 3]); 6] = [
        (Entry::success, [1, 0, 0]),
        (Entry::exception, [0, 1, 0]),
        (Entry::cancel, [0, 0, 1]),
        (drop, [0, 1, 0]),
        (|entry| drop(entry.on_drop(OnDrop::Cancelled)), [0, 0, 1]),
        (|entry| entry.on_drop(OnDrop::Cancelled).success(), [1, 0, 0]),
    ];
    for (end, [success, exception, cancelled]) in endings {
        let (node, _) = node();
        end(Entry::enter(Arc::clone(&node)));
        assert_eq!(ends(&node), [1, success, exception, cancelled]);
        assert_eq!(node.concurrency(), 0);
        assert_eq!(node.lifetime().rt_count(), success + exception);
    }
}

#[test]
fn cancelled_request_counts_its_permits_in_the_bucket_in_which_it_ends_and_no_response_time() {
    let (node, clock) = node();
    let entry = Entry::enter_many_at(&*node, node.clock().now(), 3);
    clock.advance(Duration::from_secs(2));
    entry.end_at(clock.now(), Outcome::Cancelled);
    let snapshot = node.now().snapshot();
    assert_eq!((node.now().short().sum(Cancelled), node.now().short().sum(Pass)), (3, 0));
    assert_eq!((snapshot.avg_rt(), snapshot.long.totals.rt_count()), (None, 0));
    assert_eq!(snapshot.cancelled_qps(), 3.0 / 0.5);
    clock.advance(Duration::from_secs(1));
    let second = node.now().poll_seconds(&SecondsCursor::new()).last().unwrap();
    assert_eq!((second.counts[Cancelled], second.counts[Exception], second.avg_rt()), (3, 0, None));
}

#[test]
fn policy_of_the_node_applies_when_the_entry_is_dropped() {
    let (node, _) = node();
    let [first, second] = [node.enter(), node.enter().on_drop(OnDrop::Exception)];
    node.set_on_drop(OnDrop::Cancelled);
    drop((first, second));
    assert_eq!(ends(&node), [2, 0, 1, 1], "the policy of the second one is its own");
    node.set_on_drop(OnDrop::Exception);
    drop(node.enter());
    assert_eq!(ends(&node), [3, 0, 2, 1]);
}

#[test]
fn panic_in_a_request_is_an_exception_under_either_policy() {
    for policy in [OnDrop::Exception, OnDrop::Cancelled] {
        let (node, _) = node();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _entry = node.enter().on_drop(policy);
            panic!("in the middle of a request");
        }));
        assert!(panicked.is_err());
        assert_eq!(ends(&node), [1, 0, 1, 0], "{policy:?}");
    }
}

/// A request that a destructor makes while its thread unwinds.
struct InDestructor(Arc<ResourceNode<ManualClock>>);

impl Drop for InDestructor {
    fn drop(&mut self) {
        drop(self.0.enter());
    }
}

#[test]
fn request_that_enters_during_a_panic_is_cancelled_if_the_policy_says_so() {
    let (node, _) = node();
    node.set_on_drop(OnDrop::Cancelled);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _in_destructor = InDestructor(Arc::clone(&node));
        panic!("before the request");
    }));
    assert!(panicked.is_err());
    assert_eq!(ends(&node), [1, 0, 0, 1]);
}

#[test]
fn dropped_future_is_cancelled_if_the_policy_says_so() {
    let (node, _) = node();
    node.set_on_drop(OnDrop::Cancelled);
    let mut request = Box::pin(async {
        let entry = Entry::enter(Arc::clone(&node));
        std::future::pending::<()>().await;
        entry.success();
    });
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(request.as_mut().poll(&mut context).is_pending());
    assert_eq!(node.concurrency(), 1);
    drop(request);
    assert_eq!((ends(&node), node.concurrency()), ([1, 0, 0, 1], 0));
}
