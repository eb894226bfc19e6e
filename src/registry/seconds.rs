//! The seconds of all resources, each delivered once, also those of resources that are gone.
//!
//! At any time, a resource that was ever listed is in one of three places: it is *listed*; or it
//! was removed and still has *holders* (`Delisted`); or it was *reclaimed*, and its seconds that
//! some cursor has not delivered are kept (`Undelivered`). A resource moves from one place to the
//! next under the lock of `Delisted`, in either operation: an eviction (listed → reclaimed), and a
//! removal (listed → with holders → reclaimed).
//!
//! A poll advances the cursor, which decides the seconds that it delivers, and reads all three
//! places, under that lock. The interleavings are therefore:
//!
//! - An eviction before the poll: the seconds of the resource are kept from the position of the
//!   cursor on, and the poll finds them there, and finds the resource gone if its name is still in
//!   the map.
//! - An eviction after the poll: the poll has delivered the seconds before the new position from
//!   the resource. The seconds from the new position on are kept. If the poll advanced the cursor
//!   without the lock, an eviction between that and the reading would keep the seconds from the new
//!   position on, and the seconds in between would be lost.
//! - A removed resource loses its last handle before the poll: the poll reclaims it *before* it
//!   advances the cursor, so that its seconds are kept from the old position on.
//! - A removed resource loses its last handle during the poll: it is still among those with
//!   holders, and is reclaimed later.
//! - A resource is evicted or removed, and listed again, in one second: both have records of that
//!   second. One poll delivers the second of both, and adds them up.
//! - Two polls with one cursor: one comes first, and the second one delivers the seconds that are
//!   complete only since then. Two cursors: a second is kept until both have delivered it.
//! - A resource is listed during the poll: it is found, or its records have later times than the
//!   start of the poll, unless they were made with a stale timestamp. Those count as records of a
//!   stalled thread, as for a node.

// Not loom's: it is taken under the lock of `Delisted`.
use std::sync::Mutex;

use super::reading::RegistryReading;
use super::second::{ResourceSecond, add_up_equal};
use super::series::DeliveredRefusals;
use crate::node::{SecondsCursor, number_of, oldest_second};
use crate::sync::Arc;
use crate::time::Clock;

/// The position of a reader in the seconds of a [`Registry`](super::Registry). It is kept from one
/// poll to the next.
///
/// Threads that poll with the same cursor share the seconds: each second is delivered to one of the
/// threads. With two cursors, each second is delivered by each of them. Use one cursor for each
/// registry. From its first poll until it is dropped, the registry keeps for it the seconds of
/// resources that are evicted or removed.
#[derive(Debug)]
pub struct RegistryCursor {
    pub(super) position: Arc<SecondsCursor>,
    pub(super) refusals: Mutex<DeliveredRefusals>,
}

impl RegistryCursor {
    /// Creates a cursor before all seconds that the resources still have.
    #[must_use]
    pub fn new() -> Self {
        Self { position: Arc::new(SecondsCursor::new()), refusals: Mutex::default() }
    }

    /// Returns the number of seconds that left the registry's long window between two polls, and so
    /// were delivered for no resource.
    ///
    /// ```
    /// use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
    /// use leaparray::registry::RegistryCursor;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(600));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// let cursor = RegistryCursor::new();
    /// registry.now().poll_seconds(&cursor);
    /// clock.advance(Duration::from_secs(70));
    /// registry.now().poll_seconds(&cursor);
    /// assert_eq!(cursor.missed(), 11);
    /// ```
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.position.missed()
    }
}

impl Default for RegistryCursor {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for RegistryCursor {
    fn drop(&mut self) {
        self.position.close();
    }
}

impl<C: Clock + Clone> RegistryReading<'_, C> {
    /// Returns the complete seconds of all resources that the cursor has not delivered before; see
    /// [`poll_seconds_into`](Self::poll_seconds_into).
    ///
    /// ```
    /// use leaparray::MetricEvent::{Block, Pass};
    /// use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Timestamp};
    /// use leaparray::registry::RegistryCursor;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// let cursor = RegistryCursor::new();
    /// assert!(registry.now().poll_seconds(&cursor).is_empty());
    /// registry.resource("GET /orders")?.enter().success();
    /// registry.resource("GET /users")?.in_context("web")?.block();
    /// // No count is lost.
    /// registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
    ///
    /// clock.advance(Duration::from_secs(1));
    /// let seconds = registry.now().poll_seconds(&cursor);
    /// let [orders, users] = &seconds[..] else { panic!("two resources were used") };
    /// assert_eq!((&*orders.name, orders.metrics.counts[Pass]), ("GET /orders", 1));
    /// assert_eq!((users.context.as_deref(), users.metrics.counts[Block]), (Some("web"), 1));
    /// assert_eq!(users.metrics.second, Timestamp::from_secs(60));
    /// assert!(registry.now().poll_seconds(&cursor).is_empty(), "they were delivered");
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn poll_seconds(&self, cursor: &RegistryCursor) -> Vec<ResourceSecond> {
        let mut seconds = Vec::new();
        self.poll_seconds_into(cursor, &mut seconds);
        seconds
    }

