//! The trait of limiters.

use super::Decision;
use crate::time::Timestamp;

/// A controller that hands out permits. Code that works with any limiter is generic over this trait.
///
/// ```
/// use leaparray::flow::{LeakyBucket, Limiter, Rate, TokenBucket};
/// use std::time::Duration;
///
/// fn limiter(name: &str, rate: Rate) -> Option<Box<dyn Limiter + Send + Sync>> {
///     match name {
///         "pace" => Some(Box::new(LeakyBucket::new(rate, Duration::from_millis(500)))),
///         "burst" => Some(Box::new(TokenBucket::new(rate, 20))),
///         _ => None,
///     }
/// }
/// let limiter = limiter("burst", Rate::new(10, Duration::from_secs(1))?).expect("there is one");
/// assert!(limiter.try_acquire_many(20).is_admitted());
/// assert!(!limiter.try_acquire().is_admitted());
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
pub trait Limiter {
    /// Returns the time of the limiter's clock.
    fn now(&self) -> Timestamp;

    /// Asks for `permits` permits at `now`: all of them or none. A request for 0 permits is admitted.
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision;

    /// Asks for one permit. Reads the clock once.
    #[inline]
    fn try_acquire(&self) -> Decision {
        self.try_acquire_many(1)
    }

    /// Asks for `permits` permits: all of them or none. Reads the clock once.
    #[inline]
    fn try_acquire_many(&self, permits: u64) -> Decision {
        self.try_acquire_at(self.now(), permits)
    }
}

impl<L: Limiter + ?Sized> Limiter for &L {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        (**self).try_acquire_at(now, permits)
    }
}

impl<L: Limiter + ?Sized> Limiter for Box<L> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        (**self).try_acquire_at(now, permits)
    }
}

impl<L: Limiter + ?Sized> Limiter for std::sync::Arc<L> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        (**self).try_acquire_at(now, permits)
    }
}
