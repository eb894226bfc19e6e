//! Sources of `now`: a trait and four clocks.

mod cached;
mod forward;
mod manual;
mod monotonic;
mod steering;

pub use cached::CachedClock;
pub use forward::ForwardClock;
pub use manual::ManualClock;
pub use monotonic::MonotonicClock;
#[cfg(loom)]
pub use steering::{Source, Steering};

use crate::time::timestamp::Timestamp;

/// A source of timestamps. Each window has a clock of its own; there is no global clock.
///
/// A clock should not go back. If it does, no count is lost: records in a bucket whose slot has a
/// newer bucket count as late. A [`ForwardClock`] keeps a source of your own from going back; see
/// [When a clock steps](crate::reference::clock_steps).
///
/// ```
/// use leaparray::{Clock, Timestamp};
///
/// /// A clock that has stopped.
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_secs(60)
///     }
/// }
///
/// assert_eq!(Stopped.now().as_millis(), 60_000);
/// ```
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
