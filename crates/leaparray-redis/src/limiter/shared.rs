//! The state that the requests and the driver of a limiter share.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::{self, Decision, Reason, Refusal, Retry};
use leaparray::{Clock, Timestamp};
use tokio::sync::{Notify, watch};

use super::away::Reserve;
use super::hand::{Hand, Taken};
use super::state::{LeaseCounts, LeaseState};
use crate::fork::Starter;
use crate::lease::{Answer, Ask, Decided, Epoch, LeaseKeys, Node};
use crate::random;

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

/// A request that waits for longer than an answer.
#[derive(Debug)]
pub(super) struct Waits {
    waiting: Arc<AtomicU64>,
    permits: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.permits, Ordering::Relaxed);
    }
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

/// A step of the driver.
#[derive(Debug)]
pub(super) enum Step {
    /// Send this ask.
    Send(Ask),
    /// Wait until this time, or until woken.
    Wait(Option<Timestamp>),
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

    /// Decides on a request. If it [can wait](flow::Ask::can_wait), it asks
    /// [again](flow::Ask::again) after an answer, and its demand counts with its first question.
    #[inline]
    pub(super) fn decide(&self, ask: &flow::Ask<'_>) -> Decision {
        let mut now = ask.now();
        loop {
            match self.hand.take(now, ask.permits()) {
                Taken::Permits => {
                    if ask.permits() > FEW {
                        self.note_large(ask);
                    }
                    if !ask.is_first() {
                        self.demand.retried.fetch_add(ask.permits(), Ordering::Relaxed);
                    }
                    return Decision::Admitted(());
                }
                Taken::TooFew => return self.decide_without(now, ask),
                Taken::Stale => match self.renew(now) {
                    Some(at) => now = at,
                    None => return Decision::Refused(forked()),
                },
            }
        }
    }

    /// Decides on a request that finds too few permits.
    #[cold]
    fn decide_without(&self, now: Timestamp, ask: &flow::Ask<'_>) -> Decision {
        let permits = ask.permits();
        self.watch_driver(now);
        // Not demand: it can never be met.
        if permits > self.limit {
            return Decision::Refused(Refusal::new(Reason::MoreThanLimit, Retry::Never));
        }
        if ask.is_first() {
            self.demand.lacked.fetch_add(permits, Ordering::Relaxed);
            self.demand.largest.fetch_max(permits, Ordering::Relaxed);
        }
        if self.is_closing.load(Ordering::Relaxed) {
            return Decision::Refused(Refusal::new(Reason::Custom(CLOSED), Retry::Never));
        }
        // A child has a copy of the share, which is its parent's.
        if self.reserve.is_some() && self.is_forked() {
            return Decision::Refused(forked());
        }
        // A time ahead of the clock would be charged when the share has recovered.
        let take = |it: &Reserve<C>| it.take(now.min(self.clock.now()), permits);
        if self.reserve.as_ref().is_some_and(take) {
            self.counts.reserved.fetch_add(permits, Ordering::Relaxed);
            return Decision::Admitted(());
        }
        let retry_at = self.hand.retry_at();
        let is_short = now < retry_at;
        if !is_short {
            if !ask.can_wait() {
                self.demand.at_once.fetch_max(permits, Ordering::Relaxed);
            }
            self.want(permits);
        }
        let is_away = self.is_away.load(Ordering::Relaxed);
        if is_away && self.is_open {
            // Relaxed: read by the thread that has this decision, or one that it has told.
            // The time of the request may be ahead of the one of its decision.
            let at = now.max(ask.now()).as_nanos();
            self.open_until.fetch_max(at.saturating_add(1), Ordering::Relaxed);
            self.counts.unlimited.fetch_add(permits, Ordering::Relaxed);
            return Decision::Admitted(());
        }
        // Not short: the driver asks for this request, if not for another one.
        // Permits that were granted ahead may be there before.
        let retry_at = retry_at.min(self.begins());
        let retry = if is_short { Retry::At(retry_at) } else { Retry::OnAnswer };
        let reason = if is_away { Reason::Custom(AWAY) } else { Reason::LimitReached };
        Decision::Refused(Refusal::new(reason, retry))
    }

    /// Notes a request that has got more than a few permits. The driver looks at what is left: of
    /// smaller requests, it learns in time by itself.
    #[cold]
    fn note_large(&self, ask: &flow::Ask<'_>) {
        let permits = ask.permits();
        if ask.is_first() {
            self.demand.largest.fetch_max(permits, Ordering::Relaxed);
        }
        if !ask.can_wait() {
            self.demand.at_once.fetch_max(permits, Ordering::Relaxed);
            self.wake.notify_one();
        }
    }

