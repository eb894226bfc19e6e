//! The limiter of one key.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::task::Waker;

use super::per_key::PermitOf;
use super::{Keyed, PerKey};
use crate::flow::contract::{Account, Ask, Decision, Limiter, Quota};
use crate::time::{Clock, Timestamp};

/// One key of a [`Keyed`] limiter, as a [`Limiter`]: see [`Keyed::of_key`].
///
/// Permits of type `()`, such as the tokens of a [`TokenBucket`](crate::flow::TokenBucket),
/// cannot be given back: [`refund`](Account::refund) returns `false`. Other permits are given
/// back when they are dropped.
#[derive(Clone, Copy)]
pub struct OfKey<L, Q> {
    limiter: L,
    key: Q,
}

impl<L, Q> OfKey<L, Q> {
    /// Creates the limiter of a key from a reference of any kind to a keyed limiter, such as an
    /// `Arc`. `key` is a reference to a key, or a key in a box, an [`Arc`](std::sync::Arc) or a
    /// [`Cow`](std::borrow::Cow). An owned key in a `Cow` needs no allocation of its own:
    /// `Cow::<u64>::Owned(7)`.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, LimiterExt, Rate, TokenBucket};
    /// use leaparray::flow::keyed::OfKey;
    /// use std::sync::Arc;
    ///
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let keyed = Arc::new(Keyed::<String, _>::new(bucket, 1_000)?);
    /// let ann = OfKey::new(Arc::clone(&keyed), Box::new("ann".to_owned()));
    /// assert!(ann.try_acquire().is_admitted() && keyed.try_acquire("ann").is_refused());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub const fn new(limiter: L, key: Q) -> Self {
        Self { limiter, key }
    }
}

impl<R, K, L, S, Q> Limiter for OfKey<R, Q>
where
    R: Deref<Target = Keyed<K, L, S>>,
    L: PerKey,
    S: BuildHasher,
    Q: Deref,
    K: Borrow<Q::Target> + Eq + Hash,
    Q::Target: Eq + Hash + ToOwned<Owned = K>,
{
    type Permit = PermitOf<L>;

    #[inline]
    fn decide(&self, ask: &Ask<'_>) -> Decision<PermitOf<L>> {
        self.limiter.ask(&*self.key, ask)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.limiter.foretell(&*self.key, ask)
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<R, K, L, S, Q> Account for OfKey<R, Q>
where
    R: Deref<Target = Keyed<K, L, S>>,
    L: PerKey,
    S: BuildHasher,
    Q: Deref,
    K: Borrow<Q::Target> + Eq + Hash,
    Q::Target: Eq + Hash + ToOwned<Owned = K>,
{
    #[inline]
    fn now(&self) -> Timestamp {
        self.limiter.clock.now()
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.limiter.quota_at(&*self.key, now)
    }

    /// Calls `visit` with each quota of the key, after the lock of its shard is released.
    fn each_quota(&self, now: Timestamp, visit: &mut dyn FnMut(Quota)) {
        self.limiter.quotas_at(&*self.key, now).into_iter().for_each(visit);
    }

    fn wake_on_answer(&self, waker: &Waker) -> bool {
        self.limiter.wake_on_answer(&*self.key, waker)
    }

    fn note_wait(&self, permits: u64) -> Option<Box<dyn Send + Sync>> {
        self.limiter.note_wait(&*self.key, permits)
    }
}

impl<L, Q: fmt::Debug> fmt::Debug for OfKey<L, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfKey").field("key", &self.key).finish_non_exhaustive()
    }
}
