//! The names that no response has confirmed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use http::response::Parts;
use leaparray::{Clock, MetricEvent, Outcome, Registry, Resource, TrafficType};

use crate::class::End;
use crate::grpc::{self, Code};

/// How many unconfirmed names are listed at a time, unless that is more than half of the registry.
const MAX_NAMES: usize = 100;

/// How many denied names are known.
const MAX_DENIED: usize = 100;

/// How many names of a full list are examined for one that has left the registry.
const MAX_EXAMINED: usize = 8;

/// The unconfirmed names of a registry, in an order that changes.
///
/// A client can invent names, and it can be refused by anything: by the limiter, by the service, by
/// a layer in front of the routes, or by its own departure. So a name is *confirmed* by the first
/// response which shows that its target exists, to any request with this name. The number of
/// unconfirmed names is bounded. A name beyond the bound is not listed before it is confirmed.
///
/// A name is *denied* by a response with the status 405: the target has no such method. If all
/// requests of an unconfirmed resource are answered so, it is removed, and further requests with
/// its name are recorded in the resource of all other requests until a response confirms the name.
/// A removed resource has a series in the exporters for as long as the registry keeps it, so the
/// number of denied names is bounded too, and none is forgotten for another one. Once it is
/// reached, a name is listed no more by its first request, but by its first response, unless that
/// has the status 405.
///
/// No other listed name is removed here. A client could otherwise invent names until the resource
/// of another name is removed with its limiter or breaker, whose state would be lost. That of a
/// denied name knows of no other requests. The program may remove or evict resources, which makes
/// room.
///
/// The layers over one registry share the names.
#[derive(Default)]
pub(crate) struct UnconfirmedNames {
    names: Mutex<Names>,
    /// The number of unconfirmed names. Changed under the lock.
    len: AtomicUsize,
}

#[derive(Default)]
struct Names {
    unconfirmed: VecDeque<Box<str>>,
    denied: Vec<Box<str>>,
}

/// The mark of a resource that was listed without a confirmation.
#[derive(Default)]
struct Mark {
    /// Whether it is confirmed since.
    is_confirmed: AtomicBool,
    /// How many of its requests were answered with the status 405.
    denied: AtomicU64,
}

/// Returns whether a resource is unconfirmed.
pub(crate) fn is_unconfirmed<C>(resource: &Resource<C>) -> bool {
    // Relaxed, as all accesses: the state orders nothing.
    resource.data().is_some_and(|mark: &Mark| !mark.is_confirmed.load(Ordering::Relaxed))
}

/// The result of [`UnconfirmedNames::list`].
pub(crate) enum Listing<C> {
    Listed(Resource<C>),
    /// The registry refuses the name.
    Refused,
    /// There are too many unconfirmed names.
    NoRoom,
    /// The name is denied.
    Denied,
    /// The name may be denied, and there are too many denied names. Its response can list it.
    Later,
}

/// Whether a request lists a name before or after it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    Request,
    /// With another status than 405.
    Response,
}

impl UnconfirmedNames {
    /// Returns the names of the registry in which `other` is the resource of all other requests.
    pub(crate) fn shared<C>(other: &Resource<C>) -> Arc<Self> {
        Arc::clone(other.data_or_insert_with(Arc::<Self>::default))
    }

    /// Returns whether there is no unconfirmed name, as usual.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Lists a name without a confirmation, if there is room.
    pub(crate) fn list<C: Clock + Clone>(
        &self,
        registry: &Registry<C>,
        name: &str,
        traffic: TrafficType,
        time: Time,
    ) -> Listing<C> {
        let max = MAX_NAMES.min(registry.max_resources() / 2);
        // The lock is held until the name is listed: otherwise, the names of several threads could
        // get the last room.
        self.update(|names| {
            // Another request may have listed it before this one had the lock. It is marked then,
            // or was listed by the program.
            if let Some(resource) = registry.get(name) {
                return Listing::Listed(resource);
            }
            if names.denied.iter().any(|it| **it == *name) {
                return Listing::Denied;
            }
            if time == Time::Request && names.denied.len() >= MAX_DENIED {
                return Listing::Later;
            }
            let names = &mut names.unconfirmed;
            if names.len() >= max {
                forget_delisted(names, registry);
            }
            // A full registry refuses the name, and counts that.
            if names.len() >= max && registry.len() < registry.max_resources() {
                return Listing::NoRoom;
            }
            let Some(resource) = registry.find_or_list(name, traffic) else {
                return Listing::Refused;
            };
            // A request of another layer, which lists names without this lock, finds the mark.
            resource.data_or_insert_with(|| {
                // It is there already if an earlier resource with this name was removed.
                if !names.iter().any(|it| **it == *name) {
                    names.push_back(name.into());
                }
                Mark::default()
            });
            Listing::Listed(resource)
        })
    }

