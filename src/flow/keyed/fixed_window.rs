//! A fixed window for each key.

use std::time::Duration;

use super::PerKey;
use super::word::Word;
use crate::flow::contract::{Ask, Decision, LimitError, Quota, Refusal};
use crate::flow::permits::Layout;
use crate::node::Reason;
use crate::time::{Timestamp, WindowConfig};

/// A [`FixedWindowLimiter`](crate::flow::FixedWindowLimiter) for each key of a
/// [`KeyedLimiter`](super::KeyedLimiter): so many permits in each interval, in 8 bytes a key. As
/// there, up to twice the limit can be admitted within one interval's length, around the end of an
/// interval; a [`TokenBucketPerKey`](super::TokenBucketPerKey) has no such edge.
///
/// A window is as new from the end of the interval in which permits were last taken.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::KeyedLimiter;
/// use leaparray::flow::keyed::FixedWindowPerKey;
/// use std::time::Duration;
///
/// let limit = FixedWindowPerKey::new(Duration::from_secs(60), 100)?;
/// let limiter = KeyedLimiter::<u64, _>::new(limit, 100_000)?;
/// let t = Timestamp::from_secs;
/// assert!(limiter.try_acquire_at(&7, t(59), 100).is_admitted());
/// let refusal = limiter.try_acquire_at(&7, t(59), 1).refusal().expect("all are taken");
/// assert_eq!(refusal.retry_at(), Some(t(60)));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedWindowPerKey {
    config: WindowConfig,
    layout: Layout,
    limit: u64,
}

/// The state of a fixed window: an interval, and the permits that were taken in it.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindowState(Word);

impl FixedWindowPerKey {
    /// Creates the limit: for each key, `limit` permits in each interval. Intervals are counted
    /// from the epoch of the clock.
    ///
    /// # Errors
    ///
    /// As [`FixedWindowLimiter::new`](crate::flow::FixedWindowLimiter::new).
    pub fn new(interval: Duration, limit: u64) -> Result<Self, LimitError> {
        let config = WindowConfig::new(1, interval).map_err(LimitError::NoWindow)?;
        let layout = Layout::of(&config);
        let max = layout.max_count();
        if limit > max {
            return Err(LimitError::TooHigh { limit, max, bucket_len: interval });
        }
        Ok(Self { config, layout, limit })
    }

    /// Returns the number of permits in each interval.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the length of an interval.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.config.interval()
    }

    /// Returns the interval in which a request at `now` is decided, and the permits that were taken
    /// in it.
    #[inline]
    fn bucket_of(&self, state: FixedWindowState, now: Timestamp) -> (u64, u64) {
        let (number, last) = (self.config.bucket_number(now), self.layout.read(state.0.get()));
        if number > last.number { (number, 0) } else { (last.number, last.count) }
    }

    /// Returns the end of an interval; `None` if it is after the end of time.
    fn end(&self, number: u64) -> Option<Timestamp> {
        let last = self.config.bucket_number(Timestamp::MAX);
        (number < last).then(|| self.config.start_of(number + 1))
    }
}

impl PerKey for FixedWindowPerKey {
    type State = FixedWindowState;
    type Permit = ();

    /// Returns a window without permits in the interval of `since`. A request before that interval
    /// counts in it.
    fn new_state(&self, since: Timestamp) -> FixedWindowState {
        FixedWindowState(Word::new(self.layout.word(self.config.bucket_number(since), 0)))
    }

    #[inline]
    fn as_new_at(&self, state: &FixedWindowState, _now: Timestamp) -> Option<Timestamp> {
        let last = self.layout.read(state.0.get());
        if last.count == 0 {
            Some(self.config.start_of(last.number))
        } else {
            self.end(last.number)
        }
    }

    #[inline]
    fn decide(&self, state: &mut FixedWindowState, ask: &Ask<'_>) -> Decision {
        let permits = ask.permits();
        let (number, taken) = self.bucket_of(*state, ask.now());
        if permits <= self.limit - taken {
            if permits > 0 {
                state.0 = Word::new(self.layout.word(number, taken + permits));
            }
            return Decision::Admitted(());
        }
        Decision::Refused(if permits > self.limit {
            Refusal::never()
        } else {
            Refusal::until(Reason::LimitReached, self.end(number))
        })
    }

    fn peek(&self, state: &FixedWindowState, ask: &Ask<'_>) -> Option<Decision> {
        let mut state = *state;
        Some(self.decide(&mut state, ask))
    }

    fn quota(&self, state: &FixedWindowState, now: Timestamp) -> Option<Quota> {
        let (number, taken) = self.bucket_of(*state, now);
        let reset = if taken == 0 { Some(now) } else { self.end(number) };
        let quota = Quota::new(self.limit, self.limit - taken, reset);
        Some(quota.with_window(self.config.interval()))
    }
}
