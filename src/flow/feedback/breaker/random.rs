//! Sources of random numbers.

use std::sync::PoisonError;

use crate::sync::Mutex;

/// A source of random numbers, with which an [`AdaptiveBreaker`](super::AdaptiveBreaker) decides
/// which requests it drops, and a [`CircuitBreaker`](crate::flow::CircuitBreaker) varies its waits.
///
/// ```
/// use leaparray::flow::breaker::RandomSource;
///
/// /// Drops every request that can be dropped.
/// struct Strict;
///
/// impl RandomSource for Strict {
///     fn next_u32(&self) -> u32 {
///         0
///     }
/// }
/// ```
pub trait RandomSource {
    /// Returns a uniformly distributed number. Low numbers drop the request, and shorten the wait
    /// of a circuit breaker.
    fn next_u32(&self) -> u32;
}

impl<R: RandomSource + ?Sized> RandomSource for &R {
    fn next_u32(&self) -> u32 {
        (**self).next_u32()
    }
}

impl<R: RandomSource + ?Sized> RandomSource for std::sync::Arc<R> {
    fn next_u32(&self) -> u32 {
        (**self).next_u32()
    }
}

/// The generator of the `fastrand` crate. Each thread has a generator of its own, which seeds
/// itself. It is fast, and not cryptographically secure.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadRandom;

impl RandomSource for ThreadRandom {
    #[inline]
    fn next_u32(&self) -> u32 {
        fastrand::u32(..)
    }
}

/// A generator with a fixed seed, for tests and simulations. Threads take a lock for each number.
///
/// ```
/// use leaparray::flow::breaker::{RandomSource, SeededRandom};
///
/// let [one, same] = [SeededRandom::new(7), SeededRandom::new(7)];
/// assert_eq!(one.next_u32(), same.next_u32());
/// ```
#[derive(Debug)]
pub struct SeededRandom(Mutex<fastrand::Rng>);

impl SeededRandom {
    /// Creates a generator with that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }
}

impl RandomSource for SeededRandom {
    fn next_u32(&self) -> u32 {
        // No code panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u32(..)
    }
}
