//! A request between its entry and its end.

use std::time::Duration;

use http::{Method, Request};
use leaparray::node::OnDrop;
use leaparray::{Clock, Entry, Outcome, Permit, Resource, Timestamp};

use crate::deadline::Deadlines;
use crate::ending::{Choices, Ending, RareRest, Until};
use crate::upload::{self, Upload};

/// The entry of a request, with the permit of its limiter, if there was one.
pub(crate) type Admitted<C, P> = Entry<Resource<C>, C, Option<P>>;

/// A request in flight, and after its end. If it is dropped, it ends as its policy says; or as an
/// exception, if a poll has panicked or the request is overdue.
pub(crate) struct InFlight<K, C: Clock + Clone, P: Permit> {
    /// The entry stays here when the request ends, since a move of it takes as long as its end.
    entry: Admitted<C, P>,
    pub(crate) classify: K,
    pub(crate) ending: Ending,
    /// `None` for most requests.
    rare: Option<Box<Rare<C>>>,
}

/// The parts that few requests have.
pub(crate) struct Rare<C> {
    limits: Option<RequestLimits>,
    rest: Option<RareRest<C>>,
}

/// The deadline and the upload of a request, which can make it an exception or a cancellation
/// whatever its response is.
struct RequestLimits {
    /// The time from which the request is overdue, now and after the head of its response.
    overdue: Timestamp,
    overdue_of_body: Timestamp,
    upload: Upload,
}

impl<K, C: Clock + Clone, P: Permit> InFlight<K, C, P> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, it moves the entry")]
    pub(crate) fn new(
        entry: Admitted<C, P>,
        classify: K,
        on_drop: OnDrop,
        choices: Choices,
        rare: Option<Box<Rare<C>>>,
    ) -> Self {
        Self { entry: entry.on_drop(on_drop), classify, ending: Ending::at_head(choices), rare }
    }

    /// Sets the limits: from its deadline on, a drop or a cancellation is an exception.
    pub(crate) fn set_limits(&mut self, limits: Option<Box<Rare<C>>>) {
        self.rare = limits;
    }

    fn limits(&self) -> Option<&RequestLimits> {
        self.rare.as_ref()?.limits.as_ref()
    }

    /// Keeps the rare parts of a response until its end.
    #[cold]
    pub(crate) fn set_rest(&mut self, rest: RareRest<C>) {
        match &mut self.rare {
            Some(rare) => rare.rest = Some(rest),
            None => self.rare = Some(Box::new(Rare { limits: None, rest: Some(rest) })),
        }
    }

    pub(crate) fn take_rest(&mut self) -> Option<RareRest<C>> {
        self.rare.as_mut()?.rest.take()
    }

    /// Notes that a poll has returned the head of the response: the request ends with the last of
    /// these bytes, if their number is known, or with the end of the body. The deadline of the body
    /// applies.
    #[inline]
    pub(crate) fn begin_body(&mut self, outcome: Outcome, bytes: Option<u64>) {
        self.ending.begin_body(outcome, bytes);
        self.begin_rest();
    }

    /// Notes that a poll has returned the head of the response: the request ends with the trailers.
    pub(crate) fn begin_trailers(&mut self) {
        self.ending.until = Until::Trailers;
        self.begin_rest();
    }

    #[inline]
    fn begin_rest(&mut self) {
        self.end_poll();
        if let Some(rare) = &mut self.rare
            && let Some(limits) = &mut rare.limits
        {
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
        if self.ending.is_polled || self.is_overdue() {
            self.entry.end_in_place(outcome);
        } else {
            self.entry.end_as_dropped();
        }
    }

    /// Ends the request, which is dropped, unless its policy decides.
    #[cold]
    fn end_dropped(&mut self) {
        if self.ending.is_polled || self.is_overdue() {
            self.end_rarely(Outcome::Exception);
        }
    }

    /// Returns whether the request has not ended and is overdue. Reads the clock only if there is a
    /// deadline.
    fn is_overdue(&self) -> bool {
        let overdue = self.limits().map_or(Timestamp::MAX, |limits| limits.overdue);
        overdue != Timestamp::MAX
            && self.entry().is_some_and(|entry| entry.node().clock().now() >= overdue)
    }

    pub(crate) fn set_on_drop(&mut self, policy: OnDrop) {
        self.entry.set_on_drop(policy);
    }

    /// Notes that a poll begins, which may panic.
    #[inline]
    pub(crate) const fn begin_poll(&mut self) {
        self.ending.is_polled = true;
    }

    /// Notes that a poll has not panicked.
    #[inline]
    pub(crate) const fn end_poll(&mut self) {
        self.ending.is_polled = false;
    }

    /// Returns whether the request has not ended, and no poll has panicked.
    pub(crate) const fn is_open(&self) -> bool {
        !self.entry.has_ended() && !self.ending.is_polled
    }

    /// Returns whether the request has ended.
    pub(crate) const fn has_ended(&self) -> bool {
        self.entry.has_ended()
    }

    /// Returns the entry; `None` if the request has ended.
    pub(crate) const fn entry(&self) -> Option<&Admitted<C, P>> {
        if self.entry.has_ended() { None } else { Some(&self.entry) }
    }

    /// Ends the request, unless it has ended. A cancellation is an exception if the request is
    /// overdue: a server or a client that gives up at the deadline says `CANCELLED` too. If the
    /// client has broken its upload off, the request ends as with a drop, whatever the response is,
    /// unless a poll has panicked.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the usual end is shorter with a known outcome")]
    pub(crate) fn end(&mut self, outcome: Outcome) {
        if outcome == Outcome::Success && self.rare.is_none() {
            self.entry.end_in_place(Outcome::Success);
        } else {
            self.end_rarely(outcome);
        }
    }

    /// Like [`end`](Self::end), for any outcome and any request.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_rarely(&mut self, mut outcome: Outcome) {
        if outcome == Outcome::Cancelled {
            outcome = self.cancelled();
        }
        if self.limits().is_some_and(|limits| limits.upload.is_broken_off()) {
            self.end_left(outcome);
        } else {
            self.entry.end_in_place(outcome);
        }
    }
}

