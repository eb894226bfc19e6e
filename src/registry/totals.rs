//! All resources together.

use super::Registry;
use super::config::TrafficType;
use crate::metric::MetricTotals;
use crate::node::NodeSnapshot;
use crate::time::{Clock, Timestamp};

impl<C: Clock + Clone> Registry<C> {
    /// Everything that was ever recorded, in all resources: those that were evicted or removed included.
    /// These totals only grow.
    ///
    /// Looks at every resource. Evicting and removing wait meanwhile; looking up and recording do not.
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

    /// The same over the resources of that direction.
    pub fn lifetime_of(&self, traffic: TrafficType) -> MetricTotals {
        // With the lock, nothing that is listed goes before it has been added up.
        let mut departed = self.departed();
        departed.settle_held();
        let mut sum = departed.settled(traffic).clone();
        for listed in departed.held().filter(|listed| listed.traffic_type() == traffic) {
            sum += &listed.lifetime();
        }
        self.names.for_each(|listed| {
            // What is gone is settled or held.
            if listed.traffic_type() == traffic && !listed.holders().is_gone() {
                sum += &listed.lifetime();
            }
        });
        sum
    }

    /// All that comes in now: the sum of the inbound resources that are listed, contexts included.
    pub fn inbound_snapshot(&self) -> NodeSnapshot {
        self.inbound_snapshot_at(self.clock.now())
    }

    /// The same at `now`. It is added up when it is read, so that a request writes one node and not two;
    /// peaks are those of one node, as in any sum of [`NodeSnapshot`]s.
    ///
    /// ```
    /// use leaparray::{Registry, TrafficType};
    ///
    /// let registry = Registry::new();
    /// let (orders, users) = (registry.resource("GET /orders")?, registry.resource("GET /users")?);
    /// let database = registry.resource_with("database", TrafficType::Outbound)?;
    /// let _under_way = [orders.enter(), users.enter(), database.enter()];
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
