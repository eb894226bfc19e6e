//! The resources of requests, found by their names.

use std::sync::Arc;

use http::response::Parts;
use http::{Request, StatusCode};
use leaparray::registry::RegistryError;
use leaparray::{Clock, Registry, Resource, TrafficType};

use crate::class::End;
use crate::found::{self, KeptRoute, LayerId, NameParts, Slots};
use crate::name::{Name, OTHER, OTHER_OUTBOUND};
use crate::unconfirmed::{self, Evidence, Listing, Time, Unconfirmed, UnconfirmedNames};

/// The resources of the requests of a layer.
pub(crate) struct Resources<N, C> {
    id: LayerId,
    registry: Arc<Registry<C>>,
    /// The direction with which resources are listed.
    traffic: TrafficType,
    /// The resource of requests without a name of their own. The handle prevents its eviction.
    other: Resource<C>,
    name: N,
    unconfirmed: Arc<UnconfirmedNames>,
}

/// The resource of a request.
pub(crate) struct Found<N, C> {
    pub(crate) resource: Resource<C>,
    /// The name, if it is unconfirmed. In a box, since that is rare.
    pub(crate) unconfirmed: Option<Box<NewName<N, C>>>,
}

/// The name of a request that is unconfirmed.
pub(crate) struct NewName<N, C> {
    resources: Arc<Resources<N, C>>,
    /// The name, if it is not listed.
    unlisted: Option<Box<str>>,
    /// Whether any response lists it, but for one with the status 405.
    is_late: bool,
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
        let unconfirmed = UnconfirmedNames::shared(&other);
        Ok(Self { id: LayerId::new(), registry, traffic, other, name, unconfirmed })
    }

    /// Returns the resource of a request, and lists it if it is new.
    #[inline]
    pub(crate) fn find<A>(self: &Arc<Self>, request: &Request<A>) -> Found<N, C>
    where
        N: Name<A>,
        C: 'static,
    {
        match self.find_by_route(request) {
            Some(resource) => self.listed(resource),
            None => self.find_by_name(request),
        }
    }

    /// Returns the resource of a request, if it is in the slots by its route. Out of line, and
    /// nothing but this: the result is returned in registers.
    #[inline(never)]
    fn find_by_route<A>(&self, request: &Request<A>) -> Option<Resource<C>>
    where
        N: Name<A>,
        C: 'static,
    {
        let (method, route) = self.name.route(request)?;
        found::get(self.id, NameParts { method, route })
    }

    /// Like [`find`](Self::find), for a name that is not in the slots by its route.
    #[inline(never)]
    fn find_by_name<A>(self: &Arc<Self>, request: &Request<A>) -> Found<N, C>
    where
        N: Name<A>,
        C: 'static,
    {
        let found = found::with(|slots, name| {
            if self.name.route(request).is_none() {
                self.name.write(request, name);
                if let Some(resource) = slots.get(self.id, NameParts { method: "", route: name }) {
                    return self.listed(resource);
                }
            }
            self.look_up(request, Some(slots), name)
        });
        found.unwrap_or_else(|| self.find_without_slots(request))
    }

    /// Like [`find`](Self::find), while the slots of the thread are in use or destroyed.
    #[cold]
    #[inline(never)]
    fn find_without_slots<A>(self: &Arc<Self>, request: &Request<A>) -> Found<N, C>
    where
        N: Name<A>,
        C: 'static,
    {
        let mut name = String::new();
        if self.name.route(request).is_none() {
            self.name.write(request, &mut name);
        }
        self.look_up(request, None, &mut name)
    }

    /// Looks the name of a request up, which may be empty, and notes it in the slots.
    #[inline(never)]
    fn look_up<A>(
        self: &Arc<Self>,
        request: &Request<A>,
        slots: Option<&mut Slots>,
        name: &mut String,
    ) -> Found<N, C>
    where
        N: Name<A>,
        C: 'static,
    {
        let route = self.name.route(request);
        if route.is_some() {
            self.name.write(request, name);
        }
        if name.is_empty() {
            self.other()
        } else if let Some(resource) = self.registry.get(name) {
            if let Some(slots) = slots {
                let owner = route.and_then(|_| self.name.route_owner(request));
                let (method, route) = route.unwrap_or(("", name));
                let kept = owner.map_or(KeptRoute::NOTHING, |owner| KeptRoute::new(route, owner));
                slots.note(self.id, NameParts { method, route }, kept, &resource);
            }
            self.listed(resource)
        } else {
            self.list(name)
        }
    }

    /// Returns a resource that is listed by the name of the request.
    #[inline]
    fn listed(self: &Arc<Self>, resource: Resource<C>) -> Found<N, C> {
        let is_rare = !self.unconfirmed.is_empty();
        let unconfirmed = if is_rare { self.unconfirmed(&resource) } else { None };
        Found { resource, unconfirmed }
    }

    /// Lists a name, or returns the resource of all other requests: if there is no room for the
    /// name, or if it is invalid.
    #[cold]
    fn list(self: &Arc<Self>, name: &str) -> Found<N, C> {
        if self.is_outbound() {
            // The program chooses the names.
            let resource = self.registry.find_or_list(name, self.traffic);
            return resource
                .map_or_else(|| self.other(), |resource| Found { resource, unconfirmed: None });
        }
        match self.unconfirmed.list(&self.registry, name, self.traffic, Time::Request) {
            Listing::Listed(resource) => {
                Found { resource, unconfirmed: Some(Box::new(self.new_name(None))) }
            }
            Listing::Refused => self.other(),
            Listing::NoRoom => {
                self.count_refused_name();
                self.unlisted(name)
            }
            Listing::Denied => self.unlisted(name),
            Listing::Later => {
                let name = NewName { is_late: true, ..self.new_name(Some(name.into())) };
                Found { unconfirmed: Some(Box::new(name)), ..self.other() }
            }
        }
    }

    fn count_refused_name(&self) {
        // The empty name is invalid.
        let counted = self.registry.find_or_list("", self.traffic);
        debug_assert!(counted.is_none(), "the empty name is listed");
    }

    fn other(&self) -> Found<N, C> {
        Found { resource: self.other.clone(), unconfirmed: None }
    }

    /// Returns the resource of all other requests, for a name that a response may confirm.
    fn unlisted(self: &Arc<Self>, name: &str) -> Found<N, C> {
        Found { unconfirmed: Some(Box::new(self.new_name(Some(name.into())))), ..self.other() }
    }

    /// Returns the name of a listed resource, if it is unconfirmed.
    #[cold]
    fn unconfirmed(self: &Arc<Self>, resource: &Resource<C>) -> Option<Box<NewName<N, C>>> {
        unconfirmed::is_unconfirmed(resource).then(|| Box::new(self.new_name(None)))
    }

    fn new_name(self: &Arc<Self>, unlisted: Option<Box<str>>) -> NewName<N, C> {
        NewName { resources: Arc::clone(self), unlisted, is_late: false }
    }
}

