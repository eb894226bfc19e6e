//! Permits that are given back, and the requests that this wakes.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leaparray::flow::{
    Account, Ask, ConcurrencyLimiter, ConcurrencyPermit, Decision, Limiter, LimiterExt,
    QueuePermit, Reason, Refusal, Retry, TokenBucket, WaitQueue,
};
use leaparray::{ManualClock, NodeConfig, Outcome, Permit, ResourceNode, Timestamp};

use crate::flow::{at, ms, rate};

/// A limiter of one permit, which is given back when it ends.
#[derive(Clone, Default)]
struct One {
    is_taken: Arc<AtomicBool>,
}

impl Limiter for One {
    type Permit = Self;

    fn decide(&self, _ask: &Ask<'_>) -> Decision<Self> {
        if self.is_taken.swap(true, Ordering::Relaxed) {
            Decision::Refused(Refusal::new(Reason::LimitReached, Retry::Unknown))
        } else {
            Decision::Admitted(self.clone())
        }
    }
}

impl Permit for One {
    fn end_at(&mut self, _now: Timestamp, _outcome: Outcome) {
        self.is_taken.store(false, Ordering::Relaxed);
    }
}

/// Notes at its wake-up whether the permit is taken.
struct Witness {
    one: One,
    woken_while_taken: Mutex<Vec<bool>>,
}

impl Wake for Witness {
    fn wake(self: Arc<Self>) {
        self.woken_while_taken.lock().unwrap().push(self.one.is_taken.load(Ordering::Relaxed));
    }
}

