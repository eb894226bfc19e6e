//! Where the draws come from.

use std::sync::PoisonError;

use crate::sync::Mutex;

/// A source of random numbers, for who is dropped by chance.
///
/// ```
/// use leaparray::flow::RandomSource;
///
/// /// Drops whoever can be dropped.
/// struct Strict;
///
/// impl RandomSource for Strict {
///     fn next_u32(&self) -> u32 {
///         0
///     }
/// }
/// ```
pub trait RandomSource {
    /// A number, of all that there are each as likely. Low ones drop.
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

/// A generator for each thread, `fastrand`'s, seeded by itself: fast, and not for secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadRandom;

impl RandomSource for ThreadRandom {
    #[inline]
    fn next_u32(&self) -> u32 {
        fastrand::u32(..)
    }
}

/// A generator that gives the same numbers each time, for tests and simulations. Threads take turns by a
/// lock.
///
/// ```
/// use leaparray::flow::{RandomSource, SeededRandom};
///
/// let [one, same] = [SeededRandom::new(7), SeededRandom::new(7)];
/// assert_eq!(one.next_u32(), same.next_u32());
/// ```
#[derive(Debug)]
pub struct SeededRandom(Mutex<fastrand::Rng>);

impl SeededRandom {
    /// The generator of that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }
}

impl RandomSource for SeededRandom {
    fn next_u32(&self) -> u32 {
        // Nothing panics with the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u32(..)
    }
}
