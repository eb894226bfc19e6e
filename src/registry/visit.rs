//! One pass over all resources: each complete second once, and each listed node.
//!
//! Most of the time of a reading of many nodes is the wait for their cache lines, one after the
//! other. So some dozens of resources are prepared together, in stages: in each stage, one line or
//! a few of each of them are loaded.

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;
use std::sync::PoisonError;

use super::config::TrafficType;
use super::departed::SeriesKey;
use super::id::ResourceId;
use super::listed::Listed;
use super::reading::RegistryReading;
use super::second::{ResourceSecond, add_up_equal};
use super::seconds::RegistryCursor;
use super::series::NewRefusals;
use crate::histogram::LatencyHistogram;
use crate::metric::{MetricTotals, SecondMetrics};
use crate::node::{Refusals, ResourceNode, number_of, oldest_second};
use crate::sync::{Arc, Name};
use crate::time::{Clock, Timestamp};

/// The result of [`RegistryReading::visit_seconds`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Visited<'a, C> {
    /// The numbers of the seconds since the Unix epoch that this call delivers, before all nodes.
    Seconds(Range<u64>),
    /// A listed node: a resource, or one of its contexts. Its seconds follow.
    Node(VisitedNode<'a, C>),
    /// A second of the listed node that was visited last.
    Second(&'a SecondMetrics),
    /// A second of a resource that is no longer listed, if no listed resource has its name, context
    /// and direction.
    Delisted(&'a ResourceSecond),
    /// The [new refusals](VisitedNode::refused) of a resource that is no longer listed, if no
    /// listed resource has its name, context and direction. Visited after all others.
    DelistedRefusals(&'a SeriesKey, Refusals),
}

/// A listed node, in [`Visited`].
#[derive(Debug)]
#[non_exhaustive]
pub struct VisitedNode<'a, C> {
    /// The identity.
    pub id: ResourceId,
    /// The name of the resource.
    pub name: &'a Name,
    /// The name of the context; `None` for the requests without a context.
    pub context: Option<&'a Name>,
    /// The direction of the resource.
    pub traffic_type: TrafficType,
    /// The node.
    pub node: &'a ResourceNode<C>,
    /// The refused permits by reason since the last visit with this cursor that has delivered a
    /// second, also those of the resources before this one with its name, context and direction: of
    /// its [series](crate::Registry::series). None in a visit that delivers no second. The first
    /// visit has those since the series began. A refusal has no second of its own.
    pub refused: Refusals,
}

/// The seconds and the totals of one [`RegistryReading::visit_seconds`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visit {
    /// The numbers of the seconds since the Unix epoch that were delivered.
    pub seconds: Range<u64>,
    /// The lifetime totals of all resources that were evicted or removed.
    pub delisted: MetricTotals,
    /// The totals of these resources in the second of `now` and in later seconds: the part of
    /// `delisted` that no second delivers yet. The second of `now` has the number `seconds.end`.
    ///
    /// The registry keeps the seconds of a resource without handles only for the cursors that it
    /// knows. So if the resource was evicted before the first visit with this cursor, its totals
    /// are in `delisted`, and here only if another cursor was known. The first visit has the
    /// resources that still have handles.
    ///
    /// Together with [`unfinished`](crate::NodeReading::unfinished) of the visited nodes, it tells
    /// how many counts came late, after their second was delivered: the lifetimes of the visited
    /// nodes, plus `delisted`, are the delivered seconds, plus `unfinished` of the nodes and of
    /// this, plus late counts.
    pub unfinished: MetricTotals,
}

/// The seconds of resources that are no longer listed, each of a node and a second once, by their
/// names.
struct Apart {
    /// Sorted by name, context and direction, and then by second.
    seconds: Vec<ResourceSecond>,
    /// Whether each of them was visited as a second of a listed node.
    taken: Vec<bool>,
}

impl<C: Clock + Clone> RegistryReading<'_, C> {
    /// Calls `visit` with each listed node, and with the seconds that
    /// [`poll_seconds_into`](Self::poll_seconds_into) would deliver, in one pass over the
    /// resources.
    ///
    /// The first call has the numbers of all these seconds, of which there may be none. A listed
    /// node is followed by its seconds, the oldest first. The nodes are in no particular order. A
    /// second of a resource that was listed again includes the records of the one before. The
    /// lifetimes of the visited nodes and the delisted totals in the result add up to the
    /// [lifetime](super::Registry::lifetime) of the registry.
    ///
    /// Unless resources were evicted or removed, nothing is sorted, and the memory of the
    /// histograms is used again, so this allocates some hundred bytes. From the first visit on
    /// until the cursor is dropped, the registry keeps the refusals of resources that are no longer
    /// listed and had some, within the bounds of [series](super::SeriesReader).
    ///
    /// # Blocking
    ///
    /// As for [`poll_seconds_into`](Self::poll_seconds_into). `visit` must not evict, remove,
    /// reconfigure, poll or visit this registry, read its lifetime totals, its ledger or its
    /// series, or call [`Registry::series`](super::Registry::series): it would wait for itself.
    ///
    /// # Panics
    ///
    /// Panics if `visit` panics. The cursor does not deliver the seconds of that call again.
    ///
    /// ```
    /// use leaparray::{Clock, ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
    /// use leaparray::registry::{RegistryCursor, Visited};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// let orders = registry.resource("GET /orders")?;
    /// let cursor = RegistryCursor::new();
    /// let in_flight = orders.enter();
    /// orders.enter().success();
    /// clock.advance(Duration::from_secs(1));
    ///
    /// let (mut concurrency, mut successes) = (0, 0);
    /// let visit = registry.at(clock.now()).visit_seconds(&cursor, |visited| match visited {
    ///     Visited::Node(visited) => concurrency += visited.node.concurrency(),
    ///     Visited::Second(metrics) => successes += metrics.counts[MetricEvent::Success],
    ///     _ => {}
    /// });
    /// assert_eq!((visit.seconds.end, concurrency, successes), (61, 1, 1));
    /// # drop(in_flight);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn visit_seconds(
        &self,
        cursor: &RegistryCursor,
        mut visit: impl FnMut(Visited<'_, C>),
    ) -> Visit {
        let registry = self.registry;
        // As in `poll_seconds_into`: no second after the time of the clock is complete.
        let now = self.now.min(registry.clock.now());
        let _released;
        let mut delisted = registry.delisted();
        delisted.undelivered().add_cursor(&cursor.position);
        _released = delisted.reclaim_released();
        let oldest = oldest_second(registry.config().long(), now);
        let seconds = cursor.position.advance(oldest, number_of(now));
        let mut refusals = cursor.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refusals = refusals.begin(&mut delisted, !seconds.is_empty());
        visit(Visited::Seconds(seconds.clone()));
        let mut apart: Vec<_> = delisted.undelivered().of(&seconds).cloned().collect();
        let mut totals = delisted.reclaimed(TrafficType::Inbound).clone();
        totals += delisted.reclaimed(TrafficType::Outbound);
        let mut unfinished = MetricTotals::default();
        for second in delisted.undelivered().of(&(seconds.end..u64::MAX)) {
            unfinished += &second.metrics.totals();
        }
        for listed in delisted.with_holders() {
            totals += &listed.lifetime();
            // After the lifetime: what a thread records in between is in `unfinished` only.
            unfinished += &listed.unfinished_at(now);
            listed.append_seconds(now, &seconds, &mut apart);
        }
        let mut apart = Apart::new(apart);
        let mut histogram = LatencyHistogram::default();
        let newest = seconds.end.saturating_sub(1);
        let prepare = |listed: &Arc<Listed<C>>, stage| listed.load_ahead(stage, newest);
        registry.names.for_each_prepared(Listed::<C>::STAGES, prepare, |listed| {
            // A resource that is gone is among the others.
            if !listed.holders().is_gone() {
                let new = &mut refusals;
                listed.visit(now, &seconds, &mut apart, new, &mut histogram, &mut visit);
            }
        });
        for second in apart.rest() {
            visit(Visited::Delisted(second));
        }
        refusals.finish(|key, new| visit(Visited::DelistedRefusals(key, new)));
        if !seconds.is_empty() {
            // After this visit has delivered their refusals.
            registry.forget_departed(&mut delisted);
        }
        delisted.undelivered().forget_before(oldest);
        Visit { seconds, delisted: totals, unfinished }
    }
}

