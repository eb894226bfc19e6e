//! The counters of resources over evictions and removals.

use std::collections::HashMap;

use leaparray::{Clock, MetricEvent, MetricTotals, Registry, Resource, ResourceId, TrafficType};
use opentelemetry::KeyValue;

use crate::meter::attributes;

/// The series of all nodes: of the resources and of their contexts.
#[derive(Default)]
pub(crate) struct AllSeries {
    /// The number of reads.
    reads: u64,
    series: HashMap<Labels, Series>,
    /// The maximum number of series that are kept for nodes that are not listed.
    max_delisted: usize,
}

/// The labels of a series. One listed node at most has them.
#[derive(PartialEq, Eq, Hash)]
struct Labels {
    resource: Box<str>,
    context: Option<Box<str>>,
    is_outbound: bool,
}

/// The counts of the nodes with the same labels.
struct Series {
    attributes: Vec<KeyValue>,
    /// The last node with the labels, and its counts at the last read that found it.
    node: ResourceId,
    of_node: MetricTotals,
    /// The counts of former nodes.
    before: MetricTotals,
    /// The number of the last read that found the node.
    read: u64,
}

impl AllSeries {
    /// Reads all nodes of a registry. The series of nodes that were delisted keep their last
    /// counts. The number of these series is at most `max_resources` of the registry, or the
    /// largest number of nodes at a read, if that is larger.
    pub(crate) fn read<C: Clock + Clone>(&mut self, registry: &Registry<C>) {
        self.reads += 1;
        let mut nodes = 0;
        let mut read = |node: &Resource<C>| {
            nodes += 1;
            let series = self.series.entry(Labels::of(node)).or_insert_with(|| Series::of(node));
            series.read(node, self.reads);
        };
        for resource in registry {
            resource.contexts().for_each(|context| read(&context));
            read(&resource);
        }
        self.max_delisted = self.max_delisted.max(nodes).max(registry.max_resources());
        self.forget_oldest();
    }

    /// Returns the sums of an event, with the attributes.
    pub(crate) fn sums(&self, event: MetricEvent) -> impl Iterator<Item = (u64, &[KeyValue])> {
        self.series.values().map(move |series| (series.sum(event), &series.attributes[..]))
    }

    /// Forgets the series that were delisted first, if there are too many.
    fn forget_oldest(&mut self) {
        let delisted = self.series.values().map(|series| series.read);
        let mut delisted: Vec<_> = delisted.filter(|&read| read != self.reads).collect();
        let excess = delisted.len().saturating_sub(self.max_delisted);
        if excess == 0 {
            return;
        }
        let (_, &mut last, _) = delisted.select_nth_unstable(excess - 1);
        // Of several that were delisted at the same time, some may be kept.
        let mut of_last = excess - delisted.iter().filter(|&&read| read < last).count();
        self.series.retain(|_, series| {
            if series.read == last && of_last > 0 {
                of_last -= 1;
                return false;
            }
            series.read >= last
        });
    }
}

impl Labels {
    fn of<C>(node: &Resource<C>) -> Self {
        Self {
            resource: node.name().into(),
            context: node.context().map(Into::into),
            is_outbound: node.traffic_type() == TrafficType::Outbound,
        }
    }
}

impl Series {
    fn of<C>(node: &Resource<C>) -> Self {
        Self {
            attributes: attributes(node),
            node: node.id(),
            of_node: MetricTotals::default(),
            before: MetricTotals::default(),
            read: 0,
        }
    }

    fn read<C: Clock + Clone>(&mut self, node: &Resource<C>, read: u64) {
        if self.node != node.id() {
            self.before += &self.of_node;
            self.node = node.id();
        }
        self.of_node = node.lifetime();
        self.read = read;
    }

    fn sum(&self, event: MetricEvent) -> u64 {
        self.before.sum(event).saturating_add(self.of_node.sum(event))
    }
}
