//! The limiters: a token bucket for each key.

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::QuantaClock;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use leaparray::flow::{Keyed, Rate, TokenBucket};

use super::{KEYS, Key};

/// The permits that each key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permits {
    /// More than a run takes.
    Plenty,
    /// One, which is taken.
    UsedUp,
}

impl Permits {
    const fn burst(self) -> NonZeroU32 {
        match self {
            Self::Plenty => NonZeroU32::MAX,
            Self::UsedUp => NonZeroU32::MIN,
        }
    }

    const fn interval(self) -> Duration {
        match self {
            Self::Plenty => Duration::from_nanos(1),
            Self::UsedUp => Duration::from_secs(3_600),
        }
    }
}

/// Decides on a request of a key.
pub(super) trait Decide<K>: Send + Sync + 'static {
    /// Returns whether one request of the key is admitted.
    fn admits(&self, key: &K) -> bool;
}

impl<K: Key, S: BuildHasher + Send + Sync + 'static> Decide<K> for Keyed<K, TokenBucket, S> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.try_acquire(key).is_admitted()
    }
}

impl<K: Key, S: BuildHasher + Clone + Send + Sync + 'static> Decide<K>
    for RateLimiter<K, DashMapStateStore<K, S>, QuantaClock>
{
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.check_key(key).is_ok()
    }
}

pub(super) fn ours<K: Key, S: BuildHasher + Send + Sync + 'static>(
    hasher: S,
    permits: Permits,
) -> impl Decide<K> + use<K, S> {
    let rate = Rate::new(1, permits.interval()).expect("not zero");
    let bucket = TokenBucket::new(rate, permits.burst().get().into());
    Keyed::with_hasher(bucket, KEYS as usize, hasher).expect("room for all keys")
}

pub(super) fn governor<K: Key, S: BuildHasher + Clone + Default + Send + Sync + 'static>(
    hasher: S,
    permits: Permits,
) -> impl Decide<K> + use<K, S> {
    let quota = Quota::with_period(permits.interval()).expect("not zero");
    let (quota, clock) = (quota.allow_burst(permits.burst()), QuantaClock::default());
    RateLimiter::dashmap_with_clock_and_hasher(quota, clock, hasher)
}
