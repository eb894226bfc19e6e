//! The parts of a request that its response needs, and how the head of the response ends it or says
//! when it ends.

use http::response::Parts;
use http_body::Body;
use leaparray::flow::Quota;
use leaparray::node::{OnDrop, ResponseClass};
use leaparray::{Clock, Permit, Resource, Timestamp};

use crate::body::{RequestKind, announced_bytes, has_ended};
use crate::class::{Classify, End};
use crate::ending::{Ending, RareRest};
use crate::first_byte::FirstByte;
use crate::in_flight::InFlight;
use crate::name::Name;
use crate::refusal::headers;
use crate::resources::NewName;
use crate::streams::OpenStream;
use crate::unconfirmed::Unconfirmed;

/// The parts of a request that its response needs.
pub(crate) struct ResponseContext<N, C> {
    pub(crate) kind: RequestKind,
    pub(crate) first_byte: bool,
    /// The policy once the request has reached the service.
    pub(crate) on_drop: OnDrop,
    /// Whether the caller is a client, and the service a backend.
    pub(crate) is_outbound: bool,
    /// In a box: most requests need none of it.
    pub(crate) rare: Option<Box<RareContext<N, C>>>,
}

/// The parts of a request that few responses need.
pub(crate) struct RareContext<N, C> {
    /// The name of this request, if it is unconfirmed.
    unconfirmed: Option<Box<NewName<N, C>>>,
    /// The time of the decision and the state of the limits then, for the headers of the response.
    /// `None` if the layer adds none.
    quotas: Option<(Timestamp, Vec<Quota>)>,
}

impl<N, C> RareContext<N, C> {
    /// Returns the rare parts of a request, if it has any.
    #[inline]
    pub(crate) fn new(
        unconfirmed: Option<Box<NewName<N, C>>>,
        quotas: Option<(Timestamp, Vec<Quota>)>,
    ) -> Option<Box<Self>> {
        match (unconfirmed, quotas) {
            (None, None) => None,
            (unconfirmed, quotas) => Some(Self::boxed(unconfirmed, quotas)),
        }
    }

    #[cold]
    fn boxed(
        unconfirmed: Option<Box<NewName<N, C>>>,
        quotas: Option<(Timestamp, Vec<Quota>)>,
    ) -> Box<Self> {
        Box::new(Self { unconfirmed, quotas })
    }
}

impl<N, C: Clock + Clone + Send + Sync + 'static> ResponseContext<N, C> {
    /// Notes the head of a response. Ends the request if it ends here, and otherwise returns when.
    /// Ends the poll of the future, so a panic of the classification counts as one of the poll.
    ///
    /// Out of line, and by references: so the head, the body and the request stay where they are,
    /// until they are moved into the response to the caller.
    #[inline(never)]
    pub(crate) fn begin_body<A, E, K, P>(
        &mut self,
        head: &mut Parts,
        body: &impl Body,
        request: &mut InFlight<K, C, P>,
    ) -> Ending<C>
    where
        N: Name<A>,
        K: Classify<E>,
        P: Permit,
    {
        let Some(rare) = self.rare.take() else {
            return self.begin_body_with::<E, K, P>(head, body, request, |_, _, _| None);
        };
        self.begin_body_rarely::<A, E, K, P>(head, body, request, *rare)
    }

    /// Like [`begin_body`](Self::begin_body), for a request whose response confirms a name or tells
    /// the state of the limits. Out of line, so that the function for most requests takes few
    /// registers.
    #[cold]
    #[inline(never)]
    fn begin_body_rarely<A, E, K, P>(
        &self,
        head: &mut Parts,
        body: &impl Body,
        request: &mut InFlight<K, C, P>,
        rare: RareContext<N, C>,
    ) -> Ending<C>
    where
        N: Name<A>,
        K: Classify<E>,
        P: Permit,
    {
        let RareContext { unconfirmed, quotas } = rare;
        if let Some((decided, quotas)) = &quotas {
            let now = request.entry().map_or(*decided, |entry| entry.node().clock().now());
            headers::add_quotas(&mut head.headers, quotas, now, None);
        }
        self.begin_body_with::<E, K, P>(head, body, request, |resource, head, end| {
            unconfirmed?.learn(resource, head, end)
        })
    }

    /// Calls `learn` with the resource, the head and the end of the request, for the name that the
    /// trailers may confirm.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most requests have no name to learn")]
    fn begin_body_with<E, K, P>(
        &self,
        head: &Parts,
        body: &impl Body,
        request: &mut InFlight<K, C, P>,
        learn: impl FnOnce(&Resource<C>, &Parts, End) -> Option<Unconfirmed<C>>,
    ) -> Ending<C>
    where
        K: Classify<E>,
        P: Permit,
    {
        if let Some(entry) = request.entry() {
            let class = ResponseClass::of_status(head.status.as_u16());
            entry.node().count_response(class);
            if self.first_byte {
                FirstByte::record(entry.node(), entry.started());
            }
        }
        let end = request.classify.head(head);
        let unconfirmed = request.entry().and_then(|entry| learn(entry.node(), head, end));
        let outcome = match end {
            End::AtBody(outcome) => match announced_bytes(self.kind, head, body) {
                Some(0) => outcome,
                bytes => {
                    request.begin_body();
                    return Ending::at_end(outcome, bytes, self.is_outbound);
                }
            },
            End::AtHead(outcome) => outcome,
            End::AtHeadOfStream(outcome) => {
                let is_empty = announced_bytes(self.kind, head, body) == Some(0);
                let entry = request.entry().filter(|_| !is_empty);
                let stream = entry.map(|entry| OpenStream::new(entry.node().clone()));
                request.end_poll();
                request.end(outcome);
                return match stream {
                    Some(stream) => Ending::AT_HEAD.with_rare(RareRest::Stream { _open: stream }),
                    None => Ending::AT_HEAD,
                };
            }
            End::AtTrailers if has_ended(self.kind, head, body) => request.classify.trailers(None),
            End::AtTrailers => {
                request.begin_body();
                return match unconfirmed {
                    Some(name) => Ending::AT_TRAILERS.with_rare(RareRest::Name(name)),
                    None => Ending::AT_TRAILERS,
                };
            }
        };
        request.end_poll();
        request.end(outcome);
        Ending::AT_HEAD
    }
}
