//! Limits that are tried before they are enforced: off, in the shadow, or for a share of the
//! requests or of the keys.
//!
//! A [`Shadow`] is a limiter around another one. Its [`Rollout`] has the [`Mode`], which can be
//! changed at any time, and the counts.

mod key;
mod mode;
mod rollout;

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, Limiter, LimiterExt, Quota};
use crate::flow::watch::WatchedState;
use crate::time::Timestamp;
pub use mode::{Mode, Share, ShareError};
pub use rollout::{Rollout, ShadowCounts};

/// A limiter whose decisions are carried out as far as its [`Mode`] says. In the shadow, it decides
/// on each request, and the requests that it would refuse or delay are counted and go ahead.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::shadow::{Mode, Shadow, Share};
/// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
///
/// let bucket = TokenBucket::new(Rate::per_minute(1)?, 2);
/// let limiter = Shadow::new(bucket, Mode::Shadow);
/// let now = Timestamp::from_secs(60);
/// let refused =
///     || (0..10).filter(|_| limiter.try_acquire_at(now, 1).is_refused()).count();
/// assert_eq!((refused(), limiter.counts().would_refuse), (0, 8));
/// limiter.set_mode(Mode::Requests(Share::percent(20)?));
/// assert_eq!((refused(), limiter.counts().would_refuse), (2, 16));
/// limiter.set_mode(Mode::Enforce);
/// assert_eq!((refused(), limiter.counts().enforced), (10, 12));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Meaning of the counts
///
/// The limiter is asked the same questions in each mode but [`Off`](Mode::Off). A request that it
/// refuses takes no permits of it, whether the refusal is carried out or not. So the limiter has
/// the same state as if it were enforced: for the same questions at the same times, a shadow counts
/// exactly the refusals that enforcement would make, and not only up to the first one.
///
/// Enforcement also changes the questions themselves, and that is the difference:
///
/// - A refused client may ask again, which a client that was let through does not.
/// - A request that was let through loads the backend. It has no permit, so a limiter in flight, a
///   breaker or an adaptive limiter does not learn from it, although it may learn from the response
///   times of others that it slows down.
/// - A limiter [with the passes of a node](crate::flow::SlidingWindowLimiter::with_node_passes)
///   finds its pass in the node, and counts it like each request that did not go through the
///   limiter. Then the shadow refuses more.
/// - A request that was let through without its wait keeps its turn in a leaky bucket, and goes
///   ahead before it.
/// - In an [`AllOf`](crate::flow::AllOf), a request that another limiter refuses takes no permits
///   of this one, and does not count here, unless this one was asked for its decision before:
///   beside a limiter that cannot tell in advance, or that another thread has used up since. It
///   then counts although it does not go ahead, and once more if it asks again, as in a queue: a
///   count never falls. A request that this one would refuse takes permits of the others.
/// - A [`WaitQueue`](crate::flow::WaitQueue) asks several times for one request. In the shadow,
///   each request is admitted at its first turn. With a share of requests, each question that the
///   limiter refuses is a request for the share. One that has to wait is enforced once.
///
/// The refusals that are not carried out are in [`counts`](Self::counts), and in the state of a
/// [watched](crate::Registry::watch) limiter. No node counts them.
///
/// # Quotas
///
/// A limit that is enforced for no request has no [quota](Account::quota): clients that read the
/// headers of a response would keep a limit that does not exist. A monitor sees it by
/// [`watched_at`](Account::watched_at).
///
/// # Refunds
///
/// A [refund](Account::refund) names a request by its time only. If any request of that time or a
/// later one went ahead against the decision, or while the limiter was off, up to a second before,
/// the refund is refused, and the permits stay charged. So it is for a time that is more than a
/// second ahead of the limiter's clock.
#[derive(Clone, Copy)]
pub struct Shadow<L, R = Arc<Rollout>> {
    limiter: L,
    rollout: R,
    /// The hash of the key.
    key: Option<u64>,
}

impl<L> Shadow<L> {
    /// Creates a limiter with a rollout of its own. Permits of a limiter that would borrow it refer
    /// to an [`Arc`] of it.
    ///
    /// ```
    /// use leaparray::flow::shadow::{Mode, Shadow};
    /// use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
    ///
    /// let limiter = Shadow::new(ConcurrencyLimiter::new(1), Mode::Shadow);
    /// let permits = [limiter.try_acquire(), limiter.try_acquire()];
    /// assert!(permits.iter().all(|permit| permit.is_admitted()));
    /// assert_eq!((limiter.limiter().in_use(), limiter.counts().would_refuse), (1, 1));
    /// ```
    #[must_use]
    pub fn new<T: LimiterExt<Owned = L>>(limiter: T, mode: Mode) -> Self {
        Self::with_rollout(limiter.into_owned(), Arc::new(Rollout::new(mode)))
    }
}

