//! How the head of a response ends its request or says when it ends.

use http::response::Parts;
use http_body::Body;
use leaparray::flow::Quota;
use leaparray::node::ResponseClass;
use leaparray::{Clock, Outcome, Permit, Timestamp};

use crate::body::{announced_bytes, has_ended};
use crate::class::{Classify, End};
use crate::ending::RareRest;
use crate::first_byte::FirstByte;
use crate::in_flight::InFlight;
use crate::name::Name;
use crate::refusal::headers;
use crate::resources::NewName;
use crate::streams::OpenStream;
use crate::unconfirmed::Unconfirmed;

/// The parts of a request that few responses need.
pub(crate) struct RareContext<N, C> {
    /// The name of this request, if it is unconfirmed.
    unconfirmed: Option<Box<NewName<N, C>>>,
    /// `None` if the layer adds no headers to the response.
    quotas: Option<Box<Quotas>>,
}

/// The time of a decision and the state of the limits then, for the headers of the response.
pub(crate) struct Quotas {
    decided: Timestamp,
    quotas: Vec<Quota>,
}

impl Quotas {
    /// Returns nothing if there are no quotas.
    pub(crate) fn new(decided: Timestamp, quotas: Vec<Quota>) -> Option<Box<Self>> {
        (!quotas.is_empty()).then(|| Box::new(Self { decided, quotas }))
    }
}

impl<N, C> RareContext<N, C> {
    /// Returns the rare parts of a request, if it has any.
    #[inline]
    pub(crate) fn new(
        unconfirmed: Option<Box<NewName<N, C>>>,
        quotas: Option<Box<Quotas>>,
    ) -> Option<Box<Self>> {
        match (unconfirmed, quotas) {
            (None, None) => None,
            (unconfirmed, quotas) => Some(Self::boxed(unconfirmed, quotas)),
        }
    }

    #[cold]
    fn boxed(unconfirmed: Option<Box<NewName<N, C>>>, quotas: Option<Box<Quotas>>) -> Box<Self> {
        Box::new(Self { unconfirmed, quotas })
    }
}

/// Notes the head of a response. Ends the request if it ends here, and otherwise notes when it
/// does. Ends the poll of the future, so a panic of the classification counts as one of the poll.
///
/// Out of line, and by references: so the head, the body and the request stay where they are, until
/// they are moved into the response to the caller.
#[inline(never)]
pub(crate) fn begin_body<A, E, N, K, C, P>(
    rare: &mut Option<Box<RareContext<N, C>>>,
    head: &mut Parts,
    body: &impl Body,
    request: &mut InFlight<K, C, P>,
) where
    N: Name<A>,
    K: Classify<E>,
    C: Clock + Clone + Send + Sync + 'static,
    P: Permit,
{
    if rare.is_some() {
        return begin_body_rarely::<A, E, N, K, C, P>(rare, head, body, request);
    }
    count_head(request, head);
    match request.classify.head(head) {
        End::AtBody(outcome) => begin_body_until(outcome, head, body, request),
        end => begin_other::<E, K, C, P>(end, None, head, body, request),
    }
}

/// Like [`begin_body`], for a request whose response confirms a name or tells the state of the
/// limits. Out of line, so that the function for most requests takes few registers.
#[cold]
#[inline(never)]
fn begin_body_rarely<A, E, N, K, C, P>(
    rare: &mut Option<Box<RareContext<N, C>>>,
    head: &mut Parts,
    body: &impl Body,
    request: &mut InFlight<K, C, P>,
) where
    N: Name<A>,
    K: Classify<E>,
    C: Clock + Clone + Send + Sync + 'static,
    P: Permit,
{
    let (unconfirmed, quotas) = rare.take().map_or((None, None), |it| (it.unconfirmed, it.quotas));
    if let Some(Quotas { decided, quotas }) = quotas.as_deref() {
        let now = request.entry().map_or(*decided, |entry| entry.node().clock().now());
        headers::add_quotas(&mut head.headers, quotas, now, None);
    }
    count_head(request, head);
    let end = request.classify.head(head);
    let name = unconfirmed
        .zip(request.entry())
        .and_then(|(name, entry)| name.learn(entry.node(), head, end));
    begin_other::<E, K, C, P>(end, name, head, body, request);
}

/// Counts the head of a response, unless the request has ended.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call of it takes a third of its instructions")]
fn count_head<K, C, P>(request: &InFlight<K, C, P>, head: &Parts)
where
    C: Clock + Clone + Send + Sync + 'static,
    P: Permit,
{
    if let Some(entry) = request.entry() {
        let class = ResponseClass::of_status(head.status.as_u16());
        entry.node().count_response(class);
        if request.ending.choices.first_byte {
            FirstByte::record(entry.node(), entry.started());
        }
    }
}

/// Notes that a request ends with the body, or ends it if the body has ended.
#[inline]
fn begin_body_until<K, C: Clock + Clone, P: Permit>(
    outcome: Outcome,
    head: &Parts,
    body: &impl Body,
    request: &mut InFlight<K, C, P>,
) {
    match announced_bytes(request.ending.choices.kind, head, body) {
        Some(0) => {
            request.end_poll();
            request.end_rarely(outcome);
        }
        bytes => request.begin_body(outcome, bytes),
    }
}

/// Notes the head of a response by which a request ends in any way. `name` may be confirmed by the
/// trailers.
#[cold]
#[inline(never)]
fn begin_other<E, K, C, P>(
    end: End,
    name: Option<Unconfirmed<C>>,
    head: &Parts,
    body: &impl Body,
    request: &mut InFlight<K, C, P>,
) where
    K: Classify<E>,
    C: Clock + Clone + Send + Sync + 'static,
    P: Permit,
{
    let kind = request.ending.choices.kind;
    let outcome = match end {
        End::AtBody(outcome) => return begin_body_until(outcome, head, body, request),
        End::AtHead(outcome) => outcome,
        End::AtHeadOfStream(outcome) => {
            let is_empty = announced_bytes(kind, head, body) == Some(0);
            let entry = request.entry().filter(|_| !is_empty);
            let stream = entry.map(|entry| OpenStream::new(entry.node().clone()));
            request.end_poll();
            request.end_rarely(outcome);
            if let Some(open) = stream {
                request.set_rest(RareRest::Stream { _open: open });
            }
            return;
        }
        End::AtTrailers if has_ended(kind, head, body) => request.classify.trailers(None),
        End::AtTrailers => {
            request.begin_trailers();
            if let Some(name) = name {
                request.set_rest(RareRest::Name(name));
            }
            return;
        }
    };
    request.end_poll();
    request.end_rarely(outcome);
}
