//! The totals of all resources.

use super::Registry;
use super::config::TrafficType;
use crate::metric::MetricTotals;
use crate::time::Clock;

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
    /// # Ok::<_, leaparray::registry::RegistryError>(())
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
}