impl<L, R: Deref<Target = Rollout>> Shadow<L, R> {
    /// Creates a limiter with a rollout that it may share with others, through a reference of any
    /// kind.
    pub const fn with_rollout(limiter: L, rollout: R) -> Self {
        Self { limiter, rollout, key: None }
    }

    /// Sets the key of the requests, by which [`Mode::Keys`] selects. Equal keys are selected
    /// alike: in each process, by each limiter, and in each greater share.
    ///
    /// The hash is FNV-1a with the finalizer of `MurmurHash3`, over what the
    /// [`Hash`] of the key writes. The order of bytes and the size of a `usize` are those of the
    /// processor.
    ///
    /// ```
    /// use leaparray::flow::shadow::{Mode, Rollout, Shadow, Share};
    /// use leaparray::flow::{Keyed, LimiterExt, Rate, TokenBucket};
    ///
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let clients = Keyed::<String, _>::new(bucket, 10_000)?;
    /// let rollout = Rollout::new(Mode::Keys(Share::percent(10)?));
    /// let ask = |client: &str| {
    ///     Shadow::with_rollout(clients.of_key(client), &rollout).of_key(client).try_acquire()
    /// };
    /// let names: Vec<_> = (0..1_000).map(|number| format!("client-{number}")).collect();
    /// assert!(names.iter().all(|name| ask(name).is_admitted()));
    /// let refused = names.iter().filter(|name| ask(name).is_refused()).count();
    /// assert!((80..120).contains(&refused), "a tenth of the clients: {refused}");
    /// assert_eq!(rollout.counts().would_refuse as usize, 1_000 - refused);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_key<Q: Hash + ?Sized>(self, key: &Q) -> Self {
        Self { key: Some(key::hash_of(key)), ..self }
    }

    /// Returns the limiter.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// Returns the rollout.
    #[must_use]
    pub const fn rollout(&self) -> &R {
        &self.rollout
    }

    /// Returns the mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.rollout.mode()
    }

    /// [Changes the mode](Rollout::set_mode).
    pub fn set_mode(&self, mode: Mode) {
        self.rollout.set_mode(mode);
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> ShadowCounts {
        self.rollout.counts()
    }
}

impl<L, R> Limiter for Shadow<L, R>
where
    L: Limiter,
    R: Deref<Target = Rollout>,
{
    /// `None` if the request went ahead against a refusal, or if the limiter was not asked.
    type Permit = Option<L::Permit>;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<Self::Permit> {
        let mode = self.rollout.mode();
        if mode == Mode::Off {
            self.rollout.off(ask.now(), || self.now());
            return Decision::Admitted(None);
        }
        match ask.decided_by(&self.limiter) {
            Decision::Admitted(permit) => Decision::Admitted(Some(permit)),
            decision if self.rollout.carries_out(mode, self.key) => decision.map(Some),
            Decision::Wait(delayed) => {
                self.rollout.would_delay(ask.now(), self.now());
                Decision::Admitted(Some(delayed.into_parts().0))
            }
            Decision::Refused(_) => {
                self.rollout.would_refuse(ask.now(), self.now());
                Decision::Admitted(None)
            }
        }
    }

    /// Returns the decision that a request would get. With a share of requests, `None` if the
    /// limiter would not admit it: the draw is part of the decision.
    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        let mode = self.rollout.mode();
        if mode == Mode::Off {
            return Some(Decision::Admitted(()));
        }
        // Also in the shadow: it may be the first question of the request.
        match ask.foretold_by(&self.limiter) {
            Some(Decision::Admitted(())) => Some(Decision::Admitted(())),
            // The draw is part of the decision.
            _ if matches!(mode, Mode::Requests(share) if share.is_partial()) => None,
            peek if mode.is_enforced_for(self.key) => {
                // A combination or a queue that is refused by a peek makes no decision.
                if ask.is_first() && peek.is_some() {
                    self.rollout.count_enforced();
                }
                peek
            }
            _ => Some(Decision::Admitted(())),
        }
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<L, R> Account for Shadow<L, R>
where
    L: Limiter,
    R: Deref<Target = Rollout>,
{
    #[inline]
    fn now(&self) -> Timestamp {
        self.limiter.account().now()
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.mode().is_enforced_for(self.key).then(|| self.limiter.account().quota(now))?
    }

    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        if self.mode().is_enforced_for(self.key) {
            self.limiter.account().each_quota(now, visit);
        }
    }

    fn watched_at(&self, now: Timestamp) -> WatchedState {
        self.rollout.watched(self.limiter.account().watched_at(now))
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        self.limiter.account().is_as_new(now)
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        self.rollout.decided_at(ask.now(), self.now()) && self.limiter.account().refund(ask, wait)
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.limiter.account().wake_on_answer(waker)
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.limiter.account().note_wait(permits)
    }
}

impl<L: fmt::Debug, R: Deref<Target = Rollout>> fmt::Debug for Shadow<L, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow")
            .field("limiter", &self.limiter)
            .field("mode", &self.mode())
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
