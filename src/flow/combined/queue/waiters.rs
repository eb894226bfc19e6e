//! The requests that wait for a limiter, in the order of their arrival.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Arc as StdArc, PoisonError};
use std::task::{Wake, Waker};

use super::turn::GrantedTurn;
use crate::sync::{Arc, AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering};

/// The requests that wait for a limiter.
///
/// One of them is the *head*: the oldest, or the newest if the newest is served first. Only the
/// head asks the limiter. When it leaves, for whatever reason, the next head is *notified*: its
/// flag is set, and its task is woken. No permit is handed over, so a request that leaves, or that
/// was woken and is dropped, takes no permit with it.
///
/// The list is behind a lock. No code of the caller runs under it: a waker is cloned before, and
/// woken or dropped after it.
///
/// # Orderings
///
/// Of a limiter whose permits are given back at an unknown time, the head *announces* that it waits
/// for that, and then asks once more. So does the head for an answer that the limiter has from
/// elsewhere, whose arrival counts as a release. A thread that gives a permit back does so first,
/// and then looks for an announcement. Both the announcement and the look are read-modify-writes of
/// `awaits_release`, so one is ordered before the other:
///
/// - If the look comes first, the announcement acquires what the look has released. The head's next
///   question finds the permit.
/// - If the announcement comes first, the look finds it, and the thread notifies the head. It does
///   so under the lock, so the head finds the notification, or is woken by it.
///
/// A decision that refuses counts as a release: a combination of limiters may take permits and give
/// them back in it. The request that has asked looks for an announcement of another request.
///
/// The announcement is withdrawn by a read-modify-write as well. A store would end the release
/// sequence of an earlier look.
///
/// `waiting` orders nothing. A request that arrives after another one has begun to wait finds that
/// by coherence.
pub(super) struct Waiters {
    /// The number of requests in the list. Written under the lock.
    waiting: AtomicUsize,
    /// 1 if the head waits for a permit to be given back, and 0 otherwise. Written under the lock.
    awaits_release: AtomicU32,
    pub(super) turn: GrantedTurn,
    list: Mutex<List>,
}

#[derive(Debug)]
struct List {
    /// The requests by their tickets, which grow with time.
    by_ticket: BTreeMap<u64, Waiter>,
    next_ticket: u64,
    capacity: usize,
    newest_first: bool,
}

#[derive(Debug, Default)]
struct Waiter {
    /// The waker of the last poll. `None` if it was used since.
    waker: Option<Waker>,
    /// The limiter has to be asked: this request has become the head, or permits may have become
    /// available.
    notified: bool,
    /// The limiter has got an answer from elsewhere.
    answered: bool,
}

impl List {
    /// Returns the ticket of the head.
    fn head(&self) -> Option<u64> {
        let mut tickets = self.by_ticket.keys();
        if self.newest_first { tickets.next_back() } else { tickets.next() }.copied()
    }

    /// Notifies the head. The caller wakes the waker after it has released the lock.
    #[must_use]
    fn notify_head(&mut self) -> Option<Waker> {
        let waiter = self.by_ticket.get_mut(&self.head()?)?;
        waiter.notified = true;
        waiter.waker.take()
    }
}

/// As many requests wait as may wait.
#[derive(Debug)]
pub(super) struct Full;

/// The position of a request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A newer request has taken the place.
    Displaced,
    /// Another request is the head.
    Behind,
    /// The request is the head.
    Head {
        /// The limiter has to be asked.
        notified: bool,
        /// The limiter has got an answer from elsewhere.
        answered: bool,
        /// A head has announced that it waits for a release, and has not withdrawn that.
        announced: bool,
    },
}

impl Waiters {
    pub(super) fn new() -> Self {
        let (by_ticket, capacity) = (BTreeMap::new(), usize::MAX);
        let list = List { by_ticket, next_ticket: 0, capacity, newest_first: false };
        let (waiting, awaits_release) = (AtomicUsize::new(0), AtomicU32::new(0));
        let turn = GrantedTurn::new();
        Self { waiting, awaits_release, turn, list: Mutex::new(list) }
    }

    pub(super) fn set_capacity(&self, capacity: usize) {
        self.lock().capacity = capacity;
    }

    pub(super) fn set_newest_first(&self) {
        self.lock().newest_first = true;
    }

