//! Any limiter for each key.

use std::borrow::Borrow;
use std::cell::Cell;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::decide::Decide;
use super::per_key::KeyRule;
use super::{Keyed, PerKey};
use crate::flow::contract::{Ask, Decision, Limiter, Quota};
use crate::flow::permits::Horizon;
use crate::node::Permit;
use crate::sync::{Ordering, fence};
use crate::time::{Clock, MonotonicClock, Timestamp};

/// A limiter of any kind for each key, behind an [`Arc`]: one that the function returns.
#[derive(Clone, Copy, Debug)]
pub struct Each<F>(F);

/// The state of a key with a limiter of its own.
#[derive(Debug)]
pub struct OwnLimiter<L> {
    limiter: Arc<L>,
    /// Earlier requests are decided at this time.
    since: Timestamp,
    /// The time at which the limiter was first found as new since the last decision, and since it
    /// was last lent.
    as_new_at: Cell<Option<Timestamp>>,
}

impl<L> OwnLimiter<L> {
    /// Returns the limiter, which may be asked elsewhere from then on.
    fn lent(&self) -> Arc<L> {
        self.note_use();
        Arc::clone(&self.limiter)
    }

    /// Notes that the limiter may be asked. A line that has the note already is not written: other
    /// threads look keys up in it.
    fn note_use(&self) {
        if self.as_new_at.get().is_some() {
            self.as_new_at.set(None);
        }
    }

    /// Returns the question, at a time at which it is decided.
    fn no_earlier<'a>(&self, ask: &Ask<'a>) -> Ask<'a> {
        ask.with_now(ask.now().max(self.since))
    }
}

impl<F, L> KeyRule for Each<F>
where
    F: Fn() -> L,
    Arc<L>: Limiter,
{
    type State = OwnLimiter<L>;
    type Permit = <Arc<L> as Limiter>::Permit;

    /// Returns a new limiter. A request before `since` is decided at `since`.
    fn new_state(&self, since: Timestamp) -> OwnLimiter<L> {
        OwnLimiter { limiter: Arc::new((self.0)()), since, as_new_at: Cell::new(None) }
    }

    fn as_new_at(&self, state: &OwnLimiter<L>, now: Timestamp) -> Option<Timestamp> {
        // The caller has the lock of the shard, so that no thread can clone the only reference.
        if Arc::strong_count(&state.limiter) > 1 {
            return None;
        }
        // Acquire: pairs with the Release with which the last other reference was dropped. The
        // reading below includes what its thread did with the limiter before, such as reporting a
        // failed request.
        fence(Ordering::Acquire);
        let now = now.max(state.since);
        if !state.limiter.account().is_as_new(now) {
            return None;
        }
        // It may have been as new for longer, which its quota need not tell.
        let found = state.as_new_at.get().unwrap_or(now);
        state.as_new_at.set(Some(found));
        Some(found)
    }

    fn decide(&self, state: &mut OwnLimiter<L>, ask: &Ask<'_>) -> Decision<Self::Permit> {
        state.as_new_at.set(None);
        state.limiter.decide(&state.no_earlier(ask))
    }

    fn peek(&self, state: &OwnLimiter<L>, ask: &Ask<'_>) -> Option<Decision> {
        state.limiter.peek(&state.no_earlier(ask))
    }

    fn each_quota(&self, state: &OwnLimiter<L>, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        state.limiter.account().each_quota(now.max(state.since), visit);
    }

    fn quota(&self, state: &OwnLimiter<L>, now: Timestamp) -> Option<Quota> {
        state.limiter.account().quota(now.max(state.since))
    }

    fn wake_on_answer(&self, state: &OwnLimiter<L>, waker: &Waker) -> bool {
        state.limiter.account().wake_on_answer(waker)
    }

    fn note_wait(&self, state: &OwnLimiter<L>, permits: u64) -> Option<Box<dyn Send + Sync>> {
        state.limiter.account().note_wait(permits)
    }
}

/// By a function of the limiter of a key.
struct By<F>(F);