    /// Replaces the contents of `seconds` by the seconds that are complete at `now`, or at the time
    /// of the clock if that is earlier, and that the cursor has not delivered before: an item for
    /// each second of each resource, and of each of its contexts, in which something was recorded.
    /// They are sorted by the second, the name and the context. The memory of `seconds` is used
    /// again, so this allocates nothing, unless there are more seconds than `seconds` has had
    /// before, or resources have histograms: each second then has one of its own.
    ///
    /// Each second is delivered once by a cursor, and all its records at once, also of resources
    /// that were [evicted](super::Registry::evict_idle_at) or [removed](super::Registry::remove)
    /// since the last poll, and of removed resources that still have handles. If a resource was
    /// listed again within a second, its item is the sum of both; if it was listed with another
    /// direction, each direction has an item. Add the items of a resource and its contexts for the
    /// metrics of all its requests.
    ///
    /// Poll once a second, and before the seconds leave the long window [of the
    /// registry](super::Registry::config): a second that has left it is
    /// [missed](RegistryCursor::missed). A resource whose own long window is shorter loses seconds
    /// earlier, and nothing counts them. A long window of less than two seconds contains a whole
    /// second for a moment only. If a stalled thread adds to a second that was delivered, the
    /// totals include these counts, but no item does.
    ///
    /// # Memory
    ///
    /// For evicted resources, and for removed resources without handles, the registry keeps the
    /// seconds that a cursor has yet to deliver: about 200 bytes for each second of each node in
    /// which something was recorded. A second that has left the long window is not kept, so at most
    /// the seconds of the last long window are, up to a factor of two, with a cursor that polls no
    /// more. If resources are evicted only after they have been idle for the long window, or before
    /// the first poll of a cursor, or after the last cursor was dropped, nothing is kept.
    ///
    /// # Blocking
    ///
    /// This call reads every resource. Threads that poll, evict, remove, reconfigure or read
    /// lifetime totals wait for it. Threads that look up or record do not wait.
    ///
    /// ```
    /// use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
    /// use leaparray::registry::RegistryCursor;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// let orders = registry.resource("GET /orders")?;
    /// let (cursor, mut seconds) = (RegistryCursor::new(), Vec::new());
    /// for secs in 60..63 {
    ///     orders.block();
    ///     clock.advance(Duration::from_secs(1));
    ///     registry.now().poll_seconds_into(&cursor, &mut seconds);
    ///     assert_eq!(seconds.len(), 1);
    ///     assert_eq!(seconds[0].metrics.second, Timestamp::from_secs(secs));
    /// }
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn poll_seconds_into(&self, cursor: &RegistryCursor, seconds: &mut Vec<ResourceSecond>) {
        let registry = self.registry;
        // No second after the time of the clock is complete. A time that is ahead would skip the
        // seconds up to it.
        let now = self.now.min(registry.clock.now());
        seconds.clear();
        // Under the lock, no resource moves from one place to another: see the head of this module.
        let _released;
        let mut delisted = registry.delisted();
        delisted.undelivered().add_cursor(&cursor.position);
        // Before the cursor advances, so that the seconds that this poll delivers are kept as well.
        _released = delisted.reclaim_released();
        let oldest = oldest_second(registry.config().long(), now);
        let numbers = cursor.position.advance(oldest, number_of(now));
        if !numbers.is_empty() {
            seconds.extend(delisted.undelivered().of(&numbers).cloned());
            for listed in delisted.with_holders() {
                listed.append_seconds(now, &numbers, seconds);
            }
            registry.names.for_each(|listed| {
                // A resource that is gone is in one of the other two places.
                if !listed.holders().is_gone() {
                    listed.append_seconds(now, &numbers, seconds);
                }
            });
        }
        delisted.undelivered().forget_before(oldest);
        drop(delisted);
        add_up_equal(seconds);
    }
}
