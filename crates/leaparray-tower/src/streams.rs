//! The number of streams that are open after their requests have ended.

use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::Resource;

/// The number of open streams of a resource. It lives with the resource.
#[derive(Default)]
struct Streams(AtomicU64);

/// Returns the number of responses of a resource that are open streams: their requests have ended
/// with the head of the response, and their bodies have not ended. By default, these are
/// server-sent events.
///
/// A stream does not count as a request in flight, and its time is no response time. Changes of
/// protocols, as to a WebSocket, are not counted: their connections leave the service.
///
/// ```
/// use leaparray::Registry;
///
/// let registry = Registry::new();
/// assert_eq!(leaparray_tower::open_streams(&registry.resource("GET /events")?), 0);
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
#[must_use]
pub fn open_streams<C>(resource: &Resource<C>) -> u64 {
    // Relaxed, as all accesses: a count that orders nothing.
    resource.data::<Streams>().map_or(0, |streams| streams.0.load(Ordering::Relaxed))
}

/// A stream, which is open until this is dropped.
pub(crate) struct OpenStream<C>(Resource<C>);

impl<C> OpenStream<C> {
    pub(crate) fn new(resource: Resource<C>) -> Self {
        resource.data_or_insert_with(Streams::default).0.fetch_add(1, Ordering::Relaxed);
        Self(resource)
    }
}

impl<C> Drop for OpenStream<C> {
    fn drop(&mut self) {
        self.0.data_or_insert_with(Streams::default).0.fetch_sub(1, Ordering::Relaxed);
    }
}
