//! The readings of all resources at one time, as plain data.

use super::config::TrafficType;
use super::listed::Listed;
use super::reading::RegistryReading;
use crate::node::NodeSnapshot;
use crate::sync::Name;
use crate::time::{Clock, Timestamp};

/// The readings of the listed resources of a [`Registry`](super::Registry) at one time: plain data
/// that can be kept, compared and sent.
///
/// Returned by [`RegistryReading::snapshot`]. A monitor that reads again and again passes the same
/// `RegistrySnapshot` to [`RegistryReading::snapshot_into`], which uses its memory again. The
/// default is empty, at the beginning of time.
///
/// All rows are of one `now`, and the sums are computed from the rows, so a sum and its rows always
/// agree. With the feature `serde`, it can be serialized, with
/// [times](crate::reference::serialized_times) that lose no digits. The sums are not serialized,
/// since they follow from the rows.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RegistrySnapshot {
    /// The time of the snapshot, and of each of its rows.
    pub timestamp: Timestamp,
    /// A row for each node. The resources are in any order. The node of a resource is followed by
    /// the nodes of its contexts, the oldest first.
    pub resources: Vec<ResourceSnapshot>,
}

/// The readings of one node of a registry: of a resource, or of one of its contexts.
///
/// ```
/// use leaparray::Registry;
///
/// let registry = Registry::new();
/// registry.resource("orders")?.in_context("web")?.block();
/// let rows = registry.now().snapshot().resources;
/// assert_eq!((&*rows[0].name, rows[0].context.as_deref()), ("orders", None));
/// assert_eq!((&*rows[1].name, rows[1].context.as_deref()), ("orders", Some("web")));
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ResourceSnapshot {
    /// The name of the resource.
    pub name: Name,
    /// The name of the context; `None` for the node of the resource itself, which has the requests
    /// without a context.
    pub context: Option<Name>,
    /// The direction of the resource.
    pub traffic_type: TrafficType,
    /// The readings of the node.
    pub snapshot: NodeSnapshot,
}

impl RegistrySnapshot {
    /// Returns the sum of all rows.
    ///
    /// The counts are added up, as by `+=`. Peaks are lower bounds: the highest peak of a single
    /// row.
    #[must_use]
    pub fn total(&self) -> NodeSnapshot {
        self.sum_of(|_| true)
    }

    /// Returns the sum of the rows of inbound resources: the load of the service, without the calls
    /// that it makes itself. Peaks are lower bounds, as in [`total`](Self::total).
    ///
    /// ```
    /// use leaparray::{Registry, TrafficType};
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("GET /orders")?;
    /// let database = registry.resource_with("database", TrafficType::Outbound)?;
    /// let _in_flight = [orders.enter(), database.enter()];
    /// let snapshot = registry.now().snapshot();
    /// assert_eq!((snapshot.total().concurrency, snapshot.inbound().concurrency), (2, 1));
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn inbound(&self) -> NodeSnapshot {
        self.sum_of(|row| row.traffic_type == TrafficType::Inbound)
    }

    fn sum_of(&self, is_in: impl Fn(&ResourceSnapshot) -> bool) -> NodeSnapshot {
        let mut sum = NodeSnapshot::nothing_at(self.timestamp);
        self.resources.iter().filter(|row| is_in(row)).for_each(|row| sum += &row.snapshot);
        sum
    }
}

impl<C: Clock + Clone> RegistryReading<'_, C> {
    /// Returns the readings of all listed resources; see [`snapshot_into`](Self::snapshot_into).
    ///
    /// ```
    /// use leaparray::Registry;
    ///
    /// let registry = Registry::new();
    /// registry.resource("GET /orders")?.enter().success();
    /// registry.resource("GET /users")?.block();
    ///
    /// let mut snapshot = registry.now().snapshot();
    /// snapshot.resources.sort_by(|a, b| a.name.cmp(&b.name));
    /// let passed: Vec<_> =
    ///     snapshot.resources.iter().map(|row| row.snapshot.pass_qps() > 0.0).collect();
    /// assert_eq!(passed, [true, false]);
    /// assert!(snapshot.total().block_qps() > 0.0);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> RegistrySnapshot {
        let mut snapshot = RegistrySnapshot::default();
        self.snapshot_into(&mut snapshot);
        snapshot
    }

    /// Replaces `snapshot` by the readings of all listed resources: a row for each
    /// resource, and one for each of its contexts.
    ///
    /// The rows share the names with the registry, and the memory of the earlier rows is used
    /// again. So this allocates nothing, unless there are more rows than `snapshot` has had before.
    ///
    /// The nodes are read one after the other while threads record, so rows may differ by requests
    /// that were recorded during this call. A resource that is listed all the time has its row, any
    /// other resource perhaps. [Removed](super::Registry::remove) resources have none, even if they
    /// have handles. Waits for no other thread.
    ///
    /// ```
    /// use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
    /// use leaparray::registry::RegistrySnapshot;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// let orders = registry.resource("GET /orders")?;
    /// let mut snapshot = RegistrySnapshot::default();
    /// for secs in 1..=3 {
    ///     clock.advance(Duration::from_secs(1));
    ///     orders.enter().success();
    ///     registry.now().snapshot_into(&mut snapshot);
    ///     assert_eq!(snapshot.timestamp, Timestamp::from_secs(60 + secs));
    ///     assert_eq!(snapshot.total(), snapshot.resources[0].snapshot);
    /// }
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn snapshot_into(&self, snapshot: &mut RegistrySnapshot) {
        snapshot.timestamp = self.now;
        snapshot.resources.clear();
        self.registry.names.for_each(|listed| {
            if !listed.holders().is_gone() {
                snapshot.resources.extend(listed.rows_at(self.now));
            }
        });
    }
}

impl<C: Clock + Clone> Listed<C> {
    /// Returns the snapshots of the node and of the contexts.
    fn rows_at(&self, now: Timestamp) -> impl Iterator<Item = ResourceSnapshot> {
        self.named_nodes().map(move |(context, node)| ResourceSnapshot {
            name: Name::clone(self.name()),
            context: context.cloned(),
            traffic_type: self.traffic_type(),
            snapshot: node.at(now).snapshot(),
        })
    }
}
