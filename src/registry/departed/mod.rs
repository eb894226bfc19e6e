//! The counts of the resources that are no longer listed, by their names.
//!
//! Everything here changes under the lock of `Delisted`. Under this lock, a node that was ever
//! listed is in one of three places, as for its seconds: it is *listed*; or it was removed and
//! still has *holders*; or it was *reclaimed*, and its counts are here. So a reading that takes the
//! lock finds each node in one place, and no count is missing or found twice.
//!
//! The counts of a name are of one *incarnation* until they are forgotten. The incarnation is the
//! identity of the first resource whose counts are in the series. It is chosen when a resource
//! departs, and kept while the name has a resource that is listed or has holders. So a reader that
//! finds another incarnation knows that the counts began at 0 again.

mod counts;
mod key;

use std::collections::{HashMap, HashSet};
// Not loom's: the counts do not change, and a model need not see the number of the readers.
use std::sync::Arc;

pub use counts::SeriesCounts;
pub use key::SeriesKey;

use crate::metric::MetricTotals;
use crate::node::Refusals;
use crate::registry::listed::Listed;
use crate::registry::{ResourceId, TrafficType};
use crate::sync::Name;
use crate::time::{Clock, Timestamp};

/// The name and the direction of a resource.
type Names = (Name, TrafficType);

/// The counts of the resources that are no longer listed, while there is a reader.
#[derive(Debug)]
pub(crate) struct Departed {
    keeps: Keeps,
    /// Each reader has a clone.
    readers: Arc<()>,
    resources: HashMap<Names, DepartedResource>,
    /// The number of departures.
    departures: u64,
    dropped: DroppedSeries,
}

/// The counts of a resource that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// All counts, for readers of the series.
    Counts,
    /// The refusals, of resources that have some, for cursors.
    Refusals,
}

#[derive(Debug)]
pub(crate) struct DepartedResource {
    pub(in crate::registry) incarnation: ResourceId,
    /// The number of the last departure.
    departure: u64,
    pub(in crate::registry) nodes: Vec<DepartedNode>,
}

#[derive(Debug)]
pub(crate) struct DepartedNode {
    pub(in crate::registry) context: Option<Name>,
    pub(in crate::registry) since: Timestamp,
    /// A reader copies the reference under the lock, and adds the counts without it.
    pub(in crate::registry) counts: Arc<SeriesCounts>,
}

/// The counts that a registry no longer keeps by series: those of the series that it has forgotten,
/// and those of all resources that were delisted before the first reader was made. Returned by
/// [`SeriesReading::dropped`](crate::registry::SeriesReading::dropped).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DroppedSeries {
    /// The number of forgotten series. A series that was forgotten twice counts twice.
    pub series: u64,
    /// The totals of inbound resources.
    pub inbound: MetricTotals,
    /// The totals of outbound resources.
    pub outbound: MetricTotals,
}

/// A reader that is known to the registry until it is dropped.
#[derive(Debug)]
pub(crate) struct Registration(Arc<()>);

impl DroppedSeries {
    /// Returns the totals of one direction.
    #[must_use]
    pub const fn totals(&self, traffic: TrafficType) -> &MetricTotals {
        match traffic {
            TrafficType::Inbound => &self.inbound,
            TrafficType::Outbound => &self.outbound,
        }
    }

    fn add(&mut self, traffic: TrafficType, resource: &DepartedResource) {
        self.series += resource.nodes.len() as u64;
        let totals = match traffic {
            TrafficType::Inbound => &mut self.inbound,
            TrafficType::Outbound => &mut self.outbound,
        };
        for node in &resource.nodes {
            *totals += &node.counts.totals;
        }
    }
}

impl Departed {
    pub(crate) fn new(keeps: Keeps) -> Self {
        Self {
            keeps,
            readers: Arc::new(()),
            resources: HashMap::new(),
            departures: 0,
            dropped: DroppedSeries::default(),
        }
    }

    fn has_readers(&self) -> bool {
        Arc::strong_count(&self.readers) > 1
    }

    /// Returns whether this has returned the registration.
    pub(in crate::registry) fn has_registered(&self, reader: &Registration) -> bool {
        Arc::ptr_eq(&self.readers, &reader.0)
    }

