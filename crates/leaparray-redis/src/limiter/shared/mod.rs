//! The state that the requests and the driver of a limiter share.

mod driving;
mod report;
mod requests;

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use leaparray::{Clock, Timestamp};
use tokio::sync::{Notify, watch};

use super::away::Reserve;
use super::hand::Hand;
use super::state::{LeaseCounts, LeaseState};
use crate::fork::Starter;
use crate::lease::{Decided, LeaseKeys, Node};
pub(super) use driving::Step;
use report::report;

/// The permits of a node as a [`Hand`], and the node itself behind a lock.
///
/// A request takes from the hand. Once in each bucket of the limit, a request or the driver closes
/// the hand, tells the node what was used, and opens the next hand; the driver also does so for
/// each ask and answer. The lock is held for that long, and never while the server is waited for.
#[derive(Debug)]
pub(super) struct Shared<C> {
    pub(super) keys: LeaseKeys,
    pub(super) clock: C,
    pub(super) limit: u64,
    /// The length of the window of the limit.
    pub(super) window: Duration,
    hand: Hand,
    node: Mutex<Node>,
    demand: Demand,
    /// Wakes the driver: a request lacks permits, or the limiter is to be closed.
    pub(super) wake: Notify,
    /// Wakes the requests that wait for an answer.
    pub(super) answered: Notify,
    /// The wakers that were registered for the next answer.
    wakers: Mutex<Vec<Waker>>,
    /// Whether an answer is to come, for a request that need not ask: an ask is in flight, or the
    /// next one is due for a request. Written under the lock of `node`.
    is_asking: AtomicBool,
    state: watch::Sender<LeaseState>,
    /// Whether the state is away. Requests read it without the lock of `state`.
    is_away: AtomicBool,
    /// Whether a request without a permit is admitted while the server is away.
    is_open: bool,
    /// The nanosecond after the latest time of a request that was admitted without a lease.
    open_until: AtomicU64,
    pub(super) reserve: Option<Reserve<C>>,
    counts: Counts,
    is_closing: AtomicBool,
    starter: Starter,
    /// For how long an answer is waited for.
    answer_timeout: Duration,
    /// The time at which the driver has to act next, in nanoseconds.
    due: AtomicU64,
    /// Whether the driver has not acted in time.
    is_stalled: AtomicBool,
    /// The time in nanoseconds from which on permits that were granted ahead may be used.
    begins: AtomicU64,
    /// Whether that time has come, and the requests that wait have not been woken.
    has_begun: AtomicBool,
}

/// The demand of the requests since the node was last told. Not part of the hand, so that nothing
/// is lost when it is closed.
#[derive(Debug, Default)]
struct Demand {
    /// Permits that requests lacked, which the next ask should want.
    missing: AtomicU64,
    /// Permits of requests that were refused or wait.
    lacked: AtomicU64,
    /// The permits for which requests wait for longer than an answer, at present.
    waiting: Arc<AtomicU64>,
    /// Permits that were taken by requests whose demand was counted before.
    retried: AtomicU64,
    /// The most permits of a request, if it is more than a few.
    largest: AtomicU64,
    /// The most permits of a request that does not wait, if it is more than a few or was refused.
    at_once: AtomicU64,
}

#[derive(Debug, Default)]
struct Counts {
    answers: AtomicU64,
    losses: AtomicU64,
    granted: AtomicU64,
    reserved: AtomicU64,
    unlimited: AtomicU64,
    new_epochs: AtomicU64,
    taken: AtomicU64,
}

impl<C: Clock> Shared<C> {
    pub(super) fn new(
        keys: LeaseKeys,
        clock: C,
        node: Node,
        is_open: bool,
        reserve: Option<Reserve<C>>,
        answer_timeout: Duration,
    ) -> Self {
        let due = clock.now();
        Self {
            keys,
            clock,
            limit: node.holdings().config().limit(),
            window: node.holdings().config().bucket_len() * node.holdings().config().buckets(),
            hand: Hand::new(),
            node: Mutex::new(node),
            demand: Demand::default(),
            wake: Notify::new(),
            answered: Notify::new(),
            wakers: Mutex::default(),
            is_asking: AtomicBool::new(false),
            state: watch::Sender::new(LeaseState::Connecting),
            is_away: AtomicBool::new(true),
            is_open,
            open_until: AtomicU64::new(0),
            reserve,
            counts: Counts::default(),
            is_closing: AtomicBool::new(false),
            starter: Starter::here(),
            answer_timeout,
            due: AtomicU64::new(due.as_nanos()),
            is_stalled: AtomicBool::new(false),
            begins: AtomicU64::new(Timestamp::MAX.as_nanos()),
            has_begun: AtomicBool::new(false),
        }
    }

