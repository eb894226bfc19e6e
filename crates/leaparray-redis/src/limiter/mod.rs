//! The limiter.

mod away;
mod builder;
mod driver;
mod hand;
mod shared;
mod state;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use leaparray::flow::{self, Account, Decision, Limiter, Quota, Refusal, Retry};
use leaparray::{Clock, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::BootClock;
use crate::lease::{LeaseConfig, LeaseKeys};
use shared::Shared;

pub use away::{ShareError, WhenAway};
pub use builder::{LimiterBuilder, StartError};
pub use state::{LeaseCounts, LeaseState};

/// One limit over all processes that name it: at most L permits in any interval of the
/// server's time, or in any n consecutive buckets: see [`LeaseConfig`].
///
/// A task asks the server for permits in chunks, by [leases](crate::lease) that end. Requests are
/// decided locally, from the permits in hand. A request that finds too few is refused, and the task
/// asks for more at once; [`acquire`](Self::acquire) waits for the answer. Clones share the
/// permits. When the last clone is dropped, unused permits are given back.
///
/// A request never waits for the server in
/// [`try_acquire`](leaparray::flow::LimiterExt::try_acquire). Once in a bucket, it takes a lock
/// that is held for about a microsecond.
///
/// Start it after a fork, in the child. A child of a process that has one uses no permits of its
/// parent once the bucket is over in which it was forked: see [`LeaseState::Forked`].
///
/// Times given to the limiter are of [its clock](Self::clock). A time ahead of the clock counts as
/// the time of the clock. A time behind it may use a lease that has ended. A request that enters a
/// node is decided at the time of the limiter's clock, since leases end by this clock.
///
/// ```
/// use leaparray::{ManualClock, Timestamp};
/// use leaparray_redis::lease::LeaseConfig;
/// use leaparray_redis::{LeaseState, LeasedLimiter, MemoryEngine};
/// use std::time::Duration;
///
/// # let mut runtime = tokio::runtime::Builder::new_current_thread();
/// # runtime.enable_time().start_paused(true).build()?.block_on(async {
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let engine = MemoryEngine::with_clock(clock.clone());
/// let config = LeaseConfig::new(100, Duration::from_secs(1))?;
/// let orders = LeasedLimiter::builder("orders", config).with_clock(clock.clone()).start(engine)?;
/// // A new limit begins with a quarantine.
/// assert!(orders.acquire().await.is_err());
/// clock.advance(config.quarantine());
/// orders.acquire_many(3).await?;
/// assert_eq!(orders.state(), LeaseState::Leasing);
/// # orders.close().await;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct LeasedLimiter<C = BootClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    shared: Arc<Shared<C>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl LeasedLimiter {
    /// Returns the settings of a limiter for the limit `name`, with a [`BootClock`].
    pub fn builder(name: &str, config: LeaseConfig) -> LimiterBuilder {
        LimiterBuilder::new(name, config)
    }
}

