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
use crate::ending::{Ending, RareRest, Until};
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
    pub(crate) ending: Ending<C>,
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
    /// The rest of a request that was refused.
    pub(crate) const NOTHING: Self = Self { request: None, ending: Ending::AT_HEAD };

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
        let Some(request) = self.request.as_mut().filter(|request| !request.has_ended()) else {
            // Most bodies are polled once more after their last frame. A further frame would be
            // passed on as it is: no server asks for it.
            if self.ending.until == Until::Over {
                return body.poll_frame(cx);
            }
            return self.poll_rest(body, cx);
        };
        // A caller that waits for the body may give up.
        self.ending.head_suffices = false;
        request.begin_poll();
        let mut polled = body.as_mut().poll_frame(cx);
        let outcome = match &mut polled {
            Poll::Pending => None,
            Poll::Ready(Some(Ok(frame))) => {
                body.as_mut().cut(frame);
                if self.ending.until == Until::End {
                    self.ending.outcome_after(frame, || body.is_end_stream())
                } else {
                    self.outcome_of_trailers::<E, _>(frame)
                }
            }
            Poll::Ready(Some(Err(_))) => Some(Outcome::Exception),
            Poll::Ready(None) => self.outcome_at_end::<E>(),
        };
        if let Some(request) = &mut self.request {
            request.end_poll();
            if let Some(outcome) = outcome {
                self.ending.until = Until::Over;
                request.end(outcome);
            }
        }
        polled
    }

    /// Polls the next frame of a body whose request has ended with the head or was refused. Ends
    /// the stream with the body.
    #[cold]
    #[inline(never)]
    fn poll_rest<B: Body<Data: 'static>>(
        &mut self,
        mut body: Pin<&mut InParts<B>>,
        cx: &mut Context<'_>,
    ) -> Polled<B> {
        let mut polled = body.as_mut().poll_frame(cx);
        match &mut polled {
            Poll::Ready(Some(Ok(frame))) => body.cut(frame),
            Poll::Ready(_) => self.ending.rare = None,
            Poll::Pending => {}
        }
        polled
    }

    /// Returns the outcome by a frame of a body that ends with its trailers, if the frame has them.
    #[cold]
    fn outcome_of_trailers<E, D>(&mut self, frame: &Frame<D>) -> Option<Outcome>
    where
        K: Classify<E>,
    {
        let (trailers, request) = (frame.trailers_ref()?, self.request.as_ref()?);
        if let (Some(rare), Some(entry)) = (self.ending.rare.take(), request.entry())
            && let RareRest::Name(name) = *rare
        {
            name.learn(entry.node(), trailers);
        }
        Some(request.classify.trailers(Some(trailers)))
    }

    /// Returns the outcome of a request whose body has ended.
    #[cold]
    fn outcome_at_end<E>(&self) -> Option<Outcome>
    where
        K: Classify<E>,
    {
        if self.ending.until == Until::End {
            return Some(self.ending.outcome());
        }
        Some(self.request.as_ref()?.classify.trailers(None))
    }

    /// Ends the request of a body that has ended without a poll of its end.
    #[cold]
    fn finish_on_drop<E>(&mut self)
    where
        K: Classify<E>,
    {
        if let (Some(outcome), Some(request)) = (self.outcome_at_end::<E>(), &mut self.request) {
            request.end(outcome);
        }
    }

    /// Ends the request if its outcome is known although the rest of the body is dropped.
    #[cold]
    fn end_on_drop(&mut self) {
        if let (Some(outcome), Some(request)) = (self.ending.outcome_on_drop(), &mut self.request)
            // A caller that panics has failed, whatever the response was.
            && !thread::panicking()
        {
            request.end(outcome);
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
