//! Changes of the settings, while threads decide by them.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::ptr;

use super::per_key::KeyRule;
use super::shard::{Limit, Table, Terms};
use super::word::Word;
use super::{Keyed, PerKey, locked};
use crate::flow::permits::Rule;
use crate::sync::Arc;
use crate::time::{Clock, Timestamp};

impl<K, L, S> Keyed<K, L, S>
where
    K: Eq + Hash,
    L: PerKey<Rule: Rule + KeyRule<State = Word>>,
    S: BuildHasher,
{
    /// Changes the settings of all keys now; see [`reconfigure_at`](Self::reconfigure_at).
    pub fn reconfigure(&self, limiter: L) {
        self.reconfigure_at(self.clock.now(), limiter);
    }

    /// [Changes](crate::flow#changes-in-place) the settings of all keys at `now` to those of
    /// `limiter`. Its clock and its lead are not used.
    ///
    /// Each key keeps what it has, as if it had a limiter of its own that is changed: see
    /// [`TokenBucket::reconfigure_at`](crate::flow::TokenBucket::reconfigure_at),
    /// [`LeakyBucket::reconfigure`](crate::flow::LeakyBucket::reconfigure) and
    /// [`FixedWindowLimiter::reconfigure`](crate::flow::FixedWindowLimiter::reconfigure). If the
    /// length of a fixed window is changed, the permits that were taken in the present interval
    /// count in the present interval of the new length. A key that is not stored gets no more than
    /// one that is.
    ///
    /// One shard at a time is locked, about five hundred keys, for some tens of nanoseconds a key.
    ///
    /// For limiters that a function makes, see [`for_each_limiter`](Self::for_each_limiter).
    ///
    /// ```
    /// use leaparray::flow::{Keyed, LimiterExt, Rate, TokenBucket};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let rate = Rate::per_second(10)?;
    /// let bucket = |burst| TokenBucket::with_clock(rate, burst, clock.clone());
    /// let limiter = Keyed::<String, _>::new(bucket(40), 1_000)?;
    /// assert!(limiter.of_key("ann").try_acquire_many(30).is_admitted());
    /// limiter.reconfigure(bucket(41));
    /// assert!(limiter.of_key("ann").try_acquire_many(11).is_refused(), "10 tokens are left");
    /// clock.advance(Duration::from_millis(100));
    /// assert!(limiter.of_key("ann").try_acquire_many(11).is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure_at(&self, now: Timestamp, limiter: L) {
        let now = self.horizon.bound(now.as_nanos(), &self.clock);
        let mut current = locked(&self.current);
        let all = self.changed(&current.all, limiter, now);
        let own = current.own.clone();
        self.replace(&mut current, Terms { all, own }, None, None, now);
    }

    /// Gives a key settings of its own now; see [`set_own_limit_at`](Self::set_own_limit_at).
    pub fn set_own_limit<Q>(&self, key: &Q, limiter: L)
    where
        K: Borrow<Q> + Clone,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        self.set_own_limit_at(self.clock.now(), key, limiter);
    }

    /// Gives a key settings of its own at `now`, those of `limiter`: for a plan, or a tenant that
    /// pays for more. [`reconfigure_at`](Self::reconfigure_at) does not change them from then on.
    /// If the key has settings of its own, they are changed.
    ///
    /// The key keeps what it has, as if it had a limiter of its own that is changed. It need not be
    /// stored. The settings are kept while the key is idle and evicted, until
    /// [`unset_own_limit_at`](Self::unset_own_limit_at). A key [without a
    /// place](Self::with_overflow) shares a state under the settings of all.
    ///
    /// Copies the settings of all keys that have their own, and locks one shard at a time. With
    /// some thousands of such keys, a decision takes no longer than with one: some tens of
    /// nanoseconds to look its settings up.
    ///
    /// For limiters that a function makes, see [`limiter_of`](Self::limiter_of).
    ///
    /// ```
    /// use leaparray::flow::{Keyed, LimiterExt, Rate, TokenBucket};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let rate = Rate::per_second(10)?;
    /// let bucket = |burst| TokenBucket::with_clock(rate, burst, clock.clone());
    /// let limiter = Keyed::<String, _>::new(bucket(10), 1_000)?;
    /// assert!(limiter.of_key("ann").try_acquire_many(8).is_admitted());
    /// limiter.set_own_limit("ann", bucket(50));
    /// assert!(limiter.of_key("ann").try_acquire_many(3).is_refused(), "two are left");
    /// clock.advance(Duration::from_secs(5));
    /// assert!(limiter.of_key("ann").try_acquire_many(50).is_admitted());
    /// assert!(limiter.of_key("bob").try_acquire_many(11).is_refused());
    /// assert!(limiter.unset_own_limit("ann"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_own_limit_at<Q>(&self, now: Timestamp, key: &Q, limiter: L)
    where
        K: Borrow<Q> + Clone,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        let now = self.horizon.bound(now.as_nanos(), &self.clock);
        let mut current = locked(&self.current);
        let limit = self.changed(current.of(key), limiter, now);
        let key = key.to_owned();
        let mut own = current.own.as_deref().cloned().unwrap_or_default();
        own.insert(key.clone(), limit);
        let (all, own) = (current.all, Some(Arc::new(own)));
        self.replace(&mut current, Terms { all, own }, Some(&key), None, now);
    }

    /// Takes the settings of its own from a key now; see
    /// [`unset_own_limit_at`](Self::unset_own_limit_at).
    pub fn unset_own_limit<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q> + Clone,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        self.unset_own_limit_at(self.clock.now(), key)
    }

    /// Takes the settings of its own from a key at `now`, so that it has those of all keys. Returns
    /// whether it had its own. Its state is kept, as by a change. A key that is not stored, and
    /// has less than a new one then, is stored if there is room.
    pub fn unset_own_limit_at<Q>(&self, now: Timestamp, key: &Q) -> bool
    where
        K: Borrow<Q> + Clone,
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
    {
        let now = self.horizon.bound(now.as_nanos(), &self.clock);
        let mut current = locked(&self.current);
        let Some(limit) = current.own_of(key).copied() else { return false };
        let mut own = current.own.as_deref().cloned().unwrap_or_default();
        own.remove(key);
        let (all, own) = (current.all, (!own.is_empty()).then(|| Arc::new(own)));
        // Of a key that is not stored: less than a new one has, or nothing to remember.
        let word = limit.rule.new_word(self.new_since(&limit).as_nanos());
        let word = limit.rule.carry(word, &all.rule, now);
        let is_less = Rule::as_new_at(&all.rule, word).is_none_or(|time| time > now);
        let key = key.to_owned();
        let unstored = is_less.then(|| (key.clone(), Word::new(word)));
        self.replace(&mut current, Terms { all, own }, Some(&key), unstored, now);
        true
    }

    /// Returns the settings `limiter` in place of others at `now`.
    fn changed(&self, from: &Limit<L::Rule>, limiter: L, now: u64) -> Limit<L::Rule> {
        let (rule, ..) = limiter.into_parts();
        // As for one limiter that is changed. The word that is as new has the most permits that any
        // key can have.
        let rule = from.rule.succeed(from.rule.new_word(0), rule, now);
        // A key that is not stored is as one that has been as new since the latest time.
        let since = self.new_since(from);
        let as_new = from.rule.carry(from.rule.new_word(since.as_nanos()), &rule, now);
        // If it will never be as new, no time is late enough: it is then as a new key.
        let since = Rule::as_new_at(&rule, as_new).map_or(since, Timestamp::from_nanos);
        Limit { rule, since }
    }

    /// Replaces the settings, and carries the state of the key that they concern, or of all keys
    /// without their own. Stores `unstored`, unless that key is stored or there is no room.
    fn replace(
        &self,
        current: &mut Arc<Terms<K, L::Rule>>,
        next: Terms<K, L::Rule>,
        of: Option<&K>,
        mut unstored: Option<(K, Word)>,
        now: u64,
    ) {
        let next = Arc::new(next);
        for shard in &self.shards {
            let Table { keys, terms } = &mut *shard.lock();
            match of {
                None => {
                    let others = keys.entries_mut().filter(|(key, _)| next.own_of(key).is_none());
                    for (_, word) in others {
                        carry(word, &terms.all.rule, &next.all.rule, now);
                    }
                }
                Some(key) => {
                    if let Some(slot) = keys.find(self.hash(key).tag(), key) {
                        let word = keys.slot_mut(slot).value;
                        carry(word, &terms.of(key).rule, &next.of(key).rule, now);
                    }
                }
            }
            *terms = Arc::clone(&next);
            let is_here = |(key, _): &mut (K, Word)| ptr::eq(shard, self.shard(self.hash(key)));
            if let Some((key, state)) = unstored.take_if(is_here) {
                let tag = self.hash(&key).tag();
                if keys.find(tag, &key).is_none() && !keys.is_full() && self.room.take() {
                    keys.insert(tag, key, state);
                }
            }
        }
        if let Some(shared) = &self.overflow {
            let shared = &mut *locked(shared);
            if of.is_none() {
                carry(&mut shared.state, &shared.terms.all.rule, &next.all.rule, now);
            }
            shared.terms = Arc::clone(&next);
        }
        *current = next;
    }
}

fn carry<R: Rule>(word: &mut Word, old: &R, next: &R, now: u64) {
    *word = Word::new(old.carry(word.get(), next, now));
}
