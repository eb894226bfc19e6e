//! Reading all resources at one time.

use std::fmt;

use super::Registry;
use super::config::TrafficType;
use super::listed::Listed;
use crate::array::Ledger;
use crate::histogram::LatencyHistogram;
use crate::metric::{MetricEvent, MetricTotals};
use crate::metric_array::MetricArray;
use crate::node::{NodeConfig, NodeSnapshot, ResourceNode};
use crate::sync::Arc;
use crate::time::{Clock, MonotonicClock, Span, Timestamp};
use crate::window::{Frame, Framed, Spread, WindowReading, with_scratch};

/// A [`Registry`] at one time. Returned by [`Registry::at`] and [`Registry::now`].
///
/// [`short`](Self::short) and [`long`](Self::long) are the readings of all inbound resources
/// together. Like a [`WindowReading`], this is a reference and a time, and has no counts of its
/// own.
pub struct RegistryReading<'a, C = MonotonicClock> {
    pub(super) registry: &'a Registry<C>,
    pub(super) now: Timestamp,
    config: NodeConfig,
    short: Frame,
    long: Frame,
}

impl<C> fmt::Debug for RegistryReading<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reading = f.debug_struct("RegistryReading");
        reading.field("now", &self.now).field("registry", self.registry).finish()
    }
}

impl<C: Clock + Clone> Registry<C> {
    /// Returns the reading of the resources at `now`.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "checked when the configuration was made")]
    pub fn at(&self, now: Timestamp) -> RegistryReading<'_, C> {
        let config = self.config();
        let long = Frame::new(*config.long(), self.made);
        let short =
            long.view(config.long(), *config.short()).expect("checked when the config was made");
        RegistryReading { registry: self, now, config, short, long }
    }

    /// Returns the reading of the resources at the time of the clock.
    #[must_use]
    pub fn now(&self) -> RegistryReading<'_, C> {
        self.at(self.clock.now())
    }

    /// Calls `read` with the nodes of all listed inbound resources, contexts included.
    fn for_each_inbound(&self, mut read: impl FnMut(&ResourceNode<C>)) {
        self.names.for_each(|listed| {
            if is_inbound(listed) {
                listed.nodes().for_each(&mut read);
            }
        });
    }
}

impl<C: Clock + Clone> RegistryReading<'_, C> {
    /// Returns the reading of all listed inbound resources and their contexts together, in the
    /// short window of the registry, by default the last second: the load of the service, without
    /// the calls that it makes itself.
    ///
    /// The window has the registry's [geometry](Registry::config), also for resources that
    /// have another one: a bucket of such a resource is in the window if it lies entirely within
    /// the window. Rates are divided by the time since the registry was made, if that is shorter
    /// than the window.
    ///
    /// The nodes are read one after the other while threads record, so a reading may differ by the
    /// newest requests from another one of the same time. Waits for no other thread, except for the
    /// [ledger](WindowReading::ledger), which waits as [`Registry::lifetime`] does. The ledger
    /// counts resources that were evicted or removed as expired.
    ///
    /// The [histogram](WindowReading::histogram_into) is the [merge](LatencyHistogram::merge) of
    /// the histograms of the nodes, at the coarsest of their scales. Its quantiles are those of all
    /// requests, which do not follow from the quantiles of the resources. There is none if no such
    /// resource has a [histogram](crate::NodeConfig::with_histogram), or if a response time in the
    /// window is in none: it was recorded in a resource without a histogram, or before the resource
    /// had one. A resource without a histogram that has no response time in the window does not
    /// matter. To get the histogram of some resources beside others that have none, merge their own
    /// histograms.
    ///
    /// ```
    /// use leaparray::{
    ///     HistogramConfig, ManualClock, MetricEvent, NodeConfig, Registry, RegistryConfig,
    ///     Timestamp,
    /// };
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    /// let registry = Registry::with_clock(RegistryConfig::default().node(node), clock.clone());
    /// let (orders, users) =
    ///     (registry.resource("GET /orders")?, registry.resource("GET /users")?);
    /// let entries = [orders.enter(), orders.enter(), users.enter()];
    /// for entry in entries {
    ///     clock.advance(Duration::from_millis(10));
    ///     entry.success();
    /// }
    ///
    /// let inbound = registry.now();
    /// assert_eq!(inbound.short().sum(MetricEvent::Success), 3);
    /// let all = inbound.short().histogram().unwrap();
    /// assert_eq!((all.count(), all.max()), (3, Some(Duration::from_millis(30))));
    /// let median = all.quantile(0.5).unwrap().as_secs_f64();
    /// assert!((median / 0.020 - 1.0).abs() <= all.relative_error());
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn short(&self) -> WindowReading<'_> {
        WindowReading::of_spread(
            Framed::new(self.config.long(), &self.short),
            self.registry,
            self.now,
        )
    }

    /// Like [`short`](Self::short), in the long window, by default the last minute.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// for name in ["GET /orders", "GET /users"] {
    ///     registry.resource(name)?.enter().success();
    ///     clock.advance(Duration::from_secs(10));
    /// }
    /// let inbound = registry.now();
    /// assert_eq!(inbound.long().sum(MetricEvent::Success), 2);
    /// assert_eq!(inbound.short().sum(MetricEvent::Success), 0);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn long(&self) -> WindowReading<'_> {
        WindowReading::of_spread(
            Framed::new(self.config.long(), &self.long),
            self.registry,
            self.now,
        )
    }

    /// Returns the sum of the snapshots of all listed inbound resources, including their contexts.
    /// The sum is computed by this call, so a request writes one node, and not a second one for the
    /// sum. Peaks are lower bounds: the highest peak of a single node, as in any sum of
    /// [`NodeSnapshot`]s.
    ///
    /// ```
    /// use leaparray::{Registry, TrafficType};
    ///
    /// let registry = Registry::new();
    /// let (orders, users) =
    ///     (registry.resource("GET /orders")?, registry.resource("GET /users")?);
    /// let database = registry.resource_with("database", TrafficType::Outbound)?;
    /// let _in_flight = [orders.enter(), users.enter(), database.enter()];
    /// assert_eq!(registry.now().inbound().concurrency, 2);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn inbound(&self) -> NodeSnapshot {
        let mut sum = NodeSnapshot::nothing_at(self.now);
        self.registry.for_each_inbound(|node| sum += &node.at(self.now).snapshot());
        sum
    }
}

