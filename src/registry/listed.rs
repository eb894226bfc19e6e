//! The resource behind a name.

use std::iter;

use super::config::TrafficType;
use super::context::{Context, KeptContext};
use super::error::RegistryError;
use super::holders::Holders;
use super::id::ResourceId;
use super::kept::KeptHandles;
use super::{Common, Registry};
use crate::collections::{AppendList, TypeMap};
use crate::metric::MetricTotals;
use crate::node::{NodeConfig, NodeSnapshot, ResourceNode};
use crate::sync::{Arc, AtomicU64, Name};
use crate::time::{Clock, Timestamp};

/// A resource that is or was listed.
//
// In this order, the fields that a look-up reads are adjacent.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Listed<C> {
    holders: Holders,
    kept: KeptHandles<C>,
    name: Name,
    traffic: TrafficType,
    rule_place: AtomicU64,
    node: ResourceNode<C>,
    /// The contexts, the oldest first.
    contexts: AppendList<Context<C>>,
    data: TypeMap,
    common: Arc<Common>,
    id: ResourceId,
}

impl<C> Listed<C> {
    #[inline]
    pub(crate) const fn holders(&self) -> &Holders {
        &self.holders
    }

    /// Returns the handles that are kept for look-ups of the resource itself; a context has handles
    /// of its own.
    pub(super) const fn kept(&self) -> &KeptHandles<C> {
        &self.kept
    }

    /// Drops the handles that are kept, contexts included.
    pub(super) fn release_kept(&self) {
        self.kept.release();
        self.contexts().for_each(|context| context.kept().release());
    }

    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) const fn traffic_type(&self) -> TrafficType {
        self.traffic
    }

    /// Returns the word that
    /// [`Resource::shared_rule_place`](super::Resource::shared_rule_place) reads.
    pub(super) const fn rule_place(&self) -> &AtomicU64 {
        &self.rule_place
    }

    #[inline]
    pub(crate) const fn node(&self) -> &ResourceNode<C> {
        &self.node
    }

    pub(super) const fn id(&self) -> ResourceId {
        self.id
    }

    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    /// Returns the data of the resource itself; a context has data of its own.
    pub(crate) const fn data(&self) -> &TypeMap {
        &self.data
    }

    pub(crate) const fn context_list(&self) -> &AppendList<Context<C>> {
        &self.contexts
    }

    pub(crate) fn contexts(&self) -> impl Iterator<Item = &KeptContext<C>> {
        self.contexts.iter()
    }

    /// Returns the node of the resource, and the nodes of its contexts.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &ResourceNode<C>> {
        self.named_nodes().map(|(_, node)| node)
    }

    /// Returns the node of the resource, and the nodes of its contexts, with their identities and
    /// the names of the contexts.
    pub(crate) fn identified_nodes(
        &self,
    ) -> impl Iterator<Item = (ResourceId, Option<&Name>, &ResourceNode<C>)> {
        let contexts = self.contexts().map(|it| (it.id(), Some(it.name()), it.node()));
        iter::once((self.id, None, &self.node)).chain(contexts)
    }

    /// Returns the node of the resource, and the nodes of its contexts, with the names of the
    /// contexts.
    pub(crate) fn named_nodes(&self) -> impl Iterator<Item = (Option<&Name>, &ResourceNode<C>)> {
        let contexts = self.contexts().map(|context| (Some(context.name()), context.node()));
        iter::once((None, &self.node)).chain(contexts)
    }
}

impl<C: Clock + Clone> Listed<C> {
    /// Creates a resource with one handle, which belongs to the caller.
    pub(super) fn new(
        name: Name,
        traffic: TrafficType,
        config: NodeConfig,
        registry: &Registry<C>,
    ) -> Self {
        Self {
            holders: Holders::one(),
            kept: KeptHandles::new(),
            name,
            traffic,
            rule_place: AtomicU64::new(0),
            node: ResourceNode::with_clock(config, registry.clock.clone()),
            contexts: AppendList::new(),
            data: TypeMap::new(),
            common: Arc::clone(&registry.common),
            id: registry.common.next_id.take(),
        }
    }

    /// Changes the geometry of the node and of the contexts, for the thread that has just listed
    /// the resource.
    pub(crate) fn reconfigure(&self, config: NodeConfig) {
        self.node.reconfigure(config);
        // A thread that appends a context takes its turn after that, and then reads the geometry of
        // the node again. So either this thread finds the context, or that thread reads the new
        // geometry.
        self.common.geometry.take_turn();
        self.contexts().for_each(|context| context.node().reconfigure(config));
    }

    /// Returns the context with that name. If it is not in the list, appends it, unless the list
    /// has the maximum number of contexts or the name is invalid.
    pub(crate) fn context(
        &self,
        name: &str,
        config: NodeConfig,
    ) -> Result<&KeptContext<C>, RegistryError> {
        let invalid = |_| RegistryError::InvalidName { name: name.into() };
        self.common().check_name(name).map_err(invalid)?;
        let max = self.common().max_contexts;
        let make = || {
            let node = ResourceNode::with_clock(config, self.node().clock().clone());
            node.set_on_drop(self.node().on_drop());
            Context::new(self.common().next_id.take(), name, node)
        };
        let found = self.context_list().find_or_append(
            |context| context.name().as_ref() == name,
            make,
            max,
        );
        found.map(|(_, context)| context).ok_or_else(|| {
            let (resource, context) = (self.name().as_ref().into(), name.into());
            self.common().refuse(RegistryError::TooManyContexts { max, resource, context })
        })
    }

    /// Returns whether nothing was recorded with a time after `now − idle`, in the resource or in
    /// any of its contexts.
    pub(crate) fn is_idle(&self, now: Timestamp, idle: std::time::Duration) -> bool {
        let recorded_before = self.nodes().map(ResourceNode::recorded_before).max();
        recorded_before.is_none_or(|then| now.saturating_since(then) >= idle)
    }

    /// Returns the totals since the resource was made, contexts included.
    pub(crate) fn lifetime(&self) -> MetricTotals {
        self.nodes().fold(MetricTotals::default(), |mut sum, node| {
            sum += &node.lifetime();
            sum
        })
    }

    /// Returns the totals in the second of `now` and in later seconds, contexts included.
    pub(crate) fn unfinished_at(&self, now: Timestamp) -> MetricTotals {
        self.nodes().fold(MetricTotals::default(), |mut sum, node| {
            sum += &node.at(now).unfinished();
            sum
        })
    }

    /// Returns the sum of the snapshots of the node and of the contexts.
    pub(crate) fn snapshot_at(&self, now: Timestamp) -> NodeSnapshot {
        self.nodes().fold(NodeSnapshot::nothing_at(now), |mut sum, node| {
            sum += &node.at(now).snapshot();
            sum
        })
    }
}
