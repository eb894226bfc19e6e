//! The eviction of idle keys, in bounded steps.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::per_key::KeyRule;
use super::shard::{Limit, Shard, Shared, Table, Terms};
use super::{Keyed, PerKey, locked};
use crate::sync::{Arc, Ordering};
use crate::time::Timestamp;

impl<K: Eq + Hash, L: PerKey, S> Keyed<K, L, S> {
    /// The number of slots that are examined for each inserted key, in its shard. With more than
    /// one, the examination goes around a table faster than the table grows.
    pub(super) const SWEEP: usize = 4;

    /// The number of slots that are examined in another shard for a key for which there is no room.
    const SWEEP_NEXT: usize = 16;

    /// Examines up to `steps` slots of a table, in turn, and evicts the keys that are idle. Returns
    /// how many were examined.
    pub(super) fn sweep(
        &self,
        table: &mut Table<K, L::Rule>,
        now: Timestamp,
        steps: usize,
    ) -> usize {
        // A slot is examined again after each key that was removed from it.
        let steps = steps.min(table.keys.slots() + table.keys.len());
        for _ in 0..steps {
            if let Some(slot) = table.keys.next_slot()
                && let Some((key, state)) = table.keys.entry_in(slot)
                && let Some(time) = table.terms.of(key).rule.as_new_at(state, now)
                && time <= now
                && self.may_leave(table, slot, time, now)
            {
                self.remove_idle(table, slot, time);
            }
        }
        steps
    }

    /// Returns whether a key whose state has been as new since `time` may be evicted at `now`.
    fn may_leave(
        &self,
        table: &Table<K, L::Rule>,
        slot: usize,
        time: Timestamp,
        now: Timestamp,
    ) -> bool {
        let is_kept = now.saturating_since(time) < self.keep;
        let is_protected = table.keys.is_marked(slot) && !self.room.is_mostly_known();
        !is_kept || (self.room.is_full() && !is_protected)
    }

    /// Evicts the key of a slot, whose state has been as new since `time`.
    fn remove_idle(&self, table: &mut Table<K, L::Rule>, slot: usize, time: Timestamp) {
        // Before the key is removed: a thread that does not find the key must find the time.
        //
        // Relaxed: the lock of the shard orders this before the look-up of any thread that does not
        // find the key.
        self.evicted_until.fetch_max(time.as_nanos(), Ordering::Relaxed);
        drop(self.take_out(table, slot));
    }

    /// Removes the key of a slot, and gives its place back. Returns it with its state.
    fn take_out(
        &self,
        table: &mut Table<K, L::Rule>,
        slot: usize,
    ) -> (K, <L::Rule as KeyRule>::State) {
        let refused = table.keys.count_of(slot);
        if table.keys.is_marked(slot) {
            self.room.remove_known();
        }
        let removed = table.keys.remove(slot);
        self.room.give_back();
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        self.counts.evicted_refused.fetch_add(refused, Ordering::Relaxed);
        removed
    }

    /// Evicts a key in any state, so that its next request is decided on as the first one of a key.
    /// Returns whether the key was stored.
    ///
    /// For a client whose limit is lifted by hand. No other operation gives a key permits back that
    /// it has taken. Permits in flight stay valid, and the next limiter of the key does not
    /// count them.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    ///
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let limiter = Keyed::<String, _>::new(bucket, 1_000)?;
    /// assert!(limiter.try_acquire("ann").is_admitted());
    /// assert!(limiter.try_acquire("ann").is_refused());
    /// assert!(limiter.remove("ann"));
    /// assert!(limiter.try_acquire("ann").is_admitted());
    /// assert!(!limiter.remove("bob"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        S: BuildHasher,
        Q: ?Sized + Eq + Hash,
    {
        let hash = self.hash(key);
        let mut table = self.shard(hash).lock();
        let removed = table.keys.find(hash.tag(), key).map(|slot| self.take_out(&mut table, slot));
        // A drop of the key or of its state is code of the caller, and may take long.
        drop(table);
        removed.is_some()
    }

