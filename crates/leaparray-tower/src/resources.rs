//! The resources of requests, found by their names.

use std::cell::Cell;
use std::sync::Arc;

use http::Request;
use http::response::Parts;
use leaparray::{Clock, MetricEvent, Registry, RegistryError, Resource, TrafficType};

use crate::name::{Name, OTHER, OTHER_OUTBOUND};
use crate::unconfirmed::Unconfirmed;

thread_local! {
    /// The thread's buffer for names. `Cell::take` leaves an empty string, so a [`Name`] that calls
    /// the service of another layer has a buffer too.
    static NAME: Cell<String> = const { Cell::new(String::new()) };
}

/// The resources of the requests of a layer.
pub(crate) struct Resources<N, C> {
    registry: Arc<Registry<C>>,
    /// The direction with which resources are listed.
    traffic: TrafficType,
    /// The resource of requests without a name of their own. The handle prevents its eviction.
    other: Resource<C>,
    name: N,
    unconfirmed: Unconfirmed,
}

/// The resource of a request.
pub(crate) struct Found<C> {
    pub(crate) resource: Resource<C>,
    /// Whether the first look-up did not find it, so this request or one at the same time has
    /// listed it.
    pub(crate) is_new: bool,
}

impl<N, C> Resources<N, C> {
    pub(crate) const fn registry(&self) -> &Arc<Registry<C>> {
        &self.registry
    }

    /// Returns whether the requests are those of a client.
    pub(crate) const fn is_outbound(&self) -> bool {
        matches!(self.traffic, TrafficType::Outbound)
    }
}

impl<N, C: Clock + Clone> Resources<N, C> {
    pub(crate) fn new(
        registry: Arc<Registry<C>>,
        traffic: TrafficType,
        name: N,
    ) -> Result<Self, RegistryError> {
        let other = if traffic == TrafficType::Outbound { OTHER_OUTBOUND } else { OTHER };
        let other = registry.resource_with(other, traffic)?;
        Ok(Self { registry, traffic, other, name, unconfirmed: Unconfirmed::default() })
    }

    /// Returns the resource of a request, and lists it if it is new.
    pub(crate) fn find<A>(&self, request: &Request<A>) -> Found<C>
    where
        N: Name<A>,
    {
        let mut name = NAME.take();
        name.clear();
        self.name.write(request, &mut name);
        let other = || Found { resource: self.other.clone(), is_new: false };
        let found = if name.is_empty() {
            other()
        } else if let Some(resource) = self.registry.get(&name) {
            Found { resource, is_new: false }
        } else {
            self.list(&name).map_or_else(other, |resource| Found { resource, is_new: true })
        };
        NAME.set(name);
        found
    }

    /// Lists a name; `None` if there is no room for it, or if it is invalid.
    #[cold]
    fn list(&self, name: &str) -> Option<Resource<C>> {
        if !self.unconfirmed.has_room(&self.registry) {
            return None;
        }
        let list = || self.registry.find_or_list(name, self.traffic);
        let resource = list().or_else(|| {
            let is_full = self.registry.len() >= self.registry.max_resources();
            (is_full && self.unconfirmed.remove_one(&self.registry)).then(list)?
        })?;
        self.unconfirmed.add(&resource);
        Some(resource)
    }

    /// Learns from the response to the request that listed a resource. Removes the resource if the
    /// response shows that the target of the request does not exist, and no request has succeeded.
    pub(crate) fn learn<A>(&self, resource: &Resource<C>, response: &Parts)
    where
        N: Name<A>,
    {
        Unconfirmed::confirm(resource, response);
        // A success of a later request shows that the target exists.
        if self.name.is_unknown(response) && resource.lifetime().sum(MetricEvent::Success) == 0 {
            self.registry.remove_resource(resource);
            self.unconfirmed.forget(resource.name());
        }
    }
}
