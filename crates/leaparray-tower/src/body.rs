//! The body of a response, whose last frame ends the request.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use leaparray::{Clock, MonotonicClock, Outcome, Permit};
use pin_project_lite::pin_project;

use crate::class::Classify;
use crate::ending::{RareRest, Until};
use crate::in_flight::InFlight;
use crate::parts::{InParts, Polled};

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
        // The request, which may have ended. `None` if it was refused.
        request: Option<InFlight<K, C, P>>,
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
            if let (Some(request), Some(inner)) = (this.request, this.inner.as_pin_mut())
                && request.is_open()
            {
                request.end_with_body::<E>(inner.is_end_stream());
            }
        }
    }
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
    pub(crate) fn new(inner: Option<B>, request: Option<InFlight<K, C, P>>) -> Self {
        Self { inner: inner.map(InParts::new), request, error: PhantomData }
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
            Some(inner) => poll_frame::<E, B, K, C, P>(this.request, inner, cx),
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

/// Polls the next frame of the body, which ends the request if it is the last one. The frame stays
/// in its place: a move of it takes as long as the rest of this function.
#[inline(always)]
#[expect(clippy::inline_always, reason = "out of line, it moves the frame")]
fn poll_frame<E, B, K, C, P>(
    request: &mut Option<InFlight<K, C, P>>,
    mut body: Pin<&mut InParts<B>>,
    cx: &mut Context<'_>,
) -> Polled<B>
where
    B: Body<Data: 'static>,
    K: Classify<E>,
    C: Clock + Clone,
    P: Permit,
{
    let Some(request) = request else { return poll_rest::<B, K, C, P>(None, body, cx) };
    if request.has_ended() {
        // Most bodies are polled once more after their last frame. A further frame would be passed
        // on as it is: no server asks for it.
        if request.ending.until == Until::Over {
            return body.poll_frame(cx);
        }
        return poll_rest(Some(request), body, cx);
    }
    // A caller that waits for the body may give up.
    request.ending.head_suffices = false;
    request.begin_poll();
    let mut polled = body.as_mut().poll_frame(cx);
    let outcome = match &mut polled {
        Poll::Pending => None,
        Poll::Ready(Some(Ok(frame))) => {
            body.as_mut().cut(frame);
            if request.ending.until == Until::End {
                request.ending.outcome_after(frame, || body.is_end_stream())
            } else {
                request.outcome_of_trailers::<E, _>(frame)
            }
        }
        Poll::Ready(Some(Err(_))) => Some(Outcome::Exception),
        Poll::Ready(None) => Some(request.outcome_at_end::<E>()),
    };
    request.end_poll();
    if let Some(outcome) = outcome {
        request.ending.until = Until::Over;
        request.end(outcome);
    }
    polled
}

/// Polls the next frame of a body whose request has ended with the head or was refused. Ends the
/// stream with the body.
#[cold]
#[inline(never)]
fn poll_rest<B, K, C, P>(
    request: Option<&mut InFlight<K, C, P>>,
    mut body: Pin<&mut InParts<B>>,
    cx: &mut Context<'_>,
) -> Polled<B>
where
    B: Body<Data: 'static>,
    C: Clock + Clone,
    P: Permit,
{
    let mut polled = body.as_mut().poll_frame(cx);
    match (&mut polled, request) {
        (Poll::Ready(Some(Ok(frame))), _) => body.cut(frame),
        (Poll::Ready(_), Some(request)) => drop(request.take_rest()),
        _ => {}
    }
    polled
}

impl<K, C: Clock + Clone, P: Permit> InFlight<K, C, P> {
    /// Returns the outcome by a frame of a body that ends with its trailers, if the frame has them.
    #[cold]
    fn outcome_of_trailers<E, D>(&mut self, frame: &Frame<D>) -> Option<Outcome>
    where
        K: Classify<E>,
    {
        let trailers = frame.trailers_ref()?;
        if let (Some(RareRest::Name(name)), Some(entry)) = (self.take_rest(), self.entry()) {
            name.learn(entry.node(), trailers);
        }
        Some(self.classify.trailers(Some(trailers)))
    }

    /// Returns the outcome of a request whose body has ended.
    #[cold]
    fn outcome_at_end<E>(&self) -> Outcome
    where
        K: Classify<E>,
    {
        if self.ending.until == Until::End {
            return self.ending.outcome();
        }
        self.classify.trailers(None)
    }

    /// Ends the request, whose body is dropped: after its end, which need not be polled, or before,
    /// if the outcome is known.
    #[cold]
    #[inline(never)]
    fn end_with_body<E>(&mut self, has_ended: bool)
    where
        K: Classify<E>,
    {
        if has_ended {
            self.end_rarely(self.outcome_at_end::<E>());
        } else if let Some(outcome) = self.ending.outcome_on_drop()
            // A caller that panics has failed, whatever the response was.
            && !thread::panicking()
        {
            self.end_rarely(outcome);
        }
    }
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