    /// Confirms a resource, if it is unconfirmed.
    fn confirm<C>(&self, resource: &Resource<C>) {
        if let Some(mark) = resource.data::<Mark>()
            && !mark.is_confirmed.swap(true, Ordering::Relaxed)
        {
            self.update(|names| names.forget(resource.name()));
        }
    }

    /// Denies a resource, and removes it if it is unconfirmed and has had no other requests.
    fn deny<C: Clock + Clone>(&self, registry: &Registry<C>, resource: &Resource<C>) {
        let Some(mark) = resource.data::<Mark>() else { return };
        mark.denied.fetch_add(1, Ordering::Relaxed);
        self.update(|names| {
            let totals = resource.lifetime();
            let requests = totals.sum(MetricEvent::Pass) + totals.sum(MetricEvent::Block);
            // A request that begins beside this one is recorded in the removed resource, whose
            // counts stay in its series.
            let is_denied = mark.denied.load(Ordering::Relaxed) == requests;
            let has_room = names.denied.len() < MAX_DENIED;
            if is_denied
                && has_room
                && is_unconfirmed(resource)
                && registry.remove_resource(resource)
            {
                names.forget(resource.name());
                names.denied.push(resource.name().into());
            }
        });
    }

    fn update<T>(&self, change: impl FnOnce(&mut Names) -> T) -> T {
        // A name more or less after a panic changes only for how many others there is room.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut names);
        self.len.store(names.unconfirmed.len(), Ordering::Relaxed);
        result
    }
}

impl Names {
    /// Forgets a name, which is then neither unconfirmed nor denied.
    fn forget(&mut self, name: &str) {
        self.unconfirmed.retain(|it| **it != *name);
        self.denied.retain(|it| **it != *name);
    }
}

/// Examines the first names, and removes those whose resources the program has removed or evicted.
fn forget_delisted<C: Clock + Clone>(names: &mut VecDeque<Box<str>>, registry: &Registry<C>) {
    for _ in 0..MAX_EXAMINED {
        let Some(name) = names.pop_front() else { return };
        if registry.get(&name).is_some_and(|resource| is_unconfirmed(&resource)) {
            names.push_back(name);
        }
    }
}

/// A request whose name is unconfirmed, and may be confirmed by its response.
pub(crate) struct Unconfirmed<C> {
    pub(crate) registry: Arc<Registry<C>>,
    pub(crate) names: Arc<UnconfirmedNames>,
    /// The name, if there was no room to list it. The request is then recorded in the resource of
    /// all other requests.
    pub(crate) unlisted: Option<Box<str>>,
}

/// Whether a response confirms the name of its request.
pub(crate) enum Evidence {
    Confirms,
    /// If the trailers have the status `OK` of gRPC.
    InTrailers,
    Nothing,
}

/// Returns the evidence of the head of a response that, but for the status of gRPC, confirms a
/// name. `end` is how its request ends.
pub(crate) fn evidence(head: &Parts, end: End) -> Evidence {
    match grpc::code(&head.headers) {
        Some(Code::OK) => Evidence::Confirms,
        Some(_) => Evidence::Nothing,
        None if !grpc::is_grpc(&head.headers) => Evidence::Confirms,
        None => match end {
            End::AtTrailers => Evidence::InTrailers,
            // The trailers are not read.
            End::AtHead(outcome) | End::AtHeadOfStream(outcome) | End::AtBody(outcome)
                if outcome == Outcome::Success =>
            {
                Evidence::Confirms
            }
            _ => Evidence::Nothing,
        },
    }
}

impl<C: Clock + Clone> Unconfirmed<C> {
    /// Confirms the name, if the trailers of a response of gRPC show that its target exists.
    #[cold]
    pub(crate) fn learn(self, recorded: &Resource<C>, trailers: &HeaderMap) {
        if grpc::code(trailers) == Some(Code::OK) {
            self.confirm(recorded);
        }
    }

    /// Denies the name: the target has no such method. `recorded` is the resource of the request.
    #[cold]
    pub(crate) fn deny(&self, recorded: &Resource<C>) {
        if self.unlisted.is_none() {
            self.names.deny(&self.registry, recorded);
        }
    }

    /// Confirms the name. `recorded` is the resource of the request.
    pub(crate) fn confirm(self, recorded: &Resource<C>) {
        match self.unlisted {
            None => self.names.confirm(recorded),
            // If another request has listed it since, it has a mark.
            Some(name) => {
                self.names.update(|names| names.forget(&name));
                if let Some(resource) = self.registry.find_or_list(&name, recorded.traffic_type()) {
                    self.names.confirm(&resource);
                }
            }
        }
    }
}