    /// Wakes `waker` once, after the next answer, or the next loss of one. Returns whether there
    /// will be one: whether an ask is in flight, or the next one wants permits for a request.
    pub(super) fn wake_on_answer(&self, waker: &Waker) -> bool {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: an answer that was taken before the wakers were is seen, and a later one
        // wakes the waker. Acquire: pairs with the AcqRel of the swap in `with_node`, so that a
        // thread which finds nothing missing finds what that has set before.
        // After its end, the limiter wakes none any more. It stores that before it takes the
        // wakers, so either they are taken, or it is seen here.
        let is_asking = !self.is_closing.load(Ordering::Acquire)
            && (self.demand.missing.load(Ordering::Acquire) > 0
                || self.is_asking.load(Ordering::Relaxed));
        if is_asking && !wakers.iter().any(|it| it.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        is_asking
    }

    /// Notes that a request lacks `permits` permits: the next ask wants them.
    pub(super) fn want(&self, permits: u64) {
        // The driver resets the count before it decides whether to ask, so only the first request
        // has to wake it.
        if self.demand.missing.fetch_add(permits, Ordering::AcqRel) == 0 {
            self.due.fetch_min(self.clock.now().as_nanos(), Ordering::Relaxed);
            self.wake.notify_one();
        }
    }

    /// Counts a request among those that wait for longer than an answer, until it is dropped.
    pub(super) fn waits(&self, permits: u64) -> Waits {
        let waiting = Arc::clone(&self.demand.waiting);
        waiting.fetch_add(permits, Ordering::Relaxed);
        Waits { waiting, permits }
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

    /// Returns what the driver has to do at `now`.
    pub(super) fn step(&self, now: Timestamp) -> Step {
        if self.is_stalled.swap(false, Ordering::Relaxed) {
            self.set_state(LeaseState::Connecting);
        }
        // Before the demand is taken: a request that comes later makes the driver due again.
        self.due.store(Timestamp::MAX.as_nanos(), Ordering::Relaxed);
        let step = self.next_step(now);
        self.notify_begun();
        let due = match &step {
            Step::Send(_) => Some(now.saturating_add(self.answer_timeout)),
            Step::Wait(until) => *until,
        };
        self.due.fetch_min(due.unwrap_or(Timestamp::MAX).as_nanos(), Ordering::Relaxed);
        step
    }

    /// Returns the longest time that a request waits for an answer, and that the driver may be late
    /// by.
    pub(super) fn patience(&self) -> Duration {
        self.answer_timeout.saturating_add(MAX_LATE)
    }

    /// Notes if the driver is far too late: its runtime is not driven, or is blocked.
    fn watch_driver(&self, now: Timestamp) {
        let due = Timestamp::from_nanos(self.due.load(Ordering::Relaxed));
        let is_late = now.saturating_since(due) > self.patience();
        if is_late
            && !self.is_closing.load(Ordering::Relaxed)
            && !self.is_stalled.swap(true, Ordering::Relaxed)
        {
            self.set_state(LeaseState::Stalled { since: due });
        }
    }

    fn next_step(&self, now: Timestamp) -> Step {
        let mut node = self.lock();
        self.with_node(&mut node, now, |node, now| {
            if let Some(ask) = node.poll(now) {
                return Step::Send(ask);
            }
            // Permits are taken from the hand, and the node learns of it only here.
            let holdings = node.holdings();
            let has_permits = holdings.in_hand(now) > 0 || holdings.unreported() > 0;
            let check = has_permits.then(|| node.next_check(now));
            let begins = holdings.next_start(now);
            let next = node.next_poll(now).into_iter().chain(check).chain(begins).min();
            Step::Wait(next.map(Timestamp::from_micros))
        })
    }

    /// Returns the time from which on permits that were granted ahead may be used.
    pub(super) fn begins(&self) -> Timestamp {
        Timestamp::from_nanos(self.begins.load(Ordering::Relaxed))
    }

    /// Opens a hand with the permits that may be used from `now` on, and wakes the requests that
    /// wait.
    pub(super) fn begin(&self, now: Timestamp) {
        self.with_node(&mut self.lock(), now, |_, _| ());
        self.notify_begun();
    }

    fn notify_begun(&self) {
        if self.has_begun.swap(false, Ordering::Relaxed) {
            self.notify_answered();
        }
    }

    /// Returns the ask that gives all permits back, if there are any.
    pub(super) fn last_ask(&self, now: Timestamp) -> Option<Ask> {
        self.with_node(&mut self.lock(), now, Node::leave)
    }

    pub(super) fn on_answer(&self, now: Timestamp, answer: &Answer) {
        let (before, round_trip, config) = self.with_node(&mut self.lock(), now, |node, now| {
            let before: Option<Epoch> = node.holdings().epoch();
            if node.on_answer(now, answer) && answer.is_taken {
                self.rename(node);
            }
            (before, Duration::from_micros(node.round_trip()), *node.holdings().config())
        });
        self.counts.answers.fetch_add(1, Ordering::Relaxed);
        let ahead: u64 = answer.ahead.iter().map(|it| it.count).sum();
        self.counts.granted.fetch_add(answer.granted + ahead, Ordering::Relaxed);
        if before.is_some_and(|it| it != answer.epoch) {
            self.counts.new_epochs.fetch_add(1, Ordering::Relaxed);
        }
        let lease = config.bucket_len() * config.validity();
        let is_same_quarantine = before == Some(answer.epoch)
            && matches!(*self.state.borrow(), LeaseState::Quarantine { .. });
        if answer.open_in == 0 {
            self.set_state(if round_trip >= lease {
                LeaseState::TooSlow { round_trip, lease }
            } else if answer.behind >= config.bucket_micros() {
                self.standstill(now.saturating_add(Duration::from_micros(answer.behind)), lease)
            } else {
                LeaseState::Leasing
            });
        } else if !is_same_quarantine {
            let until = now.saturating_add(Duration::from_micros(answer.open_in));
            self.set_state(LeaseState::Quarantine { until });
        }
        self.notify_answered();
    }

    /// Returns the state of a standstill, with the end that was told before if that is about the
    /// same.
    fn standstill(&self, until: Timestamp, about: Duration) -> LeaseState {
        match *self.state.borrow() {
            LeaseState::Standstill { until: known }
                if until.saturating_since(known) < about
                    && known.saturating_since(until) < about =>
            {
                LeaseState::Standstill { until: known }
            }
            _ => LeaseState::Standstill { until },
        }
    }

    /// Gives the node another number, since another process has its number.
    fn rename(&self, node: &mut Node) {
        self.counts.taken.fetch_add(1, Ordering::Relaxed);
        report_taken(&self.keys);
        // Without a number, each ask is told the same, and is granted nothing.
        if let Ok(number) = random::exact() {
            node.rename(number);
        }
    }

    /// Gives up the ask in flight. The next one is not sent before `retry_at`.
    pub(super) fn on_lost(&self, now: Timestamp, retry_at: Timestamp, error: String) {
        self.with_node(&mut self.lock(), now, |node, now| {
            node.on_lost(now);
            node.postpone(retry_at.as_micros());
        });
        self.counts.losses.fetch_add(1, Ordering::Relaxed);
        let since = match &*self.state.borrow() {
            LeaseState::Away { since, .. } => *since,
            _ => now,
        };
        self.set_state(LeaseState::Away { since, error });
        self.notify_answered();
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

    /// Returns the permits in hand.
    pub(super) fn in_hand(&self, now: Timestamp) -> u64 {
        // The node has not been told yet what was used of a hand whose time is over.
        if !self.hand.is_usable(now) && self.renew(now).is_none() {
            return 0;
        }
        self.hand.left()
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

    /// Gives back permits that were taken at `taken` or later, as far as that is possible. Returns
    /// whether all were.
    pub(super) fn give_back(&self, taken: Timestamp, permits: u64) -> bool {
        // A request that was admitted without a lease has no permits to return: none of that time or
        // an earlier one is taken for one that has. A child would return those of its parent.
        let was_open = taken.as_nanos() < self.open_until.load(Ordering::Relaxed);
        if was_open || self.reserve.is_some() || self.is_forked() {
            return false;
        }
        let taken = taken.as_micros();
        let give = |node: &mut Node, now| node.give_back(now, taken, permits) == permits;
        self.with_node(&mut self.lock(), self.clock.now(), give)
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

/// Emits an event for a change of the state, but not for each error while the server is away.
#[cfg(feature = "tracing")]
fn report(keys: &LeaseKeys, before: &LeaseState, state: &LeaseState) {
    let limit = keys.name();
    match (before, state) {
        (LeaseState::Away { .. }, LeaseState::Away { .. }) => {}
        (_, state) if state.is_away() && *state != LeaseState::Connecting => {
            tracing::warn!(limit, %state, "no leases are granted");
        }
        _ => tracing::info!(limit, %state, "the state of the leases has changed"),
    }
}

#[cfg(not(feature = "tracing"))]
const fn report(_keys: &LeaseKeys, _before: &LeaseState, _state: &LeaseState) {}

/// Emits an event that another process has the number of this one.
#[cfg(feature = "tracing")]
fn report_taken(keys: &LeaseKeys) {
    let limit = keys.name();
    tracing::warn!(limit, "another process asks with the number of this one: a fork or a clone");
}

#[cfg(not(feature = "tracing"))]
const fn report_taken(_keys: &LeaseKeys) {}

/// Returns the refusal of a request in a forked child.
fn forked() -> Refusal {
    Refusal::new(Reason::Custom(FORKED), Retry::Never)
}

/// By how much the driver may be late.
const MAX_LATE: Duration = Duration::from_secs(1);

/// Requests for more permits than these are large.
const FEW: u64 = 4;

const AWAY: &str = "the server of the limit is away";
const CLOSED: &str = "the limiter is closed";
const FORKED: &str = "the limiter was started before a fork, in the parent of this process";
