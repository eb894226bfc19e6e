//! The entrances by which a resource is reached.

use super::RegistryError;
use super::listed::Listed;
use crate::append_list::Item;
use crate::clock::Clock;
use crate::node::{NodeConfig, ResourceNode};
use crate::sync::{Arc, Name};

/// A node of a resource, for what reaches it by one entrance.
#[derive(Debug)]
pub(crate) struct Context<C> {
    name: Name,
    node: ResourceNode<C>,
}

/// A context, kept for as long as its resource is.
pub(crate) type KeptContext<C> = Arc<Item<Context<C>>>;

impl<C> Context<C> {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    pub(crate) const fn node(&self) -> &ResourceNode<C> {
        &self.node
    }
}

impl<C: Clock + Clone> Listed<C> {
    /// The context of that name, appended to the list if it is not there and not one too many.
    pub(crate) fn context(
        &self,
        name: &str,
        config: NodeConfig,
    ) -> Result<&KeptContext<C>, RegistryError> {
        let max = self.common().max_contexts;
        let make = || {
            let node = ResourceNode::with_clock(config, self.node().clock().clone());
            Context { name: Name::from(name), node }
        };
        let found = self.context_list().find_or_append(|context| context.name() == name, make, max);
        found.map(|(_, context)| context).ok_or_else(|| {
            let (resource, context) = (self.name().as_ref().into(), name.into());
            self.common().refuse(RegistryError::TooManyContexts { max, resource, context })
        })
    }
}