    /// Adds a reader. The first one begins the series: of the resources that departed before it,
    /// only the sums are known.
    pub(crate) fn register<'a, C: 'a>(
        &mut self,
        [inbound, outbound]: [&MetricTotals; 2],
        with_holders: impl Iterator<Item = &'a Listed<C>>,
    ) -> Registration {
        if !self.has_readers() {
            self.resources.clear();
            let (inbound, outbound) = (inbound.clone(), outbound.clone());
            self.dropped = DroppedSeries { series: 0, inbound, outbound };
        }
        for listed in with_holders {
            self.depart(listed);
        }
        Registration(Arc::clone(&self.readers))
    }

    /// Returns the entry of a resource that is no longer listed; `None` without a reader.
    pub(crate) fn depart<C>(&mut self, listed: &Listed<C>) -> Option<&mut DepartedResource> {
        if !self.has_readers() {
            // After the last reader, the memory is returned.
            self.resources = HashMap::new();
            return None;
        }
        self.departures += 1;
        let departure = self.departures;
        let incarnation = listed.id();
        let names = (Name::clone(listed.name()), listed.traffic_type());
        let new = || DepartedResource { incarnation, departure, nodes: Vec::new() };
        let resource = self.resources.entry(names).or_insert_with(new);
        resource.departure = departure;
        Some(resource)
    }

    /// Adds the counts of a resource in which no thread can record from now on.
    pub(crate) fn reclaim<C: Clock + Clone>(&mut self, listed: &Listed<C>) {
        let keeps = self.keeps;
        // An entry that a removed resource has made stays: it has the incarnation.
        if keeps == Keeps::Refusals
            && listed.named_nodes().all(|(_, node)| node.refusals().sum() == 0)
        {
            return;
        }
        let Some(resource) = self.depart(listed) else { return };
        for (context, node) in listed.named_nodes() {
            let mut counts = SeriesCounts::default();
            match keeps {
                Keeps::Counts => counts.add_node(node, true),
                Keeps::Refusals => counts.refusals = node.refusals(),
            }
            let known = resource.nodes.iter_mut().find(|it| it.context.as_ref() == context);
            let Some(known) = known else {
                let (context, since) = (context.cloned(), node.made());
                let counts = Arc::new(counts);
                resource.nodes.push(DepartedNode { context, since, counts });
                continue;
            };
            counts.add(&known.counts, true);
            known.counts = Arc::new(counts);
            known.since = known.since.min(node.made());
        }
    }

    /// Returns the incarnation of a resource that is listed or has holders.
    pub(in crate::registry) fn incarnation<C>(&self, listed: &Listed<C>) -> ResourceId {
        if self.resources.is_empty() {
            return listed.id();
        }
        let names = (Name::clone(listed.name()), listed.traffic_type());
        self.resources.get(&names).map_or(listed.id(), |it| it.incarnation)
    }

    /// Returns the series that have departed refusals, with their incarnation.
    pub(in crate::registry) fn refusals(
        &self,
    ) -> impl Iterator<Item = (SeriesKey, ResourceId, Refusals)> {
        self.resources.iter().flat_map(|((name, traffic_type), resource)| {
            let refused = resource.nodes.iter().filter(|node| node.counts.refusals.sum() > 0);
            refused.map(|node| {
                let (name, context) = (Name::clone(name), node.context.clone());
                let key = SeriesKey { name, context, traffic_type: *traffic_type };
                (key, resource.incarnation, node.counts.refusals)
            })
        })
    }

    pub(in crate::registry) fn resources(
        &self,
    ) -> impl Iterator<Item = (&Names, &DepartedResource)> {
        self.resources.iter()
    }

    pub(in crate::registry) const fn dropped(&self) -> &DroppedSeries {
        &self.dropped
    }

    /// Returns whether more resources than the maximum are kept, listed again or not.
    pub(in crate::registry) fn is_above(&self, max: usize) -> bool {
        self.resources.len() > max
    }

    /// Returns whether enough resources are above the maximum for the time that
    /// [`limit`](Self::limit) takes. Those with holders, which it keeps, do not count.
    pub(in crate::registry) fn is_far_above(&self, max: usize, with_holders: usize) -> bool {
        let gone_or_listed = self.resources.len().saturating_sub(with_holders);
        // Up to `max` of them may be listed again, and as many are kept.
        gone_or_listed > max.saturating_mul(3).saturating_add(64)
    }

