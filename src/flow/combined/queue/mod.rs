//! Waiting for a limiter, in turn.

mod acquire;
mod attempts;
mod enter;
mod park;
mod permit;
mod turn;
mod waiters;
mod waiting;

use std::fmt;
use std::task::Waker;
use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, Limiter, Passed, Quota, Refusal, Retry};
use crate::flow::watch::WatchedState;
use crate::node::Reason;
use crate::sync::Arc;
use crate::time::Timestamp;
use attempts::{Attempts, Next, out_of_time};
pub use permit::QueuePermit;
use waiters::{Notice, Waiters};
use waiting::Waiting;

/// A limiter with a queue of the requests that wait for it. They are served in the order of their
/// arrival, or [the newest first](Self::newest_first), and their number can be
/// [bounded](Self::with_capacity).
///
/// A request that finds the queue empty asks the limiter at once. Otherwise it waits until the
/// requests before it have left the queue: a request for many permits gets its turn beside any
/// number of requests for few. A request for 0 permits waits for no other request.
///
/// Only the first waiting request, the *head*, asks the limiter. It [peeks](Limiter::peek), and
/// makes a decision when it would be admitted, so there is one decision for each permit that is
/// granted, and one more whenever the decision refuses what the peek admits: if another request, or
/// a change of the limit, comes between the two, or if the limiter also counts the [direct
/// passes](Ask::over) of a node, of which a peek knows nothing. Then there is one in
/// each bucket until the direct passes have left the window. If the limiter cannot tell, the head
/// makes a decision at each retry time. Each decision is made [at
/// once](Ask::at_once): a limiter that paces gives out no permit before it is due.
/// So a request holds no permit while it waits.
///
/// # Cancellation
///
/// A future of this queue can be dropped at each of its awaits. It then has no permit, and gives up
/// its place: the next request asks the limiter. None of the others loses its place. A future has
/// its place from its first poll.
///
/// # Futures that are not polled
///
/// Poll a future until it ends, or drop it. While the head is not polled, it does not ask, so each
/// request behind it waits, until its timeout at most. In particular, a task must not wait for the
/// same queue elsewhere while it keeps a future that it does not poll. That is a deadlock, if there
/// is no timeout:
///
/// ```text
/// let mut acquire = pin!(queue.acquire_with(1, Duration::MAX, sleep));
/// select! {
///     permit = &mut acquire => { .. }
///     // Waits behind `acquire`, which is not polled.
///     _ = tick => queue.acquire_with(1, Duration::MAX, sleep).await,
/// }
/// ```
///
/// # Timeout
///
/// `timeout` is counted from the first question to the limiter. Each request is answered by then,
/// as far as its timers and its task are on time:
///
/// - The head is refused at once if the limiter admits it only after its timeout.
/// - A request behind it is refused at once if the limiter would not even admit it in time if it
///   were the head, and otherwise when its timeout has passed.
/// - If the timeout is zero, a request does not wait. With [`Duration::MAX`], it waits for as long
///   as it takes.
///
/// These refusals have the reason [`Reason::WaitTooLong`], and the time to retry if it is known.
///
/// # Permits that are given back
///
/// If a limiter refuses for the reason [`Reason::LimitReached`] and does not know when to retry,
/// permits are held by other requests, as those of a
/// [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter). The head then waits until a
/// [`QueuePermit`] is dropped, or until the queue refuses another request: an
/// [`AllOf`](crate::flow::AllOf) may have held permits for a moment before it refuses. A permit
/// that was taken from the [limiter](Self::limiter) directly wakes no request when it is given
/// back, nor does a higher limit: call [`recheck`](Self::recheck) after either.
///
/// If a limiter refuses until it has [an answer](Retry::OnAnswer), as one that asks a server for
/// permits, the head waits until the limiter [wakes](Account::wake_on_answer) it.
///
/// Any other refusal without a retry time is final: an
/// [`AdaptiveBreaker`](crate::flow::AdaptiveBreaker), for example, draws anew for each request.
///
/// # Direct requests
///
/// The limiter decides without the queue: it never waits for the queue's lock, and a direct request
/// takes its chance beside the queue. As a [`Limiter`], the queue itself refuses a request that
/// does not wait while others do.
///
/// ```
/// use leaparray::flow::{ConcurrencyLimiter, WaitQueue};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue =
///     Arc::new(WaitQueue::new(Arc::new(ConcurrencyLimiter::new(2))).with_capacity(100));
/// let mut tasks = Vec::new();
/// for request in 0..10 {
///     let queue = Arc::clone(&queue);
///     tasks.push(tokio::spawn(async move {
///         let permit =
///             queue.acquire_with(1, Duration::from_secs(60), tokio::time::sleep).await?;
///         tokio::task::yield_now().await;
///         drop(permit);
///         Ok::<_, leaparray::flow::Refusal>(request)
///     }));
/// }
/// for (request, task) in tasks.into_iter().enumerate() {
///     assert_eq!(task.await?, Ok(request));
/// }
/// assert_eq!((queue.waiting(), queue.limiter().in_use()), (0, 0));
/// # Ok(())
/// # }
/// ```
pub struct WaitQueue<L> {
    limiter: L,
    newest_first: bool,
    waiters: Arc<Waiters>,
}

