//! All resources that a registry has had: the listed ones, and the totals of the others.

use super::Registry;
use super::config::TrafficType;
use super::resource::Resource;
use crate::metric::MetricTotals;
use crate::time::Clock;

/// The resources that a [`Registry`] lists, and the totals of the resources that it lists no
/// longer. Returned by [`Registry::inventory`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Inventory<C> {
    /// The listed resources, in any order.
    pub resources: Vec<Resource<C>>,
    /// The lifetime totals of all inbound resources that were evicted or removed.
    pub delisted_inbound: MetricTotals,
    /// The lifetime totals of all outbound resources that were evicted or removed.
    pub delisted_outbound: MetricTotals,
}

impl<C: Clock + Clone> Registry<C> {
    /// Returns the listed resources, and the totals of all others that the registry has had, at one
    /// moment.
    ///
    /// A resource has its own lifetime here; add the lifetimes of its
    /// [contexts](Resource::contexts).
    ///
    /// A resource is in one of the two. So if an exporter reads each resource once, the sum of what
    /// it has read and of the delisted totals is the [lifetime](Self::lifetime) of the registry,
    /// and never decreases from one inventory to the next. A resource that is removed after the
    /// inventory stays readable by its handle.
    ///
    /// The handles keep the resources from [eviction](Self::evict_idle). Threads that evict,
    /// remove, reconfigure, poll seconds or read lifetime totals wait for this call, but not until
    /// the handles are dropped. Threads that look up or record do not wait.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Registry};
    ///
    /// let registry = Registry::new();
    /// registry.resource("GET /orders")?.enter().success();
    /// registry.remove("GET /orders");
    /// registry.resource("GET /users")?.enter().success();
    ///
    /// let inventory = registry.inventory();
    /// let mut sum = inventory.delisted_inbound;
    /// assert_eq!(sum.sum(MetricEvent::Success), 1);
    /// for resource in &inventory.resources {
    ///     sum += &resource.lifetime();
    /// }
    /// assert_eq!(sum.sum(MetricEvent::Success), registry.lifetime().sum(MetricEvent::Success));
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn inventory(&self) -> Inventory<C> {
        // Under the lock, a resource is either listed or gone. One that is gone was reclaimed or
        // has holders.
        let _released;
        let mut delisted = self.delisted();
        _released = delisted.reclaim_released();
        let of = |traffic| {
            let with_holders = delisted.with_holders();
            let of_traffic = with_holders.filter(|listed| listed.traffic_type() == traffic);
            of_traffic.fold(delisted.reclaimed(traffic).clone(), |mut sum, listed| {
                sum += &listed.lifetime();
                sum
            })
        };
        let [delisted_inbound, delisted_outbound] =
            [TrafficType::Inbound, TrafficType::Outbound].map(of);
        let mut resources = Vec::with_capacity(self.len());
        self.names.for_each(|listed| resources.extend(Resource::take(listed)));
        Inventory { resources, delisted_inbound, delisted_outbound }
    }
}
