//! Readings of a keyed limiter, for monitors.

use std::cmp::Reverse;

use super::{Keyed, PerKey};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, zeros};

/// The counts of a keyed limiter that belong to no stored key.
///
/// # Orderings
///
/// Relaxed: the counts order nothing.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) evicted: AtomicU64,
    pub(super) evicted_refused: AtomicU64,
    pub(super) unknown_refused: AtomicU64,
    pub(super) no_room: AtomicU64,
    /// The number of shards that were examined in turn.
    pub(super) turn: AtomicUsize,
}

impl Counts {
    pub(super) fn new() -> Self {
        let [evicted, evicted_refused, unknown_refused, no_room] = zeros();
        Self { evicted, evicted_refused, unknown_refused, no_room, turn: AtomicUsize::new(0) }
    }
}

/// The counts of a [`Keyed`] limiter since it was made: plain data.
///
/// Each refused request is in one place: in the count of its key, or in one of the three counts of
/// refusals here. While other threads decide, the counts are of slightly different times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyedCounts {
    /// The number of keys that are stored.
    pub keys: usize,
    /// The number of keys that were evicted, or removed by a caller. A key that was evicted twice
    /// counts twice.
    pub evicted_keys: u64,
    /// The refused requests of keys that were evicted: the sum of the counts that were dropped.
    pub evicted_refusals: u64,
    /// The refused requests of keys that were not stored, although there was room: for more than
    /// the limit, with a limit of 0, or at a time at which a key that [was
    /// evicted](super::Keyed#idle-keys) would be refused.
    pub unstored_refusals: u64,
    /// The refused requests of keys for which there was no room.
    pub no_room_refusals: u64,
}

/// A key, and the number of its requests that were refused while it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedKey<K> {
    /// The key.
    pub key: K,
    /// The number of refused requests, exact.
    pub refusals: u64,
}

impl<K, L: PerKey, S> Keyed<K, L, S> {
    /// Returns the `n` keys with the most refused requests, the most refused first. Keys without
    /// refusals are left out.
    ///
    /// Locks one shard at a time, about five hundred keys, and clones the keys that are among the
    /// first `n` so far. A key that is evicted or inserted during the call may be left out.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    ///
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let limiter = Keyed::<String, _>::new(bucket, 1_000)?;
    /// for key in ["ann", "bob", "bob", "eve", "eve", "eve"] {
    ///     let _ = limiter.try_acquire(key);
    /// }
    /// let top = limiter.top_refused(2);
    /// assert_eq!((&*top[0].key, top[0].refusals), ("eve", 2));
    /// assert_eq!((&*top[1].key, top[1].refusals), ("bob", 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn top_refused(&self, n: usize) -> Vec<RefusedKey<K>>
    where
        K: Clone,
    {
        let mut top: Vec<RefusedKey<K>> = Vec::new();
        // The least count that is among the first n.
        let mut least = 1;
        for shard in &self.shards {
            let counts = |(key, refusals): (&K, u64)| {
                (refusals >= least).then(|| RefusedKey { key: key.clone(), refusals })
            };
            // The lock of the shard is released before the keys are sorted.
            top.extend(shard.lock().keys.counts().filter_map(counts));
            if top.len() >= n.max(32).saturating_mul(2) {
                least = cut(&mut top, n).max(least);
            }
        }
        cut(&mut top, n);
        top
    }

    /// Calls `look` with each stored key and the number of its refused requests. Returns the first
    /// error of `look`, if it returns one, and visits no further key.
    ///
    /// Clones the keys of one shard at a time, about five hundred, and calls `look` without a lock.
    /// A key that is evicted or inserted during the call may be left out; no key is visited twice.
    ///
    /// # Errors
    ///
    /// Returns the error of `look`.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    /// use std::convert::Infallible;
    ///
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let limiter = Keyed::<u64, _>::new(bucket, 1_000)?;
    /// let refused = [7, 8, 8].map(|key| limiter.try_acquire(&key).is_refused());
    /// assert_eq!(refused, [false, false, true]);
    /// let mut seen = Vec::new();
    /// limiter.try_for_each(|key| Ok::<_, Infallible>(seen.push((key.key, key.refusals))))?;
    /// seen.sort_unstable();
    /// assert_eq!(seen, [(7, 0), (8, 1)]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_for_each<E>(
        &self,
        mut look: impl FnMut(RefusedKey<K>) -> Result<(), E>,
    ) -> Result<(), E>
    where
        K: Clone,
    {
        let mut some = Vec::new();
        for shard in &self.shards {
            let refused = |(key, refusals): (&K, u64)| RefusedKey { key: key.clone(), refusals };
            some.extend(shard.lock().keys.counts().map(refused));
            some.drain(..).try_for_each(&mut look)?;
        }
        Ok(())
    }

    /// Returns the counts of all keys together.
    ///
    /// ```
    /// use leaparray::flow::{Keyed, Rate, Reason, TokenBucket};
    /// use leaparray::{ManualClock, Timestamp};
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_minute(1)?, 1, clock);
    /// let limiter = Keyed::new(bucket, 1)?;
    /// assert!(limiter.try_acquire(&1).is_admitted());
    /// let refusal = limiter.try_acquire(&2).refusal().expect("no room");
    /// assert_eq!(refusal.reason, Reason::NO_ROOM_FOR_KEY);
    /// assert_eq!((limiter.counts().keys, limiter.counts().no_room_refusals), (1, 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn counts(&self) -> KeyedCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        KeyedCounts {
            keys: self.len(),
            evicted_keys: read(&self.counts.evicted),
            evicted_refusals: read(&self.counts.evicted_refused),
            unstored_refusals: read(&self.counts.unknown_refused),
            no_room_refusals: read(&self.counts.no_room),
        }
    }
}

/// Leaves the `n` keys with the greatest counts, the greatest first. Returns the least count that a
/// further key needs.
fn cut<K>(top: &mut Vec<RefusedKey<K>>, n: usize) -> u64 {
    top.sort_by_key(|refused| Reverse(refused.refusals));
    top.truncate(n);
    match top.last() {
        Some(last) if top.len() == n => last.refusals + 1,
        // For none, no count suffices.
        None if n == 0 => u64::MAX,
        _ => 1,
    }
}
