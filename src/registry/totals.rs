//! The totals of all resources.

use super::Registry;
use super::config::TrafficType;
use crate::metric::MetricTotals;
use crate::node::NodeSnapshot;
use crate::time::{Clock, Timestamp};

impl<C: Clock + Clone> Registry<C> {
    /// Returns the totals of all resources since they were created, including evicted and removed
    /// resources. These totals never decrease.
    ///
    /// This call visits every resource. Threads that evict, remove or reconfigure wait for it.
    /// Threads that look up or record do not wait.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Registry};
    ///
    /// let registry = Registry::new();
    /// registry.resource("GET /orders")?.enter().success();
    /// registry.remove("GET /orders");
    /// registry.resource("GET /users")?.block();
    /// let lifetime = registry.lifetime();
    /// assert_eq!(lifetime.sum(MetricEvent::Success), 1);
    /// assert_eq!(lifetime.sum(MetricEvent::Block), 1);
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn lifetime(&self) -> MetricTotals {
        let mut sum = self.lifetime_of(TrafficType::Inbound);
        sum += &self.lifetime_of(TrafficType::Outbound);
        sum
    }

    /// Like [`lifetime`](Self::lifetime), for the resources of one direction.
    pub fn lifetime_of(&self, traffic: TrafficType) -> MetricTotals {
        // Under the lock, no listed resource is evicted or removed before it has been added up.
        let _released;
        let mut delisted = self.delisted();
        _released = delisted.reclaim_released();
        let mut sum = delisted.reclaimed(traffic).clone();
        for listed in delisted.with_holders().filter(|listed| listed.traffic_type() == traffic) {
            sum += &listed.lifetime();
        }
        self.names.for_each(|listed| {
            // A resource that is gone is among the reclaimed resources or those with holders.
            if listed.traffic_type() == traffic && !listed.holders().is_gone() {
                sum += &listed.lifetime();
            }
        });
        sum
    }

    /// Returns the sum of the snapshots of all listed inbound resources, including their contexts.
    pub fn inbound_snapshot(&self) -> NodeSnapshot {
        self.inbound_snapshot_at(self.clock.now())
    }

    /// Like [`inbound_snapshot`](Self::inbound_snapshot), at `now`. The sum is computed by this
    /// call, so a request writes one node, and not a second one for the sum. Peaks are lower
    /// bounds: the highest peak of a single node, as in any sum of [`NodeSnapshot`]s.
    ///
    /// ```
    /// use leaparray::{Registry, TrafficType};
    ///
    /// let registry = Registry::new();
    /// let (orders, users) =
    ///     (registry.resource("GET /orders")?, registry.resource("GET /users")?);
    /// let database = registry.resource_with("database", TrafficType::Outbound)?;
    /// let _in_flight = [orders.enter(), users.enter(), database.enter()];
    /// assert_eq!(registry.inbound_snapshot().concurrency, 2);
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn inbound_snapshot_at(&self, now: Timestamp) -> NodeSnapshot {
        let mut sum = NodeSnapshot::nothing_at(now);
        self.names.for_each(|listed| {
            if listed.traffic_type() == TrafficType::Inbound && !listed.holders().is_gone() {
                sum += &listed.snapshot_at(now);
            }
        });
        sum
    }
}
