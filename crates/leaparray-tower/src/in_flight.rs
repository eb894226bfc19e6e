//! A request between its entry and its end.

use http::HeaderMap;
use leaparray::{Clock, Entry, OnDrop, Outcome, Permit, Resource};

use crate::class::Classify;

/// The entry of a request, with the permit of its limiter, if there was one.
pub(crate) type Admitted<C, P> = Entry<Resource<C>, C, Option<P>>;

/// A request in flight. If it is dropped, it ends as its policy says; or as an exception, if a poll
/// has panicked.
pub(crate) struct InFlight<K, C: Clock + Clone, P: Permit> {
    /// `None` once the request has ended.
    entry: Option<Admitted<C, P>>,
    pub(crate) classify: K,
    /// Whether a poll has begun and not returned. If a caller catches the panic of a poll, the
    /// entry is dropped after the unwinding has ended, and cannot detect the panic.
    is_polled: bool,
}

impl<K, C: Clock + Clone, P: Permit> InFlight<K, C, P> {
    pub(crate) fn new(entry: Admitted<C, P>, classify: K, on_drop: OnDrop) -> Self {
        Self { entry: Some(entry.on_drop(on_drop)), classify, is_polled: false }
    }

    pub(crate) fn set_on_drop(&mut self, policy: OnDrop) {
        self.entry = self.entry.take().map(|entry| entry.on_drop(policy));
    }

    /// Calls `poll`, which may panic.
    pub(crate) fn watch<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        self.is_polled = true;
        let result = poll();
        self.is_polled = false;
        result
    }

    /// Returns whether the request has not ended, and no poll has panicked.
    pub(crate) const fn is_open(&self) -> bool {
        self.entry.is_some() && !self.is_polled
    }

    /// Returns the entry; `None` if the request has ended.
    pub(crate) const fn entry(&self) -> Option<&Admitted<C, P>> {
        self.entry.as_ref()
    }

    /// Ends the request, unless it has ended.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        if let Some(entry) = self.entry.take() {
            entry.end_with(outcome);
        }
    }

    /// Ends a request that ends with its trailers, or without them.
    pub(crate) fn end_with_trailers<E>(&mut self, trailers: Option<&HeaderMap>)
    where
        K: Classify<E>,
    {
        if self.entry.is_some() {
            self.end(self.classify.trailers(trailers));
        }
    }
}

impl<K, C: Clock + Clone, P: Permit> Drop for InFlight<K, C, P> {
    fn drop(&mut self) {
        if self.is_polled {
            self.end(Outcome::Exception);
        }
    }
}