impl<R, L, T, F> Decide<R> for By<F>
where
    R: KeyRule<State = OwnLimiter<L>>,
    T: Permit,
    F: FnOnce(&Arc<L>, &Ask<'_>) -> Decision<T>,
{
    type Permit = T;

    fn decide(self, _rule: &R, state: &mut OwnLimiter<L>, ask: &Ask<'_>) -> Decision<T> {
        state.as_new_at.set(None);
        (self.0)(&state.limiter, &state.no_earlier(ask))
    }
}

impl<K, P, S, L> Keyed<K, P, S>
where
    P: PerKey<Rule: KeyRule<State = OwnLimiter<L>>>,
{
    /// Returns the limiter of a key, for what it does besides decisions: a deposit in its budget, a
    /// change of its settings. A key that is not stored is stored. Without room for it, this is the
    /// limiter that keys without a place share, or `None` if there is none.
    ///
    /// While the result is held, the key stays. Drop it before the next request of the key is to
    /// find it as new.
    ///
    /// ```
    /// use leaparray::WindowConfig;
    /// use leaparray::flow::Keyed;
    /// use leaparray::flow::budget::RetryBudget;
    /// use std::time::Duration;
    ///
    /// let window = WindowConfig::new(10, Duration::from_secs(1))?;
    /// RetryBudget::new(window, 1.0, 0)?;
    /// let make = move || RetryBudget::new(window, 1.0, 0).expect("checked before");
    /// let backends = Keyed::<String, _>::new(make, 1_000)?;
    /// backends.limiter_of("db-1").expect("there is room").deposit();
    /// assert!(backends.try_acquire("db-1").is_admitted());
    /// assert!(backends.try_acquire("db-2").is_refused(), "no request was sent there");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn limiter_of<Q>(&self, key: &Q) -> Option<Arc<L>>
    where
        S: BuildHasher,
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        let now = self.clock.now();
        self.with_state(self.hash(key), key, now, |own| own.lent())
    }

    /// Returns the limiter of a key, as [`limiter_of`](Self::limiter_of), for a request at `now`.
    /// The clock is not read, unless `now` is ahead of its last reading by more than the
    /// [lead](Self::with_max_lead).
    ///
    /// ```
    /// use leaparray::flow::{Keyed, LimiterExt, SlidingWindowLimiter};
    /// use leaparray::Timestamp;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let make = move || SlidingWindowLimiter::new(second, 2).expect("a good interval");
    /// let keyed = Keyed::<String, _>::new(make, 1_000)?;
    /// let now = Timestamp::from_secs(60);
    /// let ann = keyed.limiter_of_at("ann", now).expect("there is room");
    /// assert!(ann.try_acquire_at(now, 2).is_admitted());
    /// assert!(keyed.try_acquire_at("ann", now, 1).is_refused());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn limiter_of_at<Q>(&self, key: &Q, now: Timestamp) -> Option<Arc<L>>
    where
        S: BuildHasher,
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        let now = Timestamp::from_nanos(self.horizon.bound(now.as_nanos(), &self.clock));
        self.with_state(self.hash(key), key, now, |own| own.lent())
    }

    /// Calls `act` with the limiter of a key, for a request at `now`, as
    /// [`limiter_of_at`](Self::limiter_of_at) returns it. Returns what `act` returns; `None`
    /// without room for the key.
    ///
    /// The shard of the key is locked during the call, so no other thread asks the limiter then,
    /// unless it holds it. `act` must not ask this keyed limiter, and should not take longer than a
    /// decision. In return, no reference is counted, which threads that ask for the same key would
    /// compete for.
    ///
    /// ```
    /// use leaparray::flow::{Account, Keyed, LimiterExt, SlidingWindowLimiter};
    /// use leaparray::Timestamp;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let make = move || SlidingWindowLimiter::new(second, 2).expect("a good interval");
    /// let keyed = Keyed::<String, _>::new(make, 1_000)?;
    /// let now = Timestamp::from_secs(60);
    /// let remaining = keyed.with_limiter_of_at("ann", now, |ann| {
    ///     assert!(ann.try_acquire_at(now, 1).is_admitted());
    ///     ann.quota(now).map(|quota| quota.remaining)
    /// });
    /// assert_eq!(remaining.flatten(), Some(1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn with_limiter_of_at<Q, T>(
        &self,
        key: &Q,
        now: Timestamp,
        act: impl FnOnce(&L) -> T,
    ) -> Option<T>
    where
        S: BuildHasher,
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        let now = Timestamp::from_nanos(self.horizon.bound(now.as_nanos(), &self.clock));
        self.with_state(self.hash(key), key, now, |own| {
            own.note_use();
            act(&own.limiter)
        })
    }

    /// Decides on a request of a key by a function of its limiter, which is called at most once:
    /// for a limiter that needs to know more of the request than an [`Ask`] says, such as its
    /// [class](crate::flow::priority). A refusal counts in [`refusals`](Self::refusals), and a key
    /// is stored, as for any other request.
    ///
    /// `decide` is called while the shard of the key is locked, and must not ask the keyed limiter.
    /// It is given the question at the time at which the limiter decides. Without room for the key
    /// and without a limiter that such keys share, `decide` is not called, and the request is
    /// refused.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::priority::{Classes, OfClass};
    /// use leaparray::flow::{Ask, ConcurrencyLimiter, Decision, Keyed, Limiter};
    /// use std::sync::Arc;
    ///
    /// /// The calls of one client, of which batch jobs use up to a half.
    /// struct Calls(Arc<Classes<Arc<ConcurrencyLimiter>>>);
    ///
    /// impl Limiter for Calls {
    ///     type Permit = ();
    ///
    ///     fn decide(&self, _ask: &Ask<'_>) -> Decision {
    ///         Decision::Admitted(())
    ///     }
    /// }
    ///
    /// let calls = || Arc::new(ConcurrencyLimiter::new(4));
    /// let classes = move || Classes::new(calls(), &[1.0, 0.5]).expect("in order");
    /// let clients = Keyed::<String, _>::new(move || Calls(Arc::new(classes())), 1_000)?;
    /// let ask = Ask::at(Timestamp::from_secs(60));
    /// let of = |own: &Calls, class| OfClass::new(Arc::clone(&own.0), class);
    /// let enter = |class| clients.decide_by("ann", &ask, |own, ask| of(own, class).decide(ask));
    /// let jobs = [(); 3].map(|()| enter(1).at_once().ok());
    /// assert_eq!(jobs.iter().flatten().count(), 2);
    /// assert!(enter(0).is_admitted());
    /// assert_eq!(clients.top_refused(1)[0].refusals, 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_by<Q, T>(
        &self,
        key: &Q,
        ask: &Ask<'_>,
        decide: impl FnOnce(&Arc<L>, &Ask<'_>) -> Decision<T>,
    ) -> Decision<T>
    where
        S: BuildHasher,
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
        T: Permit,
    {
        self.decide_with(self.hash(key), key, ask, By(decide))
    }

    /// Returns the decision that a request of a key would get by a function of its limiter, as
    /// [`decide_by`](Self::decide_by); `None` if the function returns it. The key is not stored.
    /// `peek` is called with a new limiter if the key is not stored. Without room for the key, it
    /// is called with the limiter that such keys share, if there is one, and only an admission is
    /// returned: a place may become free before the decision.
    ///
    /// `peek` is called while the shard of the key is locked. It must not ask the keyed limiter,
    /// and should not charge the limiter of the key.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::{Ask, ConcurrencyLimiter, Decision, Keyed, LimiterExt};
    ///
    /// let clients = Keyed::<String, _>::new(|| ConcurrencyLimiter::new(2), 1_000)?;
    /// let ask = Ask::at(Timestamp::from_secs(60));
    /// let peek = || clients.peek_by("ann", &ask, |own, ask| own.foretell(&ask.many(2)));
    /// assert!(peek().is_some_and(|decision| decision.is_admitted()));
    /// let call = clients.try_acquire("ann").at_once()?;
    /// assert!(peek().is_some_and(|decision| decision.is_refused()));
    /// assert_eq!(clients.refusals("ann"), Some(0), "no request was refused");
    /// # drop(call);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek_by<Q>(
        &self,
        key: &Q,
        ask: &Ask<'_>,
        peek: impl Fn(&Arc<L>, &Ask<'_>) -> Option<Decision>,
    ) -> Option<Decision>
    where
        S: BuildHasher,
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash,
    {
        self.foretell_with(key, ask, |_, own, ask| {
            own.note_use();
            peek(&own.limiter, &own.no_earlier(ask))
        })
    }

    /// Calls `visit` with the limiter of each stored key, and with the one that keys without a
    /// place share. So the limiters of all keys can be changed in place.
    ///
    /// The function that makes limiters is not changed: it reads the settings from where it finds
    /// them. Change them there before this call. A key that is inserted in between then has a
    /// limiter with the new settings, and each older one is visited.
    ///
    /// One shard at a time is locked, to clone the `Arc`s of about five hundred limiters, and
    /// `visit` is called without a lock.
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, Keyed};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let limit = Arc::new(AtomicU64::new(1));
    /// let make = {
    ///     let limit = Arc::clone(&limit);
    ///     move || ConcurrencyLimiter::new(limit.load(Ordering::Relaxed))
    /// };
    /// let limiter = Keyed::<String, _>::new(make, 10_000)?;
    /// let first = limiter.try_acquire("ann").at_once()?;
    /// assert!(limiter.try_acquire("ann").is_refused());
    /// limit.store(2, Ordering::Relaxed);
    /// limiter.for_each_limiter(|own| own.reconfigure(2));
    /// let second = limiter.try_acquire("ann").at_once()?;
    /// assert!(limiter.try_acquire("ann").is_refused(), "two are in flight");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each_limiter(&self, mut visit: impl FnMut(&L)) {
        let mut limiters = Vec::new();
        for shard in &self.shards {
            let mut table = shard.lock();
            limiters.extend(table.keys.entries_mut().map(|(_, own)| own.lent()));
            drop(table);
            limiters.drain(..).for_each(|limiter| visit(&limiter));
        }
        if let Some(shared) = &self.overflow {
            let limiter = super::locked(shared).state.lent();
            visit(&limiter);
        }
    }
}

impl<F, L> PerKey for F
where
    F: Fn() -> L,
    Arc<L>: Limiter,
{
    type Rule = Each<F>;
    type Clock = MonotonicClock;

    fn into_parts(self) -> (Each<F>, MonotonicClock, Duration) {
        (self, MonotonicClock::new()).into_parts()
    }
}

impl<F, L, C> PerKey for (F, C)
where
    F: Fn() -> L,
    Arc<L>: Limiter,
    C: Clock,
{
    type Rule = Each<F>;
    type Clock = C;

    fn into_parts(self) -> (Each<F>, C, Duration) {
        (Each(self.0), self.1, Horizon::new().lead())
    }
}