    /// Replaces a hand whose time is over at `now`. Returns the time of the decision: a time ahead
    /// of the clock counts as the time of the clock. Otherwise, the next lease would count from the
    /// later time, and end too late. Returns `None` in a forked child: it has copies of the permits
    /// of its parent, and nothing asks for others. Another thread may have had the lock during the
    /// fork, so it is not taken.
    #[cold]
    fn renew(&self, now: Timestamp) -> Option<Timestamp> {
        if self.is_forked() {
            self.set_state(LeaseState::Forked);
            return None;
        }
        let now = now.min(self.clock.now());
        let mut node = self.lock();
        // Another thread may have done so.
        if !self.hand.is_usable(now) {
            self.with_node(&mut node, now, |_, _| ());
        }
        Some(now)
    }

    /// Closes the hand, tells the node what has happened, calls `change` with it and the time in
    /// microseconds, and opens the next hand. The guard shows that the lock is held.
    fn with_node<R>(
        &self,
        node: &mut MutexGuard<'_, Node>,
        now: Timestamp,
        change: impl FnOnce(&mut Node, u64) -> R,
    ) -> R {
        let micros = now.as_micros();
        let used = self.hand.close();
        if self.demand.missing.load(Ordering::Relaxed) > 0 {
            // Before these are passed on: no thread finds that nothing is missing or asked for.
            self.is_asking.store(true, Ordering::Relaxed);
        }
        let missing = self.demand.missing.swap(0, Ordering::AcqRel);
        let lacked = self.demand.lacked.swap(0, Ordering::Relaxed);
        let retried = self.demand.retried.swap(0, Ordering::Relaxed);
        // All uses were before the end of the hand, and in the bucket of its last time.
        let at = micros.min(self.hand.last_micros());
        let demanded = used.saturating_sub(retried).saturating_add(lacked);
        let largest = self.demand.largest.swap(0, Ordering::Relaxed);
        let at_once = self.demand.at_once.swap(0, Ordering::Relaxed);
        node.set_waiting(self.demand.waiting.load(Ordering::Relaxed));
        node.settle(at, &Decided { used, demanded, missing, largest, at_once });
        let result = change(node, micros);
        let until = Timestamp::from_micros(node.stable_until(micros));
        let permits = node.holdings().in_hand(micros);
        let begins = node.holdings().next_start(micros).map(Timestamp::from_micros);
        let begins = begins.unwrap_or(Timestamp::MAX).as_nanos();
        if self.begins.swap(begins, Ordering::Relaxed) <= now.as_nanos() {
            self.has_begun.store(true, Ordering::Relaxed);
        }
        let retry_at = Timestamp::from_micros(node.retry_at());
        self.is_asking.store(node.is_asking(), Ordering::Relaxed);
        self.hand.open(permits, until, retry_at);
        result
    }

    /// Returns the state.
    pub(super) fn state(&self) -> LeaseState {
        if self.is_forked() { LeaseState::Forked } else { self.state.borrow().clone() }
    }

    /// Returns whether this is a forked child of the process that has started the limiter. It takes
    /// a system call, so it is not asked for each request.
    pub(super) fn is_forked(&self) -> bool {
        self.starter.is_elsewhere()
    }

    pub(super) fn watch(&self) -> watch::Receiver<LeaseState> {
        self.state.subscribe()
    }

    pub(super) fn counts(&self) -> LeaseCounts {
        let read = |it: &AtomicU64| it.load(Ordering::Relaxed);
        LeaseCounts {
            answers: read(&self.counts.answers),
            losses: read(&self.counts.losses),
            granted: read(&self.counts.granted),
            reserved: read(&self.counts.reserved),
            unlimited: read(&self.counts.unlimited),
            new_epochs: read(&self.counts.new_epochs),
            taken: read(&self.counts.taken),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Node> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Shared<C> {
    /// Tells the driver to give all permits back and to end.
    pub(super) fn begin_to_close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Ends the limiter: no more asks are sent. Permits in hand may still be used until their
    /// leases end.
    pub(super) fn end(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.set_state(LeaseState::Closed);
        self.notify_answered();
    }

    /// Wakes all that wait for an answer, after it was taken, or given up.
    fn notify_answered(&self) {
        self.answered.notify_waiters();
        // Woken without the lock: a waker is code of the caller.
        let wakers = mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn set_state(&self, state: LeaseState) {
        self.is_away.store(state.is_away(), Ordering::Relaxed);
        self.state.send_if_modified(|it| {
            let is_new = *it != state;
            if is_new {
                report(&self.keys, it, &state);
                *it = state;
            }
            is_new
        });
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }
}
