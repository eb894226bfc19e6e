//! The body of a response, whose last frame ends the request.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use bytes::Buf;
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use leaparray::{Clock, MonotonicClock, Outcome, Permit};
use pin_project_lite::pin_project;

use crate::class::Classify;
use crate::in_flight::InFlight;
use crate::parts::{InParts, Polled};
use crate::streams::OpenStream;
use crate::unconfirmed::Unconfirmed;

pin_project! {
    /// The body of a response. Its last frame ends the request. So does its drop before that: with
    /// the outcome of the head, if it is [known](crate::End::AtBody), and otherwise as
    /// [`ResourceLayer::on_drop`](crate::ResourceLayer::on_drop) says, by default as cancelled.
    ///
    /// A body has ended if it says so, by [`is_end_stream`](Body::is_end_stream) or by its last
    /// poll. It has also ended after the bytes of its [exact size](Body::size_hint), or without
    /// one, after as many as the head of the response has announced: servers do not poll it again
    /// then.
    ///
    /// A frame of more than 64 KiB is passed on in parts if its data are [`Bytes`](bytes::Bytes),
    /// as those of axum, tonic and hyper are. So its end is near the time at which the client has
    /// read it: up to the buffers of the server and of the connection.
    ///
    /// The body keeps a handle to the resource until it is dropped, also after its last frame.
    pub struct ResponseBody<B, E, K, C = MonotonicClock, P = ()>
    where
        B: Body,
        K: Classify<E>,
        C: Clock,
        C: Clone,
        P: Permit,
    {
        // `None` for the empty body of a refusal.
        #[pin]
        inner: Option<InParts<B>>,
        rest: Rest<K, C, P>,
        error: PhantomData<fn(E)>,
    }

    impl<B, E, K, C, P> PinnedDrop for ResponseBody<B, E, K, C, P>
    where
        B: Body,
        K: Classify<E>,
        C: Clock,
        C: Clone,
        P: Permit,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A server need not poll a body that has said that it has ended. A body that has
            // panicked is not asked.
            if let (rest, Some(inner)) = (this.rest, this.inner.as_pin_mut())
                && rest.request.as_ref().is_some_and(InFlight::is_open)
            {
                if inner.is_end_stream() {
                    rest.finish_on_drop::<E>();
                } else {
                    rest.end_on_drop();
                }
            }
        }
    }
}

/// The state of a request after the head of its response.
pub(crate) struct Rest<K, C: Clock + Clone, P: Permit> {
    /// The request, which may have ended. `None` if it was refused.
    pub(crate) request: Option<InFlight<K, C, P>>,
    pub(crate) until: Until,
    /// Whether a success stays one if the body is dropped unpolled: the caller is a client that
    /// wanted the head only.
    pub(crate) head_suffices: bool,
    /// In a box: few responses have it.
    pub(crate) rare: Option<Box<RareRest<C>>>,
}

/// When a request ends after the head of its response.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// It has ended with the head.
    Head,
    /// With the body. `bytes` is the number that is still expected, if it is known.
    End { outcome: Outcome, bytes: Option<u64> },
    /// With the trailers.
    Trailers,
}

/// What few requests have after the head of their response.
pub(crate) enum RareRest<C> {
    /// The body is an open stream until this is dropped. The request has ended.
    Stream { _open: OpenStream<C> },
    /// The name, which the status in the trailers may confirm.
    Name(Unconfirmed<C>),
}

impl<B, E, K, C, P> ResponseBody<B, E, K, C, P>
where
    B: Body,
    K: Classify<E>,
    C: Clock + Clone,
    P: Permit,
{
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, it moves the body")]
    pub(crate) fn new(inner: Option<B>, rest: Rest<K, C, P>) -> Self {
        Self { inner: inner.map(InParts::new), rest, error: PhantomData }
    }
}

impl<B, E, K, C, P> Body for ResponseBody<B, E, K, C, P>
where
    B: Body<Data: 'static>,
    K: Classify<E>,
    C: Clock + Clone,
    P: Permit,
{
    type Data = B::Data;
    type Error = B::Error;

    #[inline]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        match this.inner.as_pin_mut() {
            Some(inner) => this.rest.poll_frame::<E, B>(inner, cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(InParts::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), InParts::size_hint)
    }
}

impl<K, C: Clock + Clone, P: Permit> Rest<K, C, P> {
    /// That of a request that was refused.
    pub(crate) const NOTHING: Self =
        Self { request: None, until: Until::Head, head_suffices: false, rare: None };

    /// Polls the next frame of the body, which ends the request if it is the last one. The frame
    /// stays in its place: a move of it takes as long as the rest of this function.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, it moves the frame")]
    fn poll_frame<E, B>(
        &mut self,
        mut body: Pin<&mut InParts<B>>,
        cx: &mut Context<'_>,
    ) -> Polled<B>
    where
        B: Body<Data: 'static>,
        K: Classify<E>,
    {
        // A caller that waits for the body may give up.
        self.head_suffices = false;
        if let Some(request) = &mut self.request {
            request.begin_poll();
        }
        let mut polled = body.as_mut().poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled {
            body.as_mut().cut(frame);
        }
        let outcome = self.outcome_after::<E, B>(&polled, &body);
        if let Some(request) = &mut self.request {
            request.end_poll();
            if let Some(outcome) = outcome {
                request.end(outcome);
            }
        }
        polled
    }