/// The head is woken once, after the permit was given back: by its drop, and not by its end before.
#[test]
fn dropped_permit_is_given_back_and_then_wakes_the_head_once() {
    for is_drop in [false, true] {
        let one = One::default();
        let queue = WaitQueue::new(one.clone());
        let mut first = queue.acquire_by(1, ms(0), |_| ()).unwrap();
        let witness = Arc::new(Witness { one, woken_while_taken: Mutex::default() });
        let waker = Waker::from(Arc::clone(&witness));
        let never = |_| std::future::pending::<()>();
        let mut second = pin!(queue.acquire_with(1, Duration::MAX, never));
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        if is_drop {
            first.drop_at(at(0), Outcome::Exception);
        } else {
            first.end_at(at(0), Outcome::Success);
        }
        assert!(witness.woken_while_taken.lock().unwrap().is_empty());
        drop(first);
        assert_eq!(*witness.woken_while_taken.lock().unwrap(), [false]);
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A limiter that refuses one request in the way of a combination: it takes a permit, and gives it
/// back since another limiter refuses. It calls `meanwhile` before it gives the permit back.
struct Lends {
    limiter: Arc<ConcurrencyLimiter>,
    meanwhile: RefCell<Option<Box<dyn FnOnce()>>>,
}

impl Limiter for Lends {
    type Permit = ConcurrencyPermit<Arc<ConcurrencyLimiter>>;

    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permit> {
        let now = ask.now();
        let permits = ask.permits();
        let decision = self.limiter.try_acquire_at(now, permits);
        let Some(meanwhile) = self.meanwhile.take() else { return decision };
        assert!(decision.is_admitted());
        meanwhile();
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::At(at(60_010))))
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        let now = ask.now();
        let permits = ask.permits();
        self.limiter.peek_at(now, permits)
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Lends {
    fn now(&self) -> Timestamp {
        at(60_000)
    }
}

type Queue = WaitQueue<Lends>;
type Taken =
    Pin<Box<dyn Future<Output = Result<QueuePermit<<Lends as Limiter>::Permit>, Refusal>>>>;

fn queue() -> Queue {
    let limiter = Arc::new(ConcurrencyLimiter::new(1));
    WaitQueue::new(Lends { limiter, meanwhile: RefCell::default() })
}

fn acquire(queue: &Rc<Queue>) -> Taken {
    let queue = Rc::clone(queue);
    Box::pin(async move { queue.acquire_with(1, Duration::MAX, never).await })
}

fn never(_wait: Duration) -> std::future::Pending<()> {
    std::future::pending()
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// A request that begins to wait while another one holds the only permit for a moment.
struct Meanwhile {
    taken: Rc<RefCell<Option<Taken>>>,
    counter: Arc<Wakes>,
}

impl Meanwhile {
    fn new(queue: &Rc<Queue>, panics: bool) -> Self {
        let (taken, counter) = (Rc::default(), Arc::new(Wakes::default()));
        let it = Self { taken: Rc::clone(&taken), counter: Arc::clone(&counter) };
        let waits = Rc::clone(queue);
        queue.limiter().meanwhile.replace(Some(Box::new(move || {
            let mut waiting = acquire(&waits);
            let waker = Waker::from(counter);
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            taken.replace(Some(waiting));
            assert!(!panics, "the limiter panics");
        })));
        it
    }

    /// Expects that the request was woken, and is admitted: the permit was given back.
    fn expect_admitted(self) {
        assert_eq!(self.counter.0.load(Ordering::Relaxed), 1);
        let mut taken = self.taken.take().unwrap();
        assert!(matches!(taken.as_mut().poll(&mut context()), Poll::Ready(Ok(_))));
    }
}

/// Requests that are refused.
const ASKS: [fn(&Queue); 6] = [
    |queue| assert!(queue.acquire_by(1, ms(5), |_| ()).is_err()),
    |queue| {
        let taken = pin!(queue.acquire_with(1, ms(50), never));
        assert!(taken.poll(&mut context()).is_pending());
    },
    |queue| {
        let node = ResourceNode::new(NodeConfig::default());
        let entry = pin!(queue.enter_with_at(&node, at(60_000), 1, ms(50), never));
        assert!(entry.poll(&mut context()).is_pending());
    },
    |queue| assert!(queue.try_acquire().is_refused()),
    |queue| {
        let node = ResourceNode::new(NodeConfig::default());
        assert!(queue.ask(&Ask::at(at(60_000)).over(&node)).is_refused());
    },
    |queue| assert!(queue.ask(&Ask::at(at(60_000)).at_once()).is_refused()),
];

/// A request is refused after it held the only permit for a moment, or the limiter panics. The one
/// that has begun to wait is woken.
#[test]
fn permits_that_a_refused_request_held_for_a_moment_wake_the_head() {
    for asks in ASKS {
        for panics in [false, true] {
            let queue = Rc::new(queue());
            let waits = Meanwhile::new(&queue, panics);
            let result = catch_unwind(AssertUnwindSafe(|| asks(&queue)));
            assert_eq!((result.is_err(), queue.limiter().limiter.in_use()), (panics, 0));
            waits.expect_admitted();
        }
    }
}

/// The same, if the request that is refused was the head until the newer one arrived.
#[test]
fn permits_that_the_former_head_held_for_a_moment_wake_the_newer_request() {
    for panics in [false, true] {
        let queue = Rc::new(queue().newest_first());
        let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
        let mut former = acquire(&queue);
        assert!(former.as_mut().poll(&mut context()).is_pending());
        drop(held);
        let waits = Meanwhile::new(&queue, panics);
        let result = catch_unwind(AssertUnwindSafe(|| {
            assert!(former.as_mut().poll(&mut context()).is_pending());
        }));
        assert_eq!(result.is_err(), panics);
        waits.expect_admitted();
    }
}

/// A limiter of one permit that is given back by a refund.
#[derive(Default)]
struct Refunds(AtomicBool);

impl Limiter for Refunds {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        if self.0.swap(true, Ordering::Relaxed) {
            return Decision::Refused(Refusal::new(Reason::LimitReached, Retry::Unknown));
        }
        Decision::Admitted(())
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Refunds {
    fn refund(&self, _ask: &Ask<'_>, _wait: Duration) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

#[test]
fn refund_wakes_the_head() {
    let queue = WaitQueue::new(Refunds::default());
    let _held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let counter = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut waits = pin!(queue.acquire_with(1, Duration::MAX, never));
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(queue.refund_at(at(0), 1, ms(0)) && !queue.refund_at(at(0), 1, ms(0)));
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
    assert!(waits.as_mut().poll(&mut context()).is_ready());
}

/// A limiter that lends its permits out at first, and then asks a server for one. The answer
/// arrives just after the decision that speaks of it.
#[derive(Default)]
struct Asks {
    decisions: AtomicU32,
    wakers: Mutex<Vec<Waker>>,
}

impl Limiter for Asks {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        let retry = match self.decisions.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Retry::Unknown,
            2 => Retry::OnAnswer,
            _ => return Decision::Admitted(()),
        };
        self.wakers.lock().unwrap().drain(..).for_each(Waker::wake);
        Decision::Refused(Refusal::new(Reason::LimitReached, retry))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Asks {
    fn wake_on_answer(&self, waker: &Waker) -> bool {
        let is_asking = self.decisions.load(Ordering::Relaxed) < 3;
        if is_asking {
            self.wakers.lock().unwrap().push(waker.clone());
        }
        is_asking
    }
}

/// The head waits for a release, and then for an answer that has come before it registers its
/// waker.
#[test]
fn answer_that_is_faster_than_the_waker_is_not_missed() {
    let queue = WaitQueue::new(Asks::default());
    let mut waits = pin!(queue.acquire_with(1, Duration::MAX, never));
    assert!(waits.as_mut().poll(&mut context()).is_pending());
    queue.recheck();
    assert!(waits.as_mut().poll(&mut context()).is_ready());
}

/// The head sleeps until a token is added. Tokens that are given back are there before.
#[test]
fn refund_wakes_a_head_that_sleeps() {
    let clock = ManualClock::new(at(60_000));
    let queue = WaitQueue::new(TokenBucket::with_clock(rate(1, 4_000), 1, clock));
    assert!(queue.try_acquire_at(at(60_000), 1).is_admitted());
    let counter = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut waits = pin!(queue.acquire_with(1, ms(60_000), never));
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(queue.refund_at(at(60_000), 1, ms(0)));
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
    assert!(waits.as_mut().poll(&mut context()).is_ready());
}

/// A limiter whose answer arrives just after the decision, while a later ask is in flight.
#[derive(Default)]
struct AsksTwice(AtomicBool);

impl Limiter for AsksTwice {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        if self.0.load(Ordering::Relaxed) {
            return Decision::Admitted(());
        }
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::OnAnswer))
    }

    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        self.0.load(Ordering::Relaxed).then_some(Decision::Admitted(()))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for AsksTwice {
    fn wake_on_answer(&self, _waker: &Waker) -> bool {
        self.0.store(true, Ordering::Relaxed);
        true
    }
}

/// The head finds the permits, and does not wait for the answer to the later ask.
#[test]
fn permits_that_an_answer_has_brought_are_not_left_for_the_next_one() {
    let queue = WaitQueue::new(AsksTwice::default());
    let mut waits = pin!(queue.acquire_with(1, Duration::MAX, never));
    assert!(waits.as_mut().poll(&mut context()).is_ready());
}

/// Refuses until an answer arrives, and says that none is to come. Counts the questions.
#[derive(Default)]
struct Contradicts(AtomicU32);

impl Limiter for Contradicts {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        self.0.fetch_add(1, Ordering::Relaxed);
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::OnAnswer))
    }
}

/// The head asks twice in a millisecond, until its timeout.
#[test]
fn limiter_that_does_not_tell_of_its_answers_is_asked_after_a_pause() {
    let queue = WaitQueue::new(Contradicts::default());
    let mut waits = RefCell::new(Vec::new());
    let refusal = queue.acquire_by(1, ms(10), |wait| waits.borrow_mut().push(wait)).unwrap_err();
    assert_eq!(refusal.reason, Reason::WaitTooLong);
    let (timeout, pauses) = waits.get_mut().split_last().unwrap();
    assert_eq!((*timeout, pauses), (ms(0), &[ms(1); 10][..]));
    assert!(queue.limiter().0.load(Ordering::Relaxed) <= 24);
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("it cannot be woken");
    }
}

