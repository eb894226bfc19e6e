//! The entrances by which a resource is reached.

use super::RegistryError;
use super::listed::Listed;
use crate::clock::Clock;
use crate::node::{NodeConfig, ResourceNode};
use crate::sync::{Arc, Lazy, Name};

/// A node of a resource, for what reaches it by one entrance.
#[derive(Debug)]
pub(crate) struct Context<C> {
    name: Name,
    node: ResourceNode<C>,
    /// Made once, and kept for as long as the resource is.
    next: Lazy<Arc<Self>>,
}

impl<C> Context<C> {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    pub(crate) const fn node(&self) -> &ResourceNode<C> {
        &self.node
    }

    pub(crate) const fn next(&self) -> &Lazy<Arc<Self>> {
        &self.next
    }
}

impl<C: Clock + Clone> Listed<C> {
    /// The context of that name, appended to the list if it is not there and not one too many.
    pub(crate) fn context(
        &self,
        name: &str,
        config: NodeConfig,
    ) -> Result<&Arc<Context<C>>, RegistryError> {
        let max = self.common().max_contexts;
        let mut end = self.first_context();
        let mut count = 0;
        loop {
            let context = match end.get() {
                Some(context) => context,
                None if count == max => {
                    let (resource, context) = (self.name().as_ref().into(), name.into());
                    let error = RegistryError::TooManyContexts { max, resource, context };
                    return Err(self.common().refuse(error));
                }
                // Another thread may append another one meanwhile: then ours comes after it.
                None => end.get_or_make(|| Arc::new(self.new_context(name, config))),
            };
            if context.name() == name {
                return Ok(context);
            }
            end = context.next();
            count += 1;
        }
    }

    fn new_context(&self, name: &str, config: NodeConfig) -> Context<C> {
        let node = ResourceNode::with_clock(config, self.node().clock().clone());
        Context { name: Name::from(name), node, next: Lazy::new() }
    }
}
