//! A request between its entry and its end.

use http::HeaderMap;
use leaparray::node::OnDrop;
use leaparray::{Clock, Entry, Outcome, Permit, Resource, Timestamp};

use crate::class::Classify;
use crate::deadline::Deadlines;
use crate::upload::Upload;

/// The entry of a request, with the permit of its limiter, if there was one.
pub(crate) type Admitted<C, P> = Entry<Resource<C>, C, Option<P>>;

/// A request in flight. If it is dropped, it ends as its policy says; or as an exception, if a poll
/// has panicked or the request is overdue.
pub(crate) struct InFlight<K, C: Clock + Clone, P: Permit> {
    /// `None` once the request has ended.
    entry: Option<Admitted<C, P>>,
    pub(crate) classify: K,
    /// Whether a poll has begun and not returned. If a caller catches the panic of a poll, the
    /// entry is dropped after the unwinding has ended, and cannot detect the panic.
    is_polled: bool,
    /// `None` for most requests: they have neither a deadline nor an upload.
    limits: Option<Box<RequestLimits>>,
}

/// The deadline and the upload of a request, which can make it an exception or a cancellation
/// whatever its response is.
pub(crate) struct RequestLimits {
    /// The time from which the request is overdue, now and after the head of its response.
    overdue: Timestamp,
    overdue_of_body: Timestamp,
    upload: Upload,
}

impl RequestLimits {
    /// Returns the limits of a request, if it has any.
    #[inline]
    pub(crate) fn new(deadlines: Deadlines, upload: Upload) -> Option<Box<Self>> {
        // The deadline of the head is not after the one of the body.
        if deadlines.of_head == Timestamp::MAX && !upload.is_watched() {
            return None;
        }
        Some(Self::boxed(deadlines, upload))
    }

    #[cold]
    fn boxed(deadlines: Deadlines, upload: Upload) -> Box<Self> {
        let Deadlines { of_head, of_body } = deadlines;
        Box::new(Self { overdue: of_head, overdue_of_body: of_body, upload })
    }
}

impl<K, C: Clock + Clone, P: Permit> InFlight<K, C, P> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, it moves the entry")]
    pub(crate) fn new(
        entry: Admitted<C, P>,
        classify: K,
        on_drop: OnDrop,
        limits: Option<Box<RequestLimits>>,
    ) -> Self {
        Self { entry: Some(entry.on_drop(on_drop)), classify, is_polled: false, limits }
    }

    /// Sets the limits: from its deadline on, a drop or a cancellation is an exception.
    pub(crate) fn set_limits(&mut self, limits: Option<Box<RequestLimits>>) {
        self.limits = limits;
    }

    /// Notes that the head of the response has arrived: the deadline of the body applies.
    #[inline]
    pub(crate) fn begin_body(&mut self) {
        if let Some(limits) = &mut self.limits {
            limits.overdue = limits.overdue_of_body;
        }
    }

    /// Returns the outcome of a cancellation. Out of line, since a cancellation is rare.
    #[cold]
    fn cancelled(&self) -> Outcome {
        if self.is_overdue() { Outcome::Exception } else { Outcome::Cancelled }
    }

    /// Ends the request, whose client has broken its upload off.
    #[cold]
    fn end_left(&mut self, outcome: Outcome) {
        let is_exception = self.is_polled || self.is_overdue();
        match self.entry.take() {
            Some(entry) if is_exception => entry.end_with(outcome),
            // Ended by the drop, as the policy says.
            _ => {}
        }
    }

    /// Ends the request, which is dropped, unless its policy decides.
    #[cold]
    fn end_dropped(&mut self) {
        if self.is_polled || self.is_overdue() {
            self.end(Outcome::Exception);
        }
    }

    /// Returns whether the request has not ended and is overdue. Reads the clock only if there is a
    /// deadline.
    fn is_overdue(&self) -> bool {
        let overdue = self.limits.as_ref().map_or(Timestamp::MAX, |limits| limits.overdue);
        let entry = self.entry.as_ref().filter(|_| overdue != Timestamp::MAX);
        entry.is_some_and(|entry| entry.node().clock().now() >= overdue)
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

    /// Ends the request, unless it has ended. A cancellation is an exception if the request is
    /// overdue: a server or a client that gives up at the deadline says `CANCELLED` too. If the
    /// client has broken its upload off, the request ends as with a drop, whatever the response is,
    /// unless a poll has panicked.
    #[inline]
    pub(crate) fn end(&mut self, mut outcome: Outcome) {
        if outcome == Outcome::Cancelled {
            outcome = self.cancelled();
        }
        if self.limits.as_ref().is_some_and(|limits| limits.upload.is_broken_off()) {
            self.end_left(outcome);
        } else if let Some(entry) = self.entry.take() {
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
        if self.entry.is_some() {
            self.end_dropped();
        }
    }
}