fn is_inbound<C>(listed: &Arc<Listed<C>>) -> bool {
    listed.traffic_type() == TrafficType::Inbound && !listed.holders().is_gone()
}

/// The nodes of all listed inbound resources.
impl<C: Clock + Clone> Spread for Registry<C> {
    fn one_array(&self) -> Option<&MetricArray> {
        None
    }

    fn sum_in(&self, span: &Span, event: MetricEvent) -> u64 {
        let mut sum = 0_u64;
        self.for_each_inbound(|node| sum = sum.saturating_add(node.sum_in(span, event)));
        sum
    }

    fn totals_in(&self, span: &Span) -> MetricTotals {
        let mut sum = MetricTotals::default();
        self.for_each_inbound(|node| sum += &node.totals_in(span));
        sum
    }

    fn totals_and_histogram_in(
        &self,
        span: &Span,
        into: &mut LatencyHistogram,
    ) -> (MetricTotals, bool) {
        let mut sum = MetricTotals::default();
        let (mut has_histogram, mut is_complete) = (false, true);
        let mut read = |node: &ResourceNode<C>, into: &mut LatencyHistogram| {
            // Both are of one moment. If there were a later read of the totals, it could have a
            // response time that the histogram does not need to have.
            let (totals, has_all) = node.totals_and_histogram_in(span, into);
            is_complete &= has_all || totals.rt_count() == 0;
            sum += &totals;
            has_all
        };
        with_scratch(|of_node| {
            self.for_each_inbound(|node| {
                if !has_histogram {
                    has_histogram = read(node, into);
                } else if read(node, of_node) && !of_node.is_empty() {
                    add(into, of_node);
                }
            });
        });
        (sum, has_histogram && is_complete)
    }

    fn ledger_in(&self, span: &Span) -> Ledger<MetricTotals> {
        // Under the lock, no listed resource is evicted or removed before it has been added up.
        let _released;
        let mut delisted = self.delisted();
        _released = delisted.reclaim_released();
        let mut ledger = Ledger::default();
        ledger.expired += delisted.reclaimed(TrafficType::Inbound);
        for listed in delisted.with_holders() {
            if listed.traffic_type() == TrafficType::Inbound {
                ledger.expired += &listed.lifetime();
            }
        }
        self.for_each_inbound(|node| ledger += &node.ledger_in(span));
        ledger
    }
}

/// Adds a histogram to a sum, which keeps its scale only if it has response times.
fn add(sum: &mut LatencyHistogram, of_node: &mut LatencyHistogram) {
    if sum.is_empty() {
        std::mem::swap(sum, of_node);
    } else {
        sum.merge(of_node);
    }
}