/// A request after its first question.
enum Begun<'a, L: Limiter, N> {
    Admitted(QueuePermit<L::Permit>),
    Waits(Waiting<'a, L, N>),
}

impl<L: Limiter> WaitQueue<L> {
    /// Creates a queue without a bound, in which the oldest request is served first.
    ///
    /// Use an `Arc<ConcurrencyLimiter>`, or a reference, for a
    /// [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter) or an
    /// [`AdaptiveBreaker`](crate::flow::AdaptiveBreaker), as [everywhere](Limiter).
    #[must_use]
    pub fn new(limiter: L) -> Self {
        Self { limiter, newest_first: false, waiters: Arc::new(Waiters::new()) }
    }

    /// Sets the maximum number of waiting requests. A further request is refused at once, for the
    /// reason [`Reason::QueueFull`]. If the newest is served first, the oldest request is refused
    /// in its place. With 0, no request waits.
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, Reason, WaitQueue};
    /// use std::time::Duration;
    ///
    /// let limiter = ConcurrencyLimiter::new(1);
    /// let queue = WaitQueue::new(&limiter).with_capacity(0);
    /// let _permit = queue.acquire_blocking(1, Duration::ZERO)?;
    /// let refusal = queue.acquire_blocking(1, Duration::from_secs(60)).unwrap_err();
    /// assert_eq!(refusal.reason, Reason::QueueFull);
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    #[must_use]
    pub fn with_capacity(self, capacity: usize) -> Self {
        self.waiters.set_capacity(capacity);
        self
    }

    /// Serves the newest request first (last in, first out). It asks the limiter at once, although
    /// others wait.
    ///
    /// Under an overload that lasts, the newest requests are answered in time, and the oldest run
    /// into their timeouts or, with a [bound](Self::with_capacity), are refused. In turn, all
    /// requests would be late.
    ///
    /// If the former head is asking the limiter when a newer request arrives, either of the two may
    /// be admitted first.
    #[must_use]
    pub fn newest_first(mut self) -> Self {
        self.waiters.set_newest_first();
        self.newest_first = true;
        self
    }

    /// Returns the limiter. A direct request to it takes its chance beside the queue.
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Returns the number of requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters.waiting()
    }

    /// Lets the first waiting request ask the limiter again: after its limit was raised, or after a
    /// permit was given back that was not a [`QueuePermit`].
    ///
    /// A request that is just about to wait until a known time may have asked before, and then asks
    /// at that time.
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, WaitQueue};
    /// use std::time::Duration;
    ///
    /// let limiter = ConcurrencyLimiter::new(1);
    /// let queue = WaitQueue::new(&limiter);
    /// let first = queue.acquire_blocking(1, Duration::ZERO)?;
    /// std::thread::scope(|scope| {
    ///     let second =
    ///         scope.spawn(|| queue.acquire_blocking(1, Duration::from_secs(60)).map(drop));
    ///     limiter.reconfigure(2);
    ///     queue.recheck();
    ///     second.join().unwrap()
    /// })?;
    /// drop(first);
    /// # Ok::<_, leaparray::flow::Refusal>(())
    /// ```
    pub fn recheck(&self) {
        self.waiters.notify_head();
    }

    /// Asks the limiter at `now`, or takes a place in the queue.
    fn begin<'a, N: Passed>(
        &'a self,
        node: Option<&'a N>,
        now: Timestamp,
        permits: u64,
        timeout: Duration,
    ) -> Result<Begun<'a, L, N>, Refusal> {
        let mut attempts = Attempts::begin(self, node, now, permits, timeout);
        let next = if permits == 0 || !self.is_behind() {
            match attempts.ask_at_arrival(|| self.waiters.released()) {
                Next::Go(permit, _) => return Ok(Begun::Admitted(permit)),
                Next::GiveUp(refusal) => return Err(refusal),
                Next::AwaitRelease | Next::AwaitAnswer if timeout.is_zero() => {
                    return Err(out_of_time());
                }
                next => Some(next),
            }
        } else {
            attempts.foresee()?;
            None
        };
        let has_deadline = timeout != Duration::MAX;
        Waiting::join(&self.waiters, attempts, next.as_ref(), has_deadline).map(Begun::Waits)
    }

    /// Returns whether a request that arrives now has to wait for others.
    fn is_behind(&self) -> bool {
        !self.newest_first && self.waiting() > 0
    }

    fn permit(&self, permit: L::Permit) -> QueuePermit<L::Permit> {
        QueuePermit::new(permit, &self.waiters)
    }

    /// Returns the refusal of a request that does not wait, if others do.
    fn refusal(&self, permits: u64) -> Option<Refusal> {
        let refusal = Refusal::new(Reason::LimitReached, Retry::Unknown);
        (permits > 0 && self.is_behind()).then_some(refusal)
    }
}