    /// Returns the time from which on a new state is as new: the latest time from which on the
    /// state of an evicted key was, or the earliest one under these settings, if that is later.
    pub(super) fn new_since(&self, limit: &Limit<L::Rule>) -> Timestamp {
        // Relaxed: as in `remove_idle`.
        Timestamp::from_nanos(self.evicted_until.load(Ordering::Relaxed)).max(limit.since)
    }

    /// Returns the time from which on the state of a key that is inserted at `now` is as new;
    /// `None` if the key shares a state, and goes on to do so, since it is not known when that
    /// state is as new.
    ///
    /// A key may have taken permits of the shared state, which is as new no earlier than the key
    /// alone would be.
    pub(super) fn since_of_new<Q>(
        &self,
        terms: &Arc<Terms<K, L::Rule>>,
        key: &Q,
        now: Timestamp,
    ) -> Option<Timestamp>
    where
        K: Borrow<Q>,
        Q: ?Sized + Eq + Hash,
    {
        let since = self.new_since(terms.of(key));
        let Some(shared) = &self.overflow else { return Some(since) };
        let Shared { state, terms: of_shared, is_used } = &*locked(shared);
        if !is_used {
            return Some(since);
        }
        // While the settings change, those of the shared state are the last ones.
        let has_same_terms = Arc::ptr_eq(terms, of_shared);
        let as_new = has_same_terms.then(|| of_shared.all.rule.as_new_at(state, now))?;
        Some(since.max(as_new?))
    }

    /// Examines some keys of one shard, of each shard in turn. Skips a shard that is locked: a
    /// stopped thread delays only the keys of the shard that it has locked.
    pub(super) fn sweep_next(&self, now: Timestamp) {
        if let Some(mut table) = self.next_shard().try_lock() {
            self.sweep(&mut table, now, Self::SWEEP_NEXT);
        }
    }

    /// Returns a shard, and the next one at the next call, in turn.
    fn next_shard(&self) -> &Shard<K, L::Rule> {
        // Relaxed: any shard will do.
        let turn = self.counts.turn.fetch_add(1, Ordering::Relaxed);
        &self.shards[turn % self.shards.len()]
    }
}

impl<K: Eq + Hash, L: PerKey, S> Keyed<K, L, S> {
    /// Examines about `steps` keys, and evicts those that are idle at `now`. Returns how many keys
    /// were evicted.
    ///
    /// The shards take turns, and each goes on where its last examination ended. One shard at a
    /// time is locked, so that no decision waits for longer than one shard takes, about five
    /// hundred keys.
    ///
    /// Not needed in general: each inserted key evicts others. But a limiter whose keys all become
    /// idle, and that gets no new ones, keeps their memory until then. A timer that calls this
    /// gives it back.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    /// use leaparray::{Clock, ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_second(1)?, 5, clock.clone());
    /// let limiter = Keyed::new(bucket, 1_000)?
    ///     .with_keep(Duration::from_secs(10));
    /// for key in 0..100_u64 {
    ///     assert!(limiter.try_acquire_at(&key, clock.now(), 5).is_admitted());
    /// }
    /// clock.advance(Duration::from_secs(14));
    /// assert_eq!(limiter.evict_at(clock.now(), 1_000), 0, "full again since 9 s");
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!((limiter.evict_at(clock.now(), 1_000), limiter.len()), (100, 0));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn evict_at(&self, now: Timestamp, steps: usize) -> usize {
        let now = Timestamp::from_nanos(self.horizon.bound(now.as_nanos(), &self.clock));
        let (mut left, mut evicted) = (steps, 0);
        for _ in 0..self.shards.len() {
            if left == 0 {
                break;
            }
            let mut table = self.next_shard().lock();
            let before = table.keys.len();
            left -= self.sweep(&mut table, now, left);
            evicted += before - table.keys.len();
        }
        evicted
    }
}