impl<C: Clock + Clone> Listed<C> {
    fn visit(
        &self,
        now: Timestamp,
        seconds: &Range<u64>,
        apart: &mut Apart,
        refusals: &mut NewRefusals<'_>,
        histogram: &mut LatencyHistogram,
        visit: &mut impl FnMut(Visited<'_, C>),
    ) {
        for (id, context, node) in self.identified_nodes() {
            let (name, traffic_type) = (self.name(), self.traffic_type());
            let refused = refusals.of(self, context, node.refusals());
            visit(Visited::Node(VisitedNode { id, name, context, traffic_type, node, refused }));
            let of_node =
                apart.take(|it| it.order_of_names(self.name(), context, self.traffic_type()));
            if !of_node.is_empty() {
                self.visit_sum(context, of_node, node.seconds_in_window(now, seconds), visit);
                continue;
            }
            node.for_each_second_in_window(now, seconds, histogram, |metrics| {
                visit(Visited::Second(metrics));
            });
        }
    }
}

impl<C: Clock + Clone> Listed<C> {
    /// The number of stages of [`load_ahead`](Self::load_ahead).
    const STAGES: usize = 1 + ResourceNode::<C>::STAGES;

    /// Loads what a visit of this resource is about to load of a second: see
    /// [`ResourceNode::load_ahead`].
    fn load_ahead(&self, stage: usize, second: u64) {
        match stage.checked_sub(1) {
            None => drop(black_box((
                self.holders().is_gone(),
                self.id(),
                self.contexts().next().is_some(),
            ))),
            Some(stage) => self.node().load_ahead(stage, second),
        }
    }
}

impl<C> Listed<C> {
    /// Visits the seconds of a node, and those of the resources with its names that are no longer
    /// listed, added up.
    #[cold]
    fn visit_sum(
        &self,
        context: Option<&Name>,
        before: &[ResourceSecond],
        seconds: impl Iterator<Item = SecondMetrics>,
        visit: &mut impl FnMut(Visited<'_, C>),
    ) {
        let mut all = before.to_vec();
        all.extend(seconds.map(|metrics| self.second(context, metrics)));
        add_up_equal(&mut all);
        for second in &all {
            visit(Visited::Second(&second.metrics));
        }
    }
}

impl Apart {
    fn new(mut seconds: Vec<ResourceSecond>) -> Self {
        add_up_equal(&mut seconds);
        // Stable: the seconds of a node stay in order.
        seconds.sort_by(|one, other| {
            one.order_of_names(&other.name, other.context.as_ref(), other.traffic_type)
        });
        let taken = vec![false; seconds.len()];
        Self { seconds, taken }
    }