    /// Returns the outcome of the request if it ends with this poll: with a frame, an error or the
    /// end of the body. Ends the stream with the body.
    ///
    /// If there are fewer bytes than announced, an HTTP/1.1 server breaks the connection off, and a
    /// client reports an error.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of `poll_frame`")]
    fn outcome_after<E, B>(&mut self, polled: &Polled<B>, body: &InParts<B>) -> Option<Outcome>
    where
        B: Body,
        K: Classify<E>,
    {
        let Poll::Ready(frame) = polled else { return None };
        let Some(request) = self.request.as_mut().filter(|request| !request.has_ended()) else {
            if !matches!(frame, Some(Ok(_))) {
                self.rare = None;
            }
            return None;
        };
        match (frame, &mut self.until) {
            (Some(Err(_)), _) => Some(Outcome::Exception),
            (Some(Ok(frame)), Until::End { outcome, bytes }) => {
                if let (Some(bytes), Some(data)) = (bytes.as_mut(), frame.data_ref()) {
                    *bytes = bytes.saturating_sub(data.remaining() as u64);
                }
                let is_last = *bytes == Some(0) || frame.is_trailers() || body.is_end_stream();
                is_last.then(|| at_end(*outcome, *bytes))
            }
            (None, Until::End { outcome, bytes }) => Some(at_end(*outcome, *bytes)),
            (Some(Ok(frame)), Until::Head | Until::Trailers) => {
                let trailers = frame.trailers_ref()?;
                if let (Some(rare), Some(entry)) = (self.rare.take(), request.entry())
                    && let RareRest::Name(name) = *rare
                {
                    name.learn(entry.node(), trailers);
                }
                Some(request.classify.trailers(Some(trailers)))
            }
            (None, Until::Head | Until::Trailers) => Some(request.classify.trailers(None)),
        }
    }

    /// Ends the request of a body that has ended without a poll of its end.
    #[cold]
    fn finish_on_drop<E>(&mut self)
    where
        K: Classify<E>,
    {
        let Some(request) = &mut self.request else { return };
        let outcome = match self.until {
            Until::End { outcome, bytes } => at_end(outcome, bytes),
            Until::Head | Until::Trailers => request.classify.trailers(None),
        };
        request.end(outcome);
    }

    /// Ends the request if its outcome is known although the rest of the body is dropped.
    #[cold]
    fn end_on_drop(&mut self) {
        if let (Some(request), Until::End { outcome, .. }) = (&mut self.request, self.until)
            && (outcome != Outcome::Success || self.head_suffices)
            // A caller that panics has failed, whatever the response was.
            && !thread::panicking()
        {
            request.end(outcome);
        }
    }
}

/// Returns the outcome of a request whose body has ended while `bytes` were still expected.
const fn at_end(outcome: Outcome, bytes: Option<u64>) -> Outcome {
    if matches!(bytes, Some(1..)) { Outcome::Exception } else { outcome }
}

/// The method of a request, as far as it decides whether the response has a body.
#[derive(Clone, Copy)]
pub(crate) enum RequestKind {
    Head,
    Connect,
    Other,
}

impl RequestKind {
    pub(crate) fn of(method: &Method) -> Self {
        match *method {
            Method::HEAD => Self::Head,
            Method::CONNECT => Self::Connect,
            _ => Self::Other,
        }
    }
}

/// Returns the number of bytes after which a server does not poll the body again: its exact size if
/// it knows it, and otherwise the length that the head of the response announces. hyper's HTTP/1.1
/// chooses in this order.
#[inline]
pub(crate) fn announced_bytes(of: RequestKind, head: &Parts, body: &impl Body) -> Option<u64> {
    if has_ended(of, head, body) {
        return Some(0);
    }
    body.size_hint().exact().or_else(|| length_in(&head.headers))
}

/// Returns the length that a head announces. Out of line, so that the usual rest is inlined.
#[inline(never)]
fn length_in(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns whether a response has no body, or one that has ended.
#[inline]
pub(crate) fn has_ended(of: RequestKind, head: &Parts, body: &impl Body) -> bool {
    is_without_body(of, head.status) || body.is_end_stream()
}

/// Returns whether a response has no body, whatever its type says (RFC 9110, section 6.4.1).
#[inline]
fn is_without_body(of: RequestKind, status: StatusCode) -> bool {
    match of {
        RequestKind::Head => true,
        RequestKind::Connect if status.is_success() => true,
        _ => {
            status.is_informational()
                || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        }
    }
}

impl<B, E, K, C, P> fmt::Debug for ResponseBody<B, E, K, C, P>
where
    B: Body,
    K: Classify<E>,
    C: Clock + Clone,
    P: Permit,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
