//! Changes of the settings, while threads decide by them.

use super::per_key::KeyRule;
use super::shard::{Table, Terms};
use super::word::Word;
use super::{Keyed, PerKey, locked};
use crate::flow::permits::Rule;
use crate::sync::Arc;
use crate::time::{Clock, Timestamp};

impl<K, L, S> Keyed<K, L, S>
where
    L: PerKey<Rule: Rule + KeyRule<State = Word>>,
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
        let (rule, ..) = limiter.into_parts();
        // Threads that change settings take turns, so all shards have the same ones here.
        let mut current = locked(&self.current);
        let old = &current.rule;
        // As for one limiter that is changed. The word that is as new has the most permits that any
        // key can have.
        let rule = old.succeed(old.new_word(0), rule, now);
        // A key that is not stored is as one that has been as new since the latest time.
        let since = self.new_since(&current);
        let as_new = old.carry(old.new_word(since.as_nanos()), &rule, now);
        // If it will never be as new, no time is late enough: it is then as a new key.
        let since = Rule::as_new_at(&rule, as_new).map_or(since, Timestamp::from_nanos);
        let terms = Arc::new(Terms { rule, since });
        for shard in &self.shards {
            let Table { keys, terms: old } = &mut *shard.lock();
            keys.values_mut().for_each(|word| carry(word, &old.rule, &rule, now));
            *old = Arc::clone(&terms);
        }
        if let Some(shared) = &self.overflow {
            let shared = &mut *locked(shared);
            carry(&mut shared.state, &shared.terms.rule, &rule, now);
            shared.terms = Arc::clone(&terms);
        }
        *current = terms;
    }
}

fn carry<R: Rule>(word: &mut Word, old: &R, next: &R, now: u64) {
    *word = Word::new(old.carry(word.get(), next, now));
}
