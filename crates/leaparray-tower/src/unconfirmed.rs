//! The names that no response has confirmed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::response::Parts;
use leaparray::{Clock, MetricEvent, Registry, Resource};

use crate::grpc;

/// How many names without a confirmation a layer lists at a time.
const MAX_NAMES: usize = 100;

/// How many names are examined for one that can be removed.
const MAX_EXAMINED: usize = 8;

/// The names that a layer has listed and that no response has confirmed, the oldest first.
///
/// A client can invent names, and it can be refused by anything: by the limiter, by the service, by
/// a layer in front of the routes, or by its own departure. So a name is confirmed only if the
/// response to the request that listed it shows that its target exists. Of the names without a
/// confirmation, the layer lists a limited number, and removes the oldest one that has no request
/// in flight for a new one. It is listed again by its next request.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed(Mutex<VecDeque<Box<str>>>);

/// Whether a name is confirmed. It lives with the resource.
#[derive(Default)]
struct Confirmation(AtomicU8);

impl Confirmation {
    const NONE: u8 = 0;
    /// By the first success: the head of the response does not have the status of gRPC.
    const BY_SUCCESS: u8 = 1;
    const CONFIRMED: u8 = 2;

    /// Returns the confirmation of a resource by the head of a response to it.
    fn by_head(head: &Parts) -> u8 {
        if head.status.is_client_error() || head.status.is_server_error() {
            return Self::NONE;
        }
        match grpc::code(&head.headers) {
            Some(code) if code.number() == 0 => Self::CONFIRMED,
            Some(_) => Self::NONE,
            None if grpc::is_grpc(&head.headers) => Self::BY_SUCCESS,
            None => Self::CONFIRMED,
        }
    }

    fn is_confirmed<C: Clock + Clone>(&self, resource: &Resource<C>) -> bool {
        // Relaxed, as all accesses: the state orders nothing.
        match self.0.load(Ordering::Relaxed) {
            Self::NONE => false,
            Self::BY_SUCCESS => resource.lifetime().sum(MetricEvent::Success) > 0,
            _ => true,
        }
    }
}

impl Unconfirmed {
    /// Returns whether a further name can be listed, after the removal of one if there are too
    /// many.
    pub(crate) fn has_room<C: Clock + Clone>(&self, registry: &Registry<C>) -> bool {
        self.len() < MAX_NAMES || self.remove_one(registry) || self.len() < MAX_NAMES
    }

    /// Adds a name that was just listed.
    pub(crate) fn add<C>(&self, resource: &Resource<C>) {
        resource.data_or_insert_with(Confirmation::default);
        self.names().push_back(resource.name().into());
    }

    /// Notes the head of the response to the request that listed a resource.
    pub(crate) fn confirm<C>(resource: &Resource<C>, head: &Parts) {
        if let Some(confirmation) = resource.data::<Confirmation>() {
            confirmation.0.store(Confirmation::by_head(head), Ordering::Relaxed);
        }
    }

    /// Forgets a name whose resource was removed.
    pub(crate) fn forget(&self, name: &str) {
        self.names().retain(|it| **it != *name);
    }

    /// Removes the oldest resource without a confirmation and without a request in flight, if there
    /// is one among the first names. Returns whether it did.
    pub(crate) fn remove_one<C: Clock + Clone>(&self, registry: &Registry<C>) -> bool {
        // Removed without the lock: the drop of a limiter that lives with the resource is the code
        // of others.
        let idle = self.take_idle(registry);
        idle.is_some_and(|resource| registry.remove_resource(&resource))
    }

    fn take_idle<C: Clock + Clone>(&self, registry: &Registry<C>) -> Option<Resource<C>> {
        let mut names = self.names();
        for _ in 0..MAX_EXAMINED {
            let name = names.pop_front()?;
            // Removed by someone else, and perhaps listed again without this layer.
            let Some(resource) = registry.get(&name) else { continue };
            let Some(confirmation) = resource.data::<Confirmation>() else { continue };
            if confirmation.is_confirmed(&resource) {
                continue;
            }
            if resource.concurrency() == 0 {
                return Some(resource);
            }
            names.push_back(name);
        }
        None
    }

    fn len(&self) -> usize {
        self.names().len()
    }

    fn names(&self) -> MutexGuard<'_, VecDeque<Box<str>>> {
        // A name more or less after a panic changes only which one is removed next.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
