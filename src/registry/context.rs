//! Contexts: the entrances through which requests reach a resource.

use super::id::ResourceId;
use super::kept::KeptHandles;
use crate::collections::{Item, TypeMap};
use crate::node::ResourceNode;
use crate::sync::{Arc, Name};

/// A node of a resource for the requests that come through one entrance.
#[derive(Debug)]
pub(crate) struct Context<C> {
    name: Name,
    node: ResourceNode<C>,
    data: TypeMap,
    id: ResourceId,
    kept: KeptHandles<C>,
}

/// A shared reference to a context in the list of its resource.
pub(crate) type KeptContext<C> = Arc<Item<Context<C>>>;

impl<C> Context<C> {
    pub(super) fn new(id: ResourceId, name: &str, node: ResourceNode<C>) -> Self {
        let kept = KeptHandles::new();
        Self { name: Name::from(name), node, data: TypeMap::new(), id, kept }
    }

    pub(super) const fn kept(&self) -> &KeptHandles<C> {
        &self.kept
    }

    pub(super) const fn id(&self) -> ResourceId {
        self.id
    }

    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }

    #[inline]
    pub(crate) const fn node(&self) -> &ResourceNode<C> {
        &self.node
    }

    pub(crate) const fn data(&self) -> &TypeMap {
        &self.data
    }
}
