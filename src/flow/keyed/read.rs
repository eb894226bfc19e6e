//! Readings of the state of a key, which is not stored by them.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::task::Waker;

use super::per_key::KeyRule;
use super::shard::Shared;
use super::{Keyed, PerKey, locked};
use crate::flow::contract::{Ask, Decision, Quota};
use crate::time::Timestamp;

impl<K, L, S> Keyed<K, L, S>
where
    K: Eq + Hash,
    L: PerKey,
    S: BuildHasher,
{
    /// Returns the decision that a question would get; `None` if the limit cannot tell, or if the
    /// key has no place and there is no room for it.
    pub(super) fn foretell<Q>(&self, key: &Q, ask: &Ask<'_>) -> Option<Decision>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        self.foretell_with(key, ask, <L::Rule as KeyRule>::peek)
    }

    /// Foretells as [`foretell`](Self::foretell), by a function of the settings and the state.
    pub(super) fn foretell_with<Q, P>(&self, key: &Q, ask: &Ask<'_>, peek: P) -> Option<Decision>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
        P: Fn(&L::Rule, &<L::Rule as KeyRule>::State, &Ask<'_>) -> Option<Decision>,
    {
        let ask = ask.of_key(self.bounded(ask.now()));
        let found = self.read(key, ask.now(), |rule, state, is_stored| {
            // A temporary state is dropped. The decision on the request is the first question to
            // the state that the key gets.
            peek(rule, state, &if is_stored { ask } else { ask.again() })
        });
        found.unwrap_or_else(|| {
            // This may be the first question of the request to the shared state. A place may become
            // free for the key until the decision, and then no refusal of the shared state counts.
            let Shared { state, terms, .. } = &*locked(self.overflow.as_ref()?);
            peek(&terms.all.rule, state, &ask).filter(Decision::is_admitted)
        })
    }

    pub(super) fn quota_at<Q>(&self, key: &Q, now: Timestamp) -> Option<Quota>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        let now = self.bounded(now);
        self.read(key, now, |rule, state, _| rule.quota(state, now))?
    }

    /// Returns the number of requests of a key that were refused while it was stored; `None` if it
    /// is not stored.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    ///
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let limiter = Keyed::<String, _>::new(bucket, 1_000)?;
    /// assert_eq!(limiter.refusals("ann"), None);
    /// assert!(limiter.try_acquire("ann").is_admitted());
    /// assert!(limiter.try_acquire("ann").is_refused());
    /// assert_eq!(limiter.refusals("ann"), Some(1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn refusals<Q>(&self, key: &Q) -> Option<u64>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        let hash = self.hash(key);
        let table = self.shard(hash).lock();
        table.keys.find(hash.tag(), key).map(|slot| table.keys.count_of(slot))
    }

    /// Returns each quota of a key.
    pub(super) fn quotas_at<Q>(&self, key: &Q, now: Timestamp) -> Vec<Quota>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        let (mut quotas, now) = (Vec::new(), self.bounded(now));
        self.read(key, now, |rule, state, _| {
            rule.each_quota(state, now, &mut |quota| quotas.push(quota));
        });
        quotas
    }

    /// Wakes `waker` once, when the limit of a key has an answer from elsewhere. Returns whether
    /// one is to come.
    pub(super) fn wake_on_answer<Q>(&self, key: &Q, waker: &Waker) -> bool
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        let wake = |rule: &L::Rule, state: &_| rule.wake_on_answer(state, waker);
        self.with_stored(key, wake).unwrap_or(false)
    }

    /// Notes that a request of a key waits for permits.
    pub(super) fn note_wait<Q>(&self, key: &Q, permits: u64) -> Option<Box<dyn Send + Sync>>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        self.with_stored(key, |rule, state| rule.note_wait(state, permits))?
    }

    /// Returns what `read` finds in the stored state of a key, or in the state that keys without a
    /// place share; `None` if there is neither.
    fn with_stored<Q, T>(
        &self,
        key: &Q,
        read: impl FnOnce(&L::Rule, &<L::Rule as KeyRule>::State) -> T,
    ) -> Option<T>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        let hash = self.hash(key);
        let table = self.shard(hash).lock();
        if let Some(slot) = table.keys.find(hash.tag(), key) {
            return Some(read(&table.terms.of(key).rule, table.keys.value(slot)));
        }
        drop(table);
        let Shared { state, terms, .. } = &*locked(self.overflow.as_ref()?);
        Some(read(&terms.all.rule, state))
    }

    /// Returns the time, or the horizon if it is earlier.
    fn bounded(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(self.horizon.bounded(now.as_nanos(), &self.clock))
    }

    /// Returns what `read` finds in the state of a key, or in a temporary state, as the key would
    /// get at `now`; `None` if the key has no place and there is no room for it. `read` is told
    /// whether the state is stored.
    fn read<Q, T>(
        &self,
        key: &Q,
        now: Timestamp,
        read: impl FnOnce(&L::Rule, &<L::Rule as KeyRule>::State, bool) -> T,
    ) -> Option<T>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        let hash = self.hash(key);
        let table = self.shard(hash).lock();
        let terms = &table.terms;
        let rule = &terms.of(key).rule;
        if let Some(slot) = table.keys.find(hash.tag(), key) {
            return Some(read(rule, table.keys.value(slot), true));
        }
        if self.room.is_full() || table.keys.is_full() {
            return None;
        }
        let since = self.since_of_new(terms, key, now)?;
        Some(read(rule, &rule.new_state(since), false))
    }
}