    /// Takes the seconds of the resources with the names of a listed node out of the
    /// [rest](Self::rest), and returns them. `order` compares the names of a second with those.
    ///
    /// A search by bisection: the lock is held, and both the listed nodes and these seconds may be
    /// many.
    fn take(&mut self, order: impl Fn(&ResourceSecond) -> Ordering) -> &[ResourceSecond] {
        if self.seconds.is_empty() {
            return &[];
        }
        let start = self.seconds.partition_point(|second| order(second).is_lt());
        let same = self.seconds[start..].iter().take_while(|second| order(second).is_eq());
        let range = start..start + same.count();
        self.taken[range.clone()].fill(true);
        &self.seconds[range]
    }

    /// Returns the seconds that were not taken.
    fn rest(&self) -> impl Iterator<Item = &ResourceSecond> {
        let all = self.seconds.iter().zip(&self.taken);
        all.filter(|(_, is_taken)| !**is_taken).map(|(second, _)| second)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::registry::{Registry, RegistryConfig};
    use crate::time::ManualClock;

    /// The search holds the lock of evictions.
    #[test]
    fn seconds_of_a_node_are_found_in_few_comparisons() {
        const COUNT: usize = 1 << 10;
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let cursor = RegistryCursor::new();
        registry.at(clock.now()).poll_seconds(&cursor);
        for index in 0..COUNT {
            registry.resource(&format!("GET /{index:04}")).unwrap().block();
        }
        clock.advance(std::time::Duration::from_secs(1));
        let seconds = registry.at(clock.now()).poll_seconds(&cursor);
        assert_eq!(seconds.len(), COUNT);

        let mut apart = Apart::new(seconds.clone());
        for second in &seconds {
            let comparisons = Cell::new(0);
            let taken = apart.take(|it| {
                comparisons.set(comparisons.get() + 1);
                it.order_of_names(&second.name, second.context.as_ref(), second.traffic_type)
            });
            assert_eq!(taken.len(), 1);
            assert!(comparisons.get() <= 13, "{} of {COUNT}", comparisons.get());
        }
        assert_eq!(apart.rest().count(), 0);
    }
}