impl<C: Clock> LeasedLimiter<C> {
    /// Returns the clock of the limiter.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.inner.shared.clock
    }

    /// Asks for a permit, and waits for an answer of the server if none is in hand; see
    /// [`acquire_many`](Self::acquire_many).
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    pub async fn acquire(&self) -> Result<(), Refusal> {
        self.acquire_many(1).await
    }

    /// Asks for `permits` permits, all of them or none, and waits for an answer of the server if
    /// too few are in hand.
    ///
    /// Waits for at most two answers, each for at most the
    /// [timeout](LimiterBuilder::with_answer_timeout) of one: an ask may be in flight already, and
    /// the next one asks for the permits. Requests that wait at the same time are not served in
    /// order.
    ///
    /// # Errors
    ///
    /// Returns the refusal, if the server has told when to ask again, or if it is away.
    pub async fn acquire_many(&self, permits: u64) -> Result<(), Refusal> {
        self.acquire_by(permits, None).await
    }

    /// Asks for a permit, and waits for up to `max_wait` until it is granted; see
    /// [`acquire_many_within`](Self::acquire_many_within).
    ///
    /// # Errors
    ///
    /// Returns the refusal.
    pub async fn acquire_within(&self, max_wait: Duration) -> Result<(), Refusal> {
        self.acquire_many_within(1, max_wait).await
    }

    /// Asks for `permits` permits, all of them or none, and waits for up to `max_wait` until they
    /// are granted.
    ///
    /// # Errors
    ///
    /// Returns the refusal, after `max_wait`, or at once if the request cannot be admitted in that
    /// time.
    pub async fn acquire_many_within(
        &self,
        permits: u64,
        max_wait: Duration,
    ) -> Result<(), Refusal> {
        let deadline = self.now().saturating_add(max_wait);
        self.acquire_by(permits, Some(deadline)).await
    }

    async fn acquire_by(&self, permits: u64, deadline: Option<Timestamp>) -> Result<(), Refusal> {
        let shared = &self.inner.shared;
        let decide = |now, is_again| {
            let ask = flow::Ask::at(now).many(permits);
            shared.decide(&if is_again { ask.again() } else { ask })
        };
        let mut is_again = false;
        let mut waits = None;
        let mut answers = 0;
        loop {
            let mut answered = std::pin::pin!(shared.answered.notified());
            // From here on, no answer is missed.
            answered.as_mut().enable();
            let now = shared.clock.now();
            let Some(refusal) = decide(now, is_again).refusal() else {
                return Ok(());
            };
            let gives_up = match (refusal.retry(), deadline) {
                (Retry::Never, _) | (Retry::At(_), None) => true,
                (Retry::At(time), Some(deadline)) => time > deadline,
                (_, None) => answers == 2,
                (_, Some(deadline)) => now >= deadline,
            };
            if gives_up {
                return Err(refusal);
            }
            if let Retry::At(_) = refusal.retry() {
                // A request that is refused is not noted in a shortage, and this one waits.
                shared.want(permits);
            }
            is_again = true;
            answers += 1;
            if deadline.is_some() && waits.is_none() {
                waits = Some(shared.waits(permits));
            }
            match deadline {
                // The task may not be driven.
                None => drop(tokio::time::timeout(shared.patience(), answered).await),
                Some(deadline) => {
                    let rest = deadline.saturating_since(now);
                    if tokio::time::timeout(rest, answered).await.is_err() {
                        return decide(shared.clock.now(), true).refusal().map_or(Ok(()), Err);
                    }
                }
            }
        }
    }

    /// Returns the keys of the limit on the server.
    #[must_use]
    pub fn keys(&self) -> &LeaseKeys {
        &self.inner.shared.keys
    }

    /// Returns the permits in hand.
    #[must_use]
    pub fn in_hand(&self) -> u64 {
        self.inner.shared.in_hand(self.account().now())
    }

    /// Returns whether the limiter gets leases.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.inner.shared.state()
    }

    /// Returns the state and its changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<LeaseState> {
        self.inner.shared.watch()
    }

    /// Returns counts since the start.
    #[must_use]
    pub fn counts(&self) -> LeaseCounts {
        self.inner.shared.counts()
    }

    /// Stops all clones of the limiter, gives the permits in hand back, and waits for the server to
    /// answer, for at most two [timeouts](LimiterBuilder::with_answer_timeout). From then on,
    /// requests are refused. In a [forked child](LeaseState::Forked), returns at once: the permits
    /// are those of the parent.
    pub async fn close(&self) {
        if self.inner.shared.is_forked() {
            return;
        }
        self.inner.shared.begin_to_close();
        let mut states = self.watch();
        let task = self.inner.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        match task {
            // It ends by itself, unless the runtime ends before.
            Some(task) => drop(task.await),
            // Another call waits for the task.
            None => drop(states.wait_for(|it| *it == LeaseState::Closed).await),
        }
    }
}

impl<C: Clock> Limiter for LeasedLimiter<C> {
    type Permit = ();

    /// Decides at the time of the limiter's clock on a request that enters a node. A refused
    /// request counts as demand once for each question: it does not wait for an answer here.
    #[inline]
    fn decide(&self, ask: &flow::Ask<'_>) -> Decision {
        let shared = &self.inner.shared;
        let now = if ask.node().is_some() { shared.clock.now() } else { ask.now() };
        shared.decide(&flow::Ask::at(now).many(ask.permits()).at_once())
    }

    /// Returns that the request is admitted, if the permits are in hand. The decision of another
    /// request is not known before it is made: it tells the server of the demand.
    fn peek(&self, ask: &flow::Ask<'_>) -> Option<Decision> {
        let in_hand = self.inner.shared.in_hand(ask.now());
        (in_hand >= ask.permits()).then_some(Decision::Admitted(()))
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<C: Clock> Account for LeasedLimiter<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.inner.shared.clock.now()
    }

    /// Returns the limit of the fleet, the permits in hand, and the window of the limit. A process
    /// at rest has no permits in hand, and asks for some with its next request.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let shared = &self.inner.shared;
        Some(Quota::new(shared.limit, shared.in_hand(now), None).with_window(shared.window))
    }

    /// Gives back permits of a request that was decided at the time of `ask`, and that has not used
    /// them. They are in hand again if their use is not reported, and returned to the server
    /// otherwise, until their use would have left the window. If only a part is given back, the
    /// result is `false`. None is given back of a time up to the last one at which a request was
    /// admitted without a lease, by [`WhenAway::Open`], nor with a share. Permits of a request that
    /// entered a node are not given back: it was decided by another clock than the node's.
    fn refund(&self, ask: &flow::Ask<'_>, wait: Duration) -> bool {
        let shared = &self.inner.shared;
        wait.is_zero() && ask.node().is_none() && shared.give_back(ask.now(), ask.permits())
    }

    /// Wakes `waker` once, after the next answer of the server, or when it is given up. Returns
    /// whether there is one to come.
    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.inner.shared.wake_on_answer(waker)
    }

    /// Counts a request among those that wait, by which the server shares what becomes free.
    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        Some(Box::new(self.inner.shared.waits(permits)))
    }
}

impl<C> Clone for LeasedLimiter<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C> Drop for Inner<C> {
    fn drop(&mut self) {
        self.shared.begin_to_close();
    }
}

impl<C> fmt::Debug for LeasedLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedLimiter")
            .field("limit", &self.inner.shared.limit)
            .finish_non_exhaustive()
    }
}
