//! A token bucket for each key.

use super::PerKey;
use super::word::Word;
use crate::flow::contract::{Ask, Decision, Quota, Rate, Refusal};
use crate::flow::limiters::{Fill, SATURATED};
use crate::flow::permits::NotAdmitted;
use crate::node::Reason;
use crate::time::Timestamp;

/// A [`TokenBucket`](crate::flow::TokenBucket) for each key of a
/// [`KeyedLimiter`](super::KeyedLimiter): the same decisions, in 8 bytes a key. The algorithm is
/// GCRA (ATM Forum, Traffic Management 4.0, 1996), with the time at which the bucket is full as its
/// state.
///
/// A bucket that is full is as new.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{KeyedLimiter, Rate};
/// use leaparray::flow::keyed::TokenBucketPerKey;
///
/// let limit = TokenBucketPerKey::new(Rate::per_second(10)?, 20);
/// let limiter = KeyedLimiter::<u64, _>::new(limit, 100_000)?;
/// let now = Timestamp::from_secs(60);
/// assert!(limiter.try_acquire_at(&7, now, 20).is_admitted());
/// assert!(limiter.try_acquire_at(&7, now, 1).is_refused());
/// assert!(limiter.try_acquire_at(&8, now, 20).is_admitted(), "a bucket of its own");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokenBucketPerKey(Fill);

/// The state of a token bucket: the time at which it is full, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucketState(Word);

impl TokenBucketPerKey {
    /// Creates the limit: for each key, `capacity` tokens, added at `rate`. With a capacity of 0,
    /// every request for permits is refused.
    #[must_use]
    pub fn new(rate: Rate, capacity: u64) -> Self {
        Self(Fill::new(rate, capacity))
    }

    /// Returns the rate at which tokens are added.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.0.rate
    }

    /// Returns the number of tokens in a full bucket.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.0.capacity
    }
}

impl PerKey for TokenBucketPerKey {
    type State = TokenBucketState;
    type Permit = ();

    /// Returns a bucket that is full at `since`. For a request before `since`, it has fewer tokens.
    fn new_state(&self, since: Timestamp) -> TokenBucketState {
        TokenBucketState(Word::new(since.as_nanos()))
    }

    #[inline]
    fn as_new_at(&self, state: &TokenBucketState, _now: Timestamp) -> Option<Timestamp> {
        (state.0.get() < SATURATED).then_some(Timestamp::from_nanos(state.0.get()))
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn decide(&self, state: &mut TokenBucketState, ask: &Ask<'_>) -> Decision {
        if ask.permits() == 0 {
            return Decision::Admitted(());
        }
        let not_admitted = match self.0.take(state.0.get(), ask.now().as_nanos(), ask.permits()) {
            Ok(full_at) => {
                state.0 = Word::new(full_at);
                return Decision::Admitted(());
            }
            Err(not_admitted) => not_admitted,
        };
        Decision::Refused(match not_admitted {
            NotAdmitted::Until(nanos) => {
                Refusal::until(Reason::LimitReached, Some(Timestamp::from_nanos(nanos)))
            }
            NotAdmitted::MoreThanLimit => Refusal::never(),
            NotAdmitted::Never | NotAdmitted::Closed => Refusal::until(Reason::LimitReached, None),
        })
    }

    fn peek(&self, state: &TokenBucketState, ask: &Ask<'_>) -> Option<Decision> {
        let mut state = *state;
        Some(self.decide(&mut state, ask))
    }

    fn quota(&self, state: &TokenBucketState, now: Timestamp) -> Option<Quota> {
        let remaining = self.0.available(state.0.get(), now.as_nanos());
        Some(self.0.quota(remaining, self.as_new_at(state, now)))
    }
}