impl<C> Rare<C> {
    /// Returns the limits of a request that enters at `now`, if it has any: a deadline, since it is
    /// a call of gRPC or a time-out of `around` is outside of the layer, or an upload.
    #[inline]
    pub(crate) fn limits<A: 'static>(
        request: &mut Request<A>,
        is_outbound: bool,
        around: Option<Duration>,
        now: Timestamp,
    ) -> Option<Box<Self>> {
        // All calls of gRPC are posted.
        if request.method() != Method::POST && around.is_none() && !upload::is_begun(request.body())
        {
            return None;
        }
        Self::limits_if_any(request, is_outbound, around, now)
    }

    #[inline(never)]
    fn limits_if_any<A: 'static>(
        request: &mut Request<A>,
        is_outbound: bool,
        around: Option<Duration>,
        now: Timestamp,
    ) -> Option<Box<Self>> {
        let deadlines = Deadlines::of(request, is_outbound, around, now);
        let upload = upload::watch(request.body_mut());
        // The deadline of the head is not after the one of the body.
        if deadlines.of_head == Timestamp::MAX && !upload.is_watched() {
            return None;
        }
        let Deadlines { of_head, of_body } = deadlines;
        let limits = RequestLimits { overdue: of_head, overdue_of_body: of_body, upload };
        Some(Box::new(Self { limits: Some(limits), rest: None }))
    }
}

impl<K, C: Clock + Clone, P: Permit> Drop for InFlight<K, C, P> {
    fn drop(&mut self) {
        if !self.entry.has_ended() {
            self.end_dropped();
        }
    }
}
