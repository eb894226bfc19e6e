//! Any limiter for each key.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use super::PerKey;
use crate::flow::contract::{Ask, Decision, Limiter, Quota};
use crate::sync::{Ordering, fence};
use crate::time::Timestamp;

/// A limiter of any kind for each key of a [`KeyedLimiter`](super::KeyedLimiter), behind an
/// [`Arc`].
///
/// A state takes 32 bytes in the table, and the `Arc` with the limiter. For a limit that is the
/// same for all keys, [`TokenBucketPerKey`](super::TokenBucketPerKey) and its siblings take 8 bytes
/// a key.
///
/// A limiter is as new if [it says so](crate::flow::Account::is_as_new), and if nothing else has
/// its `Arc`, such as a permit in flight. Most limiters are as new if all of their permits remain,
/// and if their quota tells since when. A limiter without a quota, such as a breaker, never is. Nor
/// is one that learns, such as an [`AdaptiveLimiter`](crate::flow::AdaptiveLimiter), or an
/// [`AllOf`](crate::flow::AllOf) with one of these. Their keys stay, and count towards the cap,
/// until [`with_as_new`](Self::with_as_new) tells when they are as new. The keep time begins when
/// the limiter is first found as new.
///
/// Give the limiters the clock of the keyed limiter: their times are then read once. Each limiter
/// bounds times by its own lead as well.
///
/// ```
/// use leaparray::flow::{ConcurrencyLimiter, KeyedLimiter, LimiterExt};
/// use leaparray::flow::keyed::LimiterPerKey;
///
/// let limiter = KeyedLimiter::<String, _>::new(
///     LimiterPerKey::new(|| ConcurrencyLimiter::new(1)),
///     10_000,
/// )?;
/// let permit = limiter.try_acquire("ann").at_once()?;
/// assert!(limiter.try_acquire("ann").is_refused());
/// assert!(limiter.try_acquire("bob").is_admitted());
/// drop(permit);
/// assert!(limiter.try_acquire("ann").is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct LimiterPerKey<L> {
    make: Box<dyn Fn() -> L + Send + Sync>,
    as_new: Option<AsNew<L>>,
}

/// Whether a limiter is as new at a time.
type AsNew<L> = Box<dyn Fn(&L, Timestamp) -> bool + Send + Sync>;

/// The state of a key with a limiter of its own.
#[derive(Debug)]
pub struct LimiterState<L> {
    limiter: Arc<L>,
    /// Earlier requests are decided at this time.
    since: Timestamp,
    /// The time at which the limiter was first found as new since the last decision.
    as_new_at: Cell<Option<Timestamp>>,
}

impl<L> LimiterPerKey<L> {
    /// Creates the limit: for each key, a limiter that `make` returns. `make` is called while the
    /// shard of the key is locked, and must not ask the keyed limiter.
    #[must_use]
    pub fn new(make: impl Fn() -> L + Send + Sync + 'static) -> Self {
        Self { make: Box::new(make), as_new: None }
    }

    /// Sets how to tell whether a limiter is as new at a time: whether from then on it decides as a
    /// limiter that `make` has just returned. By default, the limiter [says
    /// so](crate::flow::Account::is_as_new).
    ///
    /// ```
    /// use leaparray::flow::{Decision, KeyedLimiter, LeakyBucket, LimiterExt, Rate};
    /// use leaparray::flow::keyed::LimiterPerKey;
    /// use std::time::Duration;
    ///
    /// let rate = Rate::per_second(100)?;
    /// // No request asks for more than 10 permits, so a bucket that admits 10 at once is as new.
    /// let limit = LimiterPerKey::new(move || LeakyBucket::new(rate, Duration::from_millis(50)))
    ///     .with_as_new(|bucket, now| bucket.peek_at(now, 10) == Some(Decision::Admitted(())));
    /// let limiter = KeyedLimiter::<String, _>::new(limit, 10_000)?;
    /// assert!(limiter.try_acquire("ann").is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_as_new(
        self,
        as_new: impl Fn(&L, Timestamp) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { as_new: Some(Box::new(as_new)), ..self }
    }
}

impl<L> LimiterState<L> {
    /// Returns the limiter of the key. While the caller has a clone of the `Arc`, the key is not
    /// evicted.
    #[must_use]
    pub const fn limiter(&self) -> &Arc<L> {
        &self.limiter
    }

    /// Returns the question, at a time at which it is decided.
    fn no_earlier<'a>(&self, ask: &Ask<'a>) -> Ask<'a> {
        ask.with_now(ask.now().max(self.since))
    }
}

impl<L> PerKey for LimiterPerKey<L>
where
    Arc<L>: Limiter,
{
    type State = LimiterState<L>;
    type Permit = <Arc<L> as Limiter>::Permit;

    /// Returns a new limiter. A request before `since` is decided at `since`.
    fn new_state(&self, since: Timestamp) -> LimiterState<L> {
        LimiterState { limiter: Arc::new((self.make)()), since, as_new_at: Cell::new(None) }
    }

    fn as_new_at(&self, state: &LimiterState<L>, now: Timestamp) -> Option<Timestamp> {
        // The caller has the lock of the shard, so that no thread can clone the only reference.
        if Arc::strong_count(&state.limiter) > 1 {
            return None;
        }
        // Acquire: pairs with the Release with which the last other reference was dropped. The
        // readings below include what its thread did with the limiter before, such as reporting a
        // failed request.
        fence(Ordering::Acquire);
        let now = now.max(state.since);
        let is_as_new = match &self.as_new {
            Some(as_new) => as_new(&state.limiter, now),
            None => state.limiter.account().is_as_new(now),
        };
        if !is_as_new {
            return None;
        }
        // It may have been as new for longer, which its quota need not tell.
        let found = state.as_new_at.get().unwrap_or(now);
        state.as_new_at.set(Some(found));
        Some(found)
    }

    fn decide(&self, state: &mut LimiterState<L>, ask: &Ask<'_>) -> Decision<Self::Permit> {
        state.as_new_at.set(None);
        state.limiter.decide(&state.no_earlier(ask))
    }

    fn peek(&self, state: &LimiterState<L>, ask: &Ask<'_>) -> Option<Decision> {
        state.limiter.peek(&state.no_earlier(ask))
    }

    fn quota(&self, state: &LimiterState<L>, now: Timestamp) -> Option<Quota> {
        state.limiter.account().quota(now.max(state.since))
    }

    fn each_quota(&self, state: &LimiterState<L>, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        state.limiter.account().each_quota(now.max(state.since), visit);
    }

    fn wake_on_answer(&self, state: &LimiterState<L>, waker: &Waker) -> bool {
        state.limiter.account().wake_on_answer(waker)
    }
}

impl<L> fmt::Debug for LimiterPerKey<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterPerKey").finish_non_exhaustive()
    }
}
