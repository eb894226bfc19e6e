//! A leaky bucket for each key.

use std::time::Duration;

use super::PerKey;
use super::word::Word;
use crate::flow::contract::{Ask, Decision, Rate, Refusal};
use crate::node::Reason;
use crate::time::{Timestamp, saturating_nanos};

/// A leaky bucket for each key of a [`KeyedLimiter`](super::KeyedLimiter), which spaces the
/// requests of the key evenly, in 8 bytes a key. The algorithm is the leaky bucket as a meter
/// (ITU-T I.371): the bucket holds the permits that were taken, and leaks at the rate.
///
/// A request waits until the bucket is empty, and then fills it with its permits. For requests for
/// one permit, these are the decisions of a [`LeakyBucket`](crate::flow::LeakyBucket). A request
/// for n permits delays the *next* request by n intervals, while in a `LeakyBucket` it is itself
/// delayed. So an empty bucket is as new, whatever the next request asks for.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{Decision, KeyedLimiter, Rate};
/// use leaparray::flow::keyed::LeakyBucketPerKey;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let limit = LeakyBucketPerKey::new(Rate::per_second(10)?, ms(150));
/// let limiter = KeyedLimiter::<String, _>::new(limit, 100_000)?;
/// let now = Timestamp::from_secs(60);
/// assert_eq!(limiter.try_acquire_at("ann", now, 1), Decision::Admitted(()));
/// assert_eq!(limiter.try_acquire_at("ann", now, 1), Decision::after((), ms(100)));
/// let refusal = limiter.try_acquire_at("ann", now, 1).refusal().expect("a wait of 200 ms");
/// assert_eq!(refusal.retry_at(), Some(now.saturating_add(ms(50))));
/// assert_eq!(limiter.try_acquire_at("bob", now, 1), Decision::Admitted(()));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LeakyBucketPerKey {
    rate: Rate,
    /// In nanoseconds.
    max_wait: u64,
}

/// The state of a leaky bucket: the time at which it is empty, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct LeakyBucketState(Word);

impl LeakyBucketPerKey {
    /// Creates the limit: for each key, requests at `rate`. A request that would have to wait
    /// longer than `max_wait` is refused.
    #[must_use]
    pub const fn new(rate: Rate, max_wait: Duration) -> Self {
        Self { rate, max_wait: saturating_nanos(max_wait) }
    }

    /// Returns the rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the longest wait of an admitted request.
    #[must_use]
    pub const fn max_wait(&self) -> Duration {
        Duration::from_nanos(self.max_wait)
    }
}

impl PerKey for LeakyBucketPerKey {
    type State = LeakyBucketState;
    type Permit = ();

    /// Returns a bucket that is empty at `since`. A request before `since` has to wait.
    fn new_state(&self, since: Timestamp) -> LeakyBucketState {
        LeakyBucketState(Word::new(since.as_nanos()))
    }

    #[inline]
    fn as_new_at(&self, state: &LeakyBucketState, _now: Timestamp) -> Option<Timestamp> {
        Some(Timestamp::from_nanos(state.0.get()))
    }

    #[inline]
    fn decide(&self, state: &mut LeakyBucketState, ask: &Ask<'_>) -> Decision {
        if ask.permits() == 0 {
            return Decision::Admitted(());
        }
        let (empty_at, now) = (state.0.get(), ask.now().as_nanos());
        let max_wait = if ask.can_wait() { self.max_wait } else { 0 };
        let wait = empty_at.saturating_sub(now);
        if wait > max_wait {
            let retry_at = Timestamp::from_nanos(empty_at - max_wait);
            return Decision::Refused(Refusal::until(Reason::WaitTooLong, Some(retry_at)));
        }
        match self.rate.after(empty_at.max(now), ask.permits()) {
            Some(then) if then < u64::MAX => {
                state.0 = Word::new(then);
                Decision::after((), Duration::from_nanos(wait))
            }
            // After the end of time.
            _ => Decision::Refused(Refusal::until(Reason::WaitTooLong, None)),
        }
    }

    fn peek(&self, state: &LeakyBucketState, ask: &Ask<'_>) -> Option<Decision> {
        let mut state = *state;
        Some(self.decide(&mut state, ask))
    }
}