    /// Returns the number of requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Adds a request to the list. If the list is full, the oldest request loses its place to it if
    /// the newest is served first.
    pub(super) fn join(waiters: &Arc<Self>) -> Result<Place<'_>, Full> {
        let mut list = waiters.lock();
        let mut displaced = None;
        if list.by_ticket.len() >= list.capacity {
            if !list.newest_first || list.capacity == 0 {
                return Err(Full);
            }
            displaced = list.by_ticket.pop_first().and_then(|(_, waiter)| waiter.waker);
        }
        let ticket = list.next_ticket;
        list.next_ticket += 1;
        list.by_ticket.insert(ticket, Waiter::default());
        waiters.waiting.store(list.by_ticket.len(), Ordering::Relaxed);
        drop(list);
        // Before the wake-up: if the waker panics, the request leaves the list.
        let place = Place { waiters, ticket };
        wake(displaced);
        Ok(place)
    }

    /// Notifies the head, if it waits for a permit to be given back. Called after a permit was
    /// given back.
    pub(super) fn released(&self) {
        if self.has_announcement() {
            self.notify_head();
        }
    }

    /// Notifies the head, if it waits. Called after the limiter has got an answer from elsewhere.
    fn answered(&self) {
        if self.has_announcement() {
            let mut list = self.lock();
            if let Some(waiter) = list.head().and_then(|head| list.by_ticket.get_mut(&head)) {
                waiter.answered = true;
            }
            let waker = list.notify_head();
            drop(list);
            wake(waker);
        }
    }

    /// Returns whether the head waits for a permit to be given back. Called after a permit was
    /// given back.
    fn has_announcement(&self) -> bool {
        // AcqRel: pairs with the announcement. A read-modify-write, so that either this thread
        // finds the announcement, or the head finds the permit.
        self.awaits_release.fetch_add(0, Ordering::AcqRel) != 0
    }

    /// Lets the head ask the limiter again.
    pub(super) fn notify_head(&self) {
        let waker = self.lock().notify_head();
        wake(waker);
    }

    /// Withdraws the announcement of a head. Called under the lock.
    fn withdraw(&self) {
        // AcqRel, and a read-modify-write: the next announcement acquires what earlier looks have
        // released.
        self.awaits_release.swap(0, Ordering::AcqRel);
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        // No code under the lock panics.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a task. Called without the lock, because a waker is code of the caller.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A call after a decision, unless that admits the request. Also if the limiter panics: it may have
/// held permits for a moment, as a combination of limiters does, one of which refuses. A request
/// that found these permits taken may wait for them.
pub(super) struct Notice<F: Fn()>(F);

impl<F: Fn()> Notice<F> {
    pub(super) const fn new(gave_back: F) -> Self {
        Self(gave_back)
    }

    /// The request was admitted.
    pub(super) fn cancel(self) {
        mem::forget(self);
    }
}

impl<F: Fn()> Drop for Notice<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The place of a request in the list. Dropping it leaves the list.
#[derive(Debug)]
pub(super) struct Place<'a> {
    waiters: &'a Arc<Waiters>,
    ticket: u64,
}

impl Place<'_> {
    /// Returns a waker that notifies the head, whichever it is by then, of an answer.
    pub(super) fn waker(&self) -> Waker {
        Waker::from(StdArc::new(OnAnswer(Arc::clone(self.waiters))))
    }

    /// Returns whether it is this request's turn, and takes its notification. `waker` is woken when
    /// that may have changed.
    pub(super) fn look(&self, waker: &Waker) -> Turn {
        let waker = waker.clone();
        let mut list = self.waiters.lock();
        let is_head = list.head() == Some(self.ticket);
        let Some(waiter) = list.by_ticket.get_mut(&self.ticket) else { return Turn::Displaced };
        let former = waiter.waker.replace(waker);
        let turn = if is_head {
            let notified = mem::take(&mut waiter.notified);
            let answered = mem::take(&mut waiter.answered);
            // Relaxed: written under the lock.
            let announced = self.waiters.awaits_release.load(Ordering::Relaxed) != 0;
            Turn::Head { notified, answered, announced }
        } else {
            Turn::Behind
        };
        drop(list);
        drop(former);
        turn
    }

    /// Announces that the head waits for a permit to be given back. Returns whether this request is
    /// still the head. It then has to ask once more: a permit that was given back before the
    /// announcement notifies no request.
    pub(super) fn announce(&self) -> bool {
        let list = self.waiters.lock();
        let is_head = list.head() == Some(self.ticket);
        if is_head {
            // AcqRel: pairs with the look in `released`.
            self.waiters.awaits_release.swap(1, Ordering::AcqRel);
        }
        is_head
    }

    /// Notifies the head as [`Waiters::released`] does, if it is another request: this one has just
    /// been refused. Otherwise, a head whose limiter cannot tell would ask for ever, without a
    /// pause.
    pub(super) fn gave_back(&self) {
        if self.waiters.has_announcement() {
            let mut list = self.waiters.lock();
            let waker = if list.head() == Some(self.ticket) { None } else { list.notify_head() };
            drop(list);
            wake(waker);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut list = self.waiters.lock();
        let was_head = list.head() == Some(self.ticket);
        // `None` if a newer request has taken the place.
        let left = list.by_ticket.remove(&self.ticket);
        self.waiters.waiting.store(list.by_ticket.len(), Ordering::Relaxed);
        if list.by_ticket.is_empty() {
            self.waiters.turn.set_sleep(None);
        }
        let next = if was_head {
            self.waiters.withdraw();
            list.notify_head()
        } else {
            None
        };
        drop(list);
        drop(left);
        wake(next);
    }
}

/// Notifies the head when the limiter has an answer from elsewhere.
struct OnAnswer(Arc<Waiters>);

impl Wake for OnAnswer {
    fn wake(self: StdArc<Self>) {
        self.0.answered();
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
