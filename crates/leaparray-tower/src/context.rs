//! The parts of a request that its response needs, and how the head of the response ends it or says
//! when it ends.

use http::response::Parts;
use http_body::Body;
use leaparray::flow::Quota;
use leaparray::node::{OnDrop, ResponseClass};
use leaparray::{Clock, Permit, Timestamp};

use crate::body::{RareRest, RequestKind, Until, announced_bytes, has_ended};
use crate::class::{Classify, End};
use crate::first_byte::FirstByte;
use crate::in_flight::InFlight;
use crate::name::Name;
use crate::refusal::headers;
use crate::resources::NewName;
use crate::streams::OpenStream;

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
    ) -> (Until, Option<Box<RareRest<C>>>)
    where
        N: Name<A>,
        K: Classify<E>,
        P: Permit,
    {
        let rare = self.rare.take();
        if let Some((decided, quotas)) = rare.as_deref().and_then(|rare| rare.quotas.as_ref()) {
            let now = request.entry().map_or(*decided, |entry| entry.node().clock().now());
            headers::add_quotas(&mut head.headers, quotas, now, None);
        }
        if let Some(entry) = request.entry() {
            let class = ResponseClass::of_status(head.status.as_u16());
            entry.node().count_response(class);
            if self.first_byte {
                FirstByte::record(entry.node(), entry.started());
            }
        }
        let end = request.classify.head(head);
        let unconfirmed = match (rare.and_then(|rare| rare.unconfirmed), request.entry()) {
            (Some(name), Some(entry)) => name.learn(entry.node(), head, end),
            _ => None,
        };
        let outcome = match end {
            End::AtHead(outcome) => outcome,
            End::AtHeadOfStream(outcome) | End::AtBody(outcome) => {
                match (announced_bytes(self.kind, head, body), end) {
                    (Some(0), _) => outcome,
                    (bytes, End::AtBody(_)) => {
                        request.begin_body();
                        return (Until::End { outcome, bytes }, None);
                    }
                    _ => {
                        let stream = request.entry().map(|it| OpenStream::new(it.node().clone()));
                        request.end_poll();
                        request.end(outcome);
                        return (
                            Until::Head,
                            stream.map(|it| Box::new(RareRest::Stream { _open: it })),
                        );
                    }
                }
            }
            End::AtTrailers if has_ended(self.kind, head, body) => request.classify.trailers(None),
            End::AtTrailers => {
                request.begin_body();
                return (Until::Trailers, unconfirmed.map(|name| Box::new(RareRest::Name(name))));
            }
        };
        request.end_poll();
        request.end(outcome);
        (Until::Head, None)
    }
}
