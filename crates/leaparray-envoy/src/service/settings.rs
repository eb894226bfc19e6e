//! The settings of a service.

use std::time::Duration;

/// How a service decides: what the configuration of the reference server does not say.
///
/// ```
/// use leaparray_envoy::service::{Charging, Fallback, Settings};
///
/// let settings = Settings::default();
/// assert_eq!((settings.charging, settings.fallback), (Charging::All, Fallback::Closed));
/// assert_eq!((settings.max_keys, settings.max_waiting), (100_000, 67_108_864));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The charge of a request that one of its descriptors refuses.
    pub charging: Charging,
    /// The decision for a key without room, while the store is away, and for a request that may not
    /// wait for it.
    pub fallback: Fallback,
    /// The most keys, for each unit of time: 100,000 by default. A key takes about 900 bytes and
    /// its text. One whose limit is whole again gives its place to another key.
    pub max_keys: usize,
    /// The most memory of the requests that wait for the store at once, in bytes: 64 MiB by
    /// default, which are about 12,000 requests with two short descriptors. A request counts as
    /// 4 KiB, 512 bytes for each descriptor, and its entries. One for which too little is
    /// left does not wait: the [fallback](Self::fallback) decides on the descriptors that would. A
    /// store in memory has no waits.
    pub max_waiting: usize,
    /// By how much the clock of a caller with a [quota](super::Quota) may be behind the clock of
    /// the service: 5 ms by default. A quota is valid for less by that.
    pub clock_skew: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let (charging, fallback) = (Charging::All, Fallback::Closed);
        let (max_keys, max_waiting) = (100_000, 64 << 20);
        let clock_skew = Duration::from_millis(5);
        Self { charging, fallback, max_keys, max_waiting, clock_skew }
    }
}

/// The charge of a request that one of its descriptors refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Charging {
    /// Nothing: a request is charged to all of its limits, or to none.
    #[default]
    All,
    /// As by the reference server, each descriptor is charged by itself: one that is within its
    /// limit is charged although another one refuses the request, and one that has less left than
    /// the hits is charged what is left.
    ///
    /// Needed where hits are told after the fact, as with `apply_on_stream_done` of Envoy: what
    /// was used counts, also if it is more than was left.
    Each,
}

/// The decision on a descriptor for which the store of the limits has no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// It is over its limit. No limit is ever exceeded.
    #[default]
    Closed,
    /// It is within its limit, and charged nothing.
    ///
    /// Limits that several instances share keep the charge of a request that another limit refuses,
    /// or that is dropped while it waits: a lease does not tell a permit from an admission without
    /// one, which must not be given back. The limit has less left for that time.
    Open,
}
