//! The states of limits in memory.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use leaparray::flow::{Keyed, SlidingWindowLimiter};
use leaparray::{Clock, Timestamp};

use crate::config::Unit;

/// A limit of any interval of a unit.
pub(super) type Window<C> = SlidingWindowLimiter<C>;

/// Makes the window of a new key.
type Make<C> = Box<dyn Fn() -> Window<C> + Send + Sync>;

/// The windows of one unit by key.
///
/// The hashes have a random seed, so clients that choose values do not know which of them collide.
/// They are no cryptographic ones: who learns the seed from the times of answers can choose such
/// values, and make a shard slow and full.
type OfUnit<C> = Keyed<Vec<u8>, (Make<C>, C), RandomState>;

/// How far ahead of the clock permits may be charged: see `Service::assign_at`.
pub(super) const LEAD: Duration = Duration::from_secs(60);

/// The windows of all keys: one table for each unit, made when it is first needed.
pub(super) struct Table<C: Clock> {
    units: [OnceLock<OfUnit<C>>; Unit::ALL.len()],
    max_keys: usize,
    clock: C,
}

/// Creates a window. It has no limit until it is [set](set_limit).
pub(super) fn window<C: Clock>(unit: Unit, clock: C) -> Window<C> {
    SlidingWindowLimiter::with_clock(unit.interval(), 0, clock)
        .expect("units are from a second to a year")
        .with_max_lead(LEAD)
}

/// Sets the limit of a window, if it has another one: after a change of the configuration, or of
/// a limit that the request gives.
#[inline]
pub(super) fn set_limit<C: Clock>(window: &Window<C>, requests: u32) {
    if window.limit() != u64::from(requests) {
        change_limit(window, requests);
    }
}

#[cold]
fn change_limit<C: Clock>(window: &Window<C>, requests: u32) {
    let max = Window::<leaparray::MonotonicClock>::max_limit(window.config());
    // A limit of the configuration is below. One of a request may be above, and is then cut.
    window.reconfigure(max.min(requests.into())).expect("at most the highest limit");
}

impl<C: Clock + Clone + Send + Sync + 'static> Table<C> {
    pub(super) fn new(max_keys: usize, clock: C) -> Self {
        Self { units: [const { OnceLock::new() }; Unit::ALL.len()], max_keys, clock }
    }

    /// Returns the window of a key at `now`; `None` if there is no room for it.
    #[inline]
    pub(super) fn window(&self, unit: Unit, key: &[u8], now: Timestamp) -> Option<Arc<Window<C>>> {
        self.of(unit).limiter_of_at(key, now)
    }

    /// Calls `act` with the window of a key at `now`, while no other thread can ask it; `None` if
    /// there is no room for it.
    #[inline]
    pub(super) fn with_window<T>(
        &self,
        unit: Unit,
        key: &[u8],
        now: Timestamp,
        act: impl FnOnce(&Window<C>) -> T,
    ) -> Option<T> {
        self.of(unit).with_limiter_of_at(key, now, act)
    }

    fn of(&self, unit: Unit) -> &OfUnit<C> {
        self.units[unit as usize].get_or_init(|| {
            let clock = self.clock.clone();
            let make: Make<C> = Box::new(move || window(unit, clock.clone()));
            let max = self.max_keys.clamp(1, OfUnit::<C>::MAX_KEYS);
            let (limiter, hasher) = ((make, self.clock.clone()), RandomState::default());
            Keyed::with_hasher(limiter, max, hasher).expect("from 1 to the highest number")
        })
    }

    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        self.units.iter().filter_map(OnceLock::get).map(Keyed::len).sum()
    }
}

impl<C: Clock> fmt::Debug for Table<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("max_keys", &self.max_keys).finish_non_exhaustive()
    }
}