    /// Forgets the resources that departed first, until at most `max` are left, besides those that
    /// are listed again or have holders.
    pub(in crate::registry) fn limit(
        &mut self,
        max: usize,
        has_holders: &HashSet<Names>,
        is_listed: impl Fn(&Name, TrafficType) -> bool,
    ) {
        let is_gone =
            |names: &&Names| !has_holders.contains(*names) && !is_listed(&names.0, names.1);
        let gone = self.resources.keys().filter(is_gone);
        let mut gone: Vec<_> =
            gone.map(|names| (self.resources[names].departure, names.clone())).collect();
        let excess = gone.len().saturating_sub(max);
        gone.sort_unstable_by_key(|(departure, _)| *departure);
        for (_, names) in &gone[..excess] {
            if let Some(resource) = self.resources.remove(names) {
                self.dropped.add(names.1, &resource);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::node::Reason;
    use crate::registry::{Registry, RegistryConfig, RegistryCursor};
    use crate::time::{Clock, ManualClock, Timestamp};

    /// Evicts and removes many resources, each with a name of its own.
    fn depart<C: Clock + Clone>(registry: &Registry<C>) {
        for number in 0..500 {
            let names = [number.to_string(), format!("{number}, removed")];
            for name in &names {
                registry.resource(name).unwrap().block();
            }
            registry.remove(&names[1]);
            registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
        }
    }

    fn kept<C: Clock + Clone>(registry: &Registry<C>) -> usize {
        registry.delisted().departed().resources.len()
    }

    #[test]
    fn series_of_a_reader_that_reads_no_more_are_bounded() {
        let registry = Registry::with_config(RegistryConfig::default().max_resources(10));
        let reader = registry.series();
        depart(&registry);
        assert!((10..=100).contains(&kept(&registry)), "{} are kept", kept(&registry));
        drop(reader);
        depart(&registry);
        assert_eq!(kept(&registry), 0, "after the last reader");
    }
    #[test]
    fn series_of_a_cursor_are_forgotten_by_its_visit() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let config = RegistryConfig::default().max_resources(10);
        let registry = Registry::with_clock(config, clock.clone());
        let cursor = RegistryCursor::new();
        registry.now().visit_seconds(&cursor, |_| {});
        let kept_refusals = || registry.delisted().departed_refusals().resources.len();
        depart(&registry);
        assert_eq!(kept(&registry), 0, "without a reader");
        // Removed resources have an entry from their removal on.
        assert!((10..600).contains(&kept_refusals()), "{} are kept", kept_refusals());
        clock.advance(Duration::from_secs(1));
        registry.now().visit_seconds(&cursor, |_| {});
        assert_eq!(kept_refusals(), 10);
    }

    /// With a page or a fleet, resources come and go for years.
    #[test]
    fn nothing_is_kept_for_a_cursor_of_a_resource_without_refusals() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let cursor = RegistryCursor::new();
        registry.now().visit_seconds(&cursor, |_| {});
        for (name, refused) in [("a", 0), ("b", 1)] {
            registry.resource(name).unwrap().refuse_many_at(clock.now(), refused, Reason::Failing);
        }
        clock.advance(Duration::from_secs(1));
        registry.evict_idle_at(registry.clock().now(), Duration::ZERO);
        let delisted = registry.delisted();
        let names: Vec<_> = delisted.departed_refusals().resources.keys().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(&*names[0].0, "b");
    }

    /// Otherwise, each removal looks at all of them.
    #[test]
    fn removed_resources_with_handles_are_not_too_many() {
        let registry = Registry::with_config(RegistryConfig::default().max_resources(10));
        let _reader = registry.series();
        let remove = |number: u32| {
            let name = number.to_string();
            let resource = registry.resource(&name).unwrap();
            registry.remove(&name);
            resource
        };
        let held: Vec<_> = (0..500).map(remove).collect();
        let is_far_above = || {
            let delisted = registry.delisted();
            delisted.departed().is_far_above(10, delisted.with_holders().len())
        };
        assert!(kept(&registry) == 500 && !is_far_above());
        drop(held);
        drop(registry.delisted().reclaim_released());
        assert!(is_far_above());
    }
}
