//! Eviction and removal.

use std::time::Duration;

use super::listed::Listed;
use super::{Registry, Resource};
use crate::sync::Arc;
use crate::time::{Clock, Timestamp};

impl<C: Clock + Clone> Registry<C> {
    /// Evicts the resources that are idle at `now`, and returns their number.
    ///
    /// A resource is idle if it has no handle (a [`Resource`]), and if it was
    /// made, and last recorded in, at `now − idle` or earlier, contexts included. Times are
    /// compared by the ends of buckets, so a resource may be evicted up to a bucket late, but never
    /// early. With [`Duration::ZERO`], every resource without a handle is evicted.
    ///
    /// A resource with a handle is not evicted, because the thread that has the handle could then
    /// record in a node that no reader finds. To allow the eviction of a resource, keep no handle.
    ///
    /// No count is lost: a thread that looks up the resource at the same time either prevents the
    /// eviction, or finds the resource gone and lists a new one. The counts of an evicted resource
    /// stay in the [lifetime totals](Self::lifetime) and in its [series](Self::series), and its
    /// seconds are still [delivered](super::RegistryReading::poll_seconds), but it leaves the
    /// windows. If the windows are read, `idle` should be at least as long as the long window.
    ///
    /// ```
    /// use leaparray::{Clock, ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// registry.resource("GET /orders")?.enter().success();
    /// let kept = registry.resource("GET /users")?;
    ///
    /// clock.advance(Duration::from_secs(120));
    /// assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::from_secs(180)), 0);
    /// assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::from_secs(60)), 1);
    /// assert!(registry.get("GET /orders").is_none() && registry.get("GET /users").is_some());
    /// assert_eq!(registry.lifetime().sum(MetricEvent::Success), 1);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn evict_idle_at(&self, now: Timestamp, idle: Duration) -> usize {
        self.delist_left();
        let mut evicted = 0;
        let clock = self.clock.now();
        self.names.for_each(|listed| {
            if listed.is_idle(now, idle) && self.evict(listed, now, idle, clock) {
                evicted += 1;
            }
        });
        evicted
    }

    fn evict(
        &self,
        listed: &Arc<Listed<C>>,
        now: Timestamp,
        idle: Duration,
        clock: Timestamp,
    ) -> bool {
        // Under the lock, one thread at a time watches a resource, and no thread adds up totals
        // until the totals of this resource are reclaimed.
        let mut delisted = self.delisted();
        let holders = listed.holders();
        listed.release_kept();
        // Checked again while the resource is watched: `watch` has acquired what was recorded
        // before, and a thread that takes a handle later ends the watch, so that `evict` fails.
        if !(holders.watch() && listed.is_idle(now, idle) && holders.evict()) {
            return false;
        }
        delisted.reclaim(listed);
        // By the earlier of the two times: seconds that are in the window at the right time are
        // kept.
        self.limit_undelivered(&mut delisted, now.min(clock));
        self.limit_departed(&mut delisted);
        drop(delisted);
        self.delist(listed);
        true
    }

    /// Removes the resource with that name, even if it has handles, and returns whether it was
    /// listed.
    ///
    /// Existing handles still record in the resource and read it, but look-ups do not find it: the
    /// next [`resource`](Self::resource) call lists a new resource. The room of the removed
    /// resource is free at once. Earlier and later records in the removed resource are in the
    /// [lifetime totals](Self::lifetime) of the registry, and among the
    /// [seconds](super::RegistryReading::poll_seconds) that it delivers. Its memory is kept until
    /// the last handle is dropped, and after that until the lifetime totals, the seconds or the
    /// [series](Self::series) are read, or another resource is removed.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Registry};
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("GET /orders")?;
    /// orders.enter().success();
    /// assert!(registry.remove("GET /orders") && orders.is_removed());
    /// orders.enter().success();
    ///
    /// let anew = registry.resource("GET /orders")?;
    /// assert_eq!(anew.now().long().sum(MetricEvent::Success), 0);
    /// assert_eq!(registry.lifetime().sum(MetricEvent::Success), 2);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn remove(&self, name: &str) -> bool {
        // Before the lock is taken: a clock is code of the user.
        let now = self.clock.now();
        loop {
            let Some(listed) = self.names.with(name, |listed| Some(Arc::clone(listed))) else {
                return false;
            };
            if self.remove_listed(&listed, now) {
                return true;
            }
            // Another thread has removed or evicted the resource. A new resource with this name may
            // be listed by now. A thread that ends cannot take the former one out of the map, and
            // would find it again.
            if !self.names.can_change() {
                return false;
            }
        }
    }

    /// Removes this resource, or the resource of this context, and returns whether it was listed in
    /// this registry.
    ///
    /// Unlike [`remove`](Self::remove), this does not remove another resource that was listed with
    /// the same name after this one was evicted or removed.
    ///
    /// ```
    /// use leaparray::Registry;
    ///
    /// let registry = Registry::new();
    /// let former = registry.resource("GET /orders")?;
    /// assert!(registry.remove_resource(&former));
    /// let anew = registry.resource("GET /orders")?;
    /// assert!(!registry.remove_resource(&former) && !anew.is_removed());
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn remove_resource(&self, resource: &Resource<C>) -> bool {
        let listed = resource.listed();
        // A resource of another registry is not in this map.
        let is_listed = self.names.with(listed.name(), |found| Some(Arc::ptr_eq(found, listed)));
        is_listed == Some(true) && self.remove_listed(listed, self.clock.now())
    }

    /// Removes a resource from the map; `false` if another thread has removed or evicted it.
    fn remove_listed(&self, listed: &Arc<Listed<C>>, now: Timestamp) -> bool {
        let mut _released = Vec::new();
        let mut delisted = self.delisted();
        let is_ours = listed.holders().remove();
        if is_ours {
            delisted.keep(Arc::clone(listed));
            _released = delisted.reclaim_released();
            self.limit_undelivered(&mut delisted, now);
            self.limit_departed(&mut delisted);
        }
        drop(delisted);
        // Also a resource that another thread has removed: that thread may have stopped before
        // this.
        if is_ours || self.names.can_change() {
            self.delist(listed);
        }
        is_ours
    }
}