/// A request takes the place of another one, whose waker panics. It leaves no place behind.
#[test]
fn request_that_wakes_with_a_panic_leaves_the_queue() {
    let queue = Rc::new(queue().with_capacity(1).newest_first());
    let held = queue.acquire_by(1, ms(0), |_| ()).unwrap();
    let (mut older, mut newer) = (acquire(&queue), acquire(&queue));
    let waker = Waker::from(Arc::new(Panics));
    assert!(older.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let displaces = || newer.as_mut().poll(&mut context()).is_pending();
    assert!(catch_unwind(AssertUnwindSafe(displaces)).is_err());
    assert_eq!(queue.waiting(), 0);
    drop(held);
    queue.acquire_by(1, ms(0), |_| ()).unwrap();
}

/// Refuses each request until an answer arrives, and counts for how many permits requests wait.
#[derive(Default)]
struct Counts(Arc<AtomicU64>);

struct Counted(Arc<AtomicU64>, u64);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Limiter for Counts {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        match ask.permits() {
            0 => Decision::Admitted(()),
            _ => Decision::Refused(Refusal::new(Reason::LimitReached, Retry::OnAnswer)),
        }
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Counts {
    fn wake_on_answer(&self, _waker: &Waker) -> bool {
        true
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.0.fetch_add(permits, Ordering::Relaxed);
        Some(Box::new(Counted(Arc::clone(&self.0), permits)))
    }
}

/// The limiter is told of each request that waits, once, also of those behind the head, and until
/// the request gives up. A request without a place is not noted.
#[test]
fn limiter_is_told_for_how_many_permits_requests_wait() {
    let waiting = Arc::new(AtomicU64::new(0));
    let noted = || waiting.load(Ordering::Relaxed);
    let queue = WaitQueue::new(Counts(Arc::clone(&waiting))).with_capacity(2);
    let wait = |permits| Box::pin(queue.acquire_with(permits, Duration::MAX, never));
    let [mut head, mut next, mut third] = [wait(3), wait(4), wait(5)];
    for _ in 0..3 {
        assert!(head.as_mut().poll(&mut context()).is_pending());
        assert!(next.as_mut().poll(&mut context()).is_pending());
        queue.recheck();
    }
    assert_eq!(noted(), 7);
    assert!(third.as_mut().poll(&mut context()).is_ready());
    assert!(wait(0).as_mut().poll(&mut context()).is_ready());
    assert_eq!(noted(), 7);
    drop(head);
    assert_eq!(noted(), 4);
    drop(next);
    assert_eq!(noted(), 0);
}