impl<N, C: Clock + Clone> NewName<N, C> {
    /// Confirms the name if the head of the response shows that its target exists, and denies it if
    /// the target does not have the method. Returns the name if the trailers can show that.
    /// `recorded` is the resource of the request, and `end` how the request ends.
    #[cold]
    pub(crate) fn learn<A>(
        self,
        recorded: &Resource<C>,
        head: &Parts,
        end: End,
    ) -> Option<Unconfirmed<C>>
    where
        N: Name<A>,
    {
        let Self { resources, unlisted, is_late } = self;
        let confirms = resources.name.confirms(head);
        if !confirms && head.status != StatusCode::METHOD_NOT_ALLOWED {
            if let Some(name) = unlisted.filter(|_| is_late) {
                let Resources { registry, traffic, unconfirmed, .. } = &*resources;
                let listing = unconfirmed.list(registry, &name, *traffic, Time::Response);
                if matches!(listing, Listing::NoRoom) {
                    resources.count_refused_name();
                }
            }
            return None;
        }
        let registry = Arc::clone(&resources.registry);
        let names = Arc::clone(&resources.unconfirmed);
        let unconfirmed = Unconfirmed { registry, names, unlisted };
        if !confirms {
            unconfirmed.deny(recorded);
            return None;
        }
        match unconfirmed::evidence(head, end) {
            Evidence::Confirms => unconfirmed.confirm(recorded),
            Evidence::InTrailers => return Some(unconfirmed),
            Evidence::Nothing => {}
        }
        None
    }
}