impl<L: Limiter> Limiter for WaitQueue<L> {
    type Permit = QueuePermit<L::Permit>;

    /// Asks the limiter, unless an earlier request waits. If the limiter refuses, or panics, the
    /// head asks once more: the limiter may have held permits for a moment.
    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permit> {
        if let Some(refusal) = self.refusal(ask.permits()) {
            return Decision::Refused(refusal);
        }
        let notice = Notice::new(|| self.waiters.released());
        let decision = ask.decided_by(&self.limiter).map(|permit| self.permit(permit));
        if !decision.is_refused() {
            notice.cancel();
        }
        decision
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        match self.refusal(ask.permits()) {
            Some(refusal) => Some(Decision::Refused(refusal)),
            None => self.limiter.peek(ask),
        }
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl<L: Limiter> Account for WaitQueue<L> {
    fn now(&self) -> Timestamp {
        self.limiter.account().now()
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.limiter.account().quota(now)
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.limiter.account().each_quota(now, visit);
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        self.limiter.account().watched_at(now)
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.limiter.account().is_as_new(now)
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        let is_given_back = self.limiter.account().refund(ask, wait);
        // Also a head that sleeps until a known time: the permits are there before. And also if they
        // were not all given back: some limiters of a combination may have got theirs.
        self.waiters.notify_head();
        is_given_back
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.limiter.account().wake_on_answer(waker)
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.limiter.account().note_wait(permits)
    }
}

impl<L: fmt::Debug> fmt::Debug for WaitQueue<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut queue = f.debug_struct("WaitQueue");
        queue.field("limiter", &self.limiter).field("newest_first", &self.newest_first);
        queue.field("waiting", &self.waiters.waiting()).finish_non_exhaustive()
    }
}
