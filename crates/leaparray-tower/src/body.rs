//! The body of a response, whose last frame ends the request.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use bytes::Buf;
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{Method, StatusCode};
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
                && rest.request().is_some_and(|request| request.is_open())
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
pub(crate) enum Rest<K, C: Clock + Clone, P: Permit> {
    /// The request has ended.
    Nothing,
    /// The request has ended, and its body is an open stream.
    Stream { _open: OpenStream<C> },
    /// The request ends with the body. `bytes` is the number that is still expected, if it is
    /// known. `is_known` says whether the outcome is known without the rest of the body, so that a
    /// drop does not change it.
    UntilEnd { request: InFlight<K, C, P>, outcome: Outcome, bytes: Option<u64>, is_known: bool },
    /// The request ends with the trailers, whose status may confirm its name.
    UntilTrailers(InFlight<K, C, P>, Option<Box<Unconfirmed<C>>>),
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
        let mut poll = || body.as_mut().poll_frame(cx);
        let mut polled = match self.reading() {
            Some(request) => request.watch(&mut poll),
            None => poll(),
        };
        if let Poll::Ready(frame) = &mut polled {
            let has_ended = match frame {
                Some(Ok(frame)) => {
                    body.as_mut().cut(frame);
                    self.has_ended_with::<E, B>(frame, &body)
                }
                Some(Err(_)) => {
                    self.end(|request| request.end(Outcome::Exception));
                    false
                }
                None => true,
            };
            if has_ended {
                self.finish::<E>();
            }
        }
        polled
    }

    /// Returns the request, whose body is about to be polled. Its success is then no longer known
    /// without the rest of the body: a caller that waits for the body may give up.
    #[inline]
    fn reading(&mut self) -> Option<&mut InFlight<K, C, P>> {
        if let Self::UntilEnd { outcome: Outcome::Success, is_known, .. } = self {
            *is_known = false;
        }
        self.request()
    }

    fn request(&mut self) -> Option<&mut InFlight<K, C, P>> {
        match self {
            Self::Nothing | Self::Stream { .. } => None,
            Self::UntilEnd { request, .. } | Self::UntilTrailers(request, _) => Some(request),
        }
    }

    /// Ends the request or the stream.
    fn end(&mut self, end: impl FnOnce(&mut InFlight<K, C, P>)) {
        match std::mem::replace(self, Self::Nothing) {
            Self::Nothing | Self::Stream { .. } => {}
            Self::UntilEnd { mut request, .. } | Self::UntilTrailers(mut request, _) => {
                end(&mut request);
            }
        }
    }

    /// Ends the request: its body has ended, without trailers that say the outcome. If there are
    /// fewer bytes than announced, an HTTP/1.1 server breaks the connection off, and a client
    /// reports an error.
    #[inline]
    fn finish<E>(&mut self)
    where
        K: Classify<E>,
    {
        match self {
            // In place, unlike `end`, which would move the request. A request that has ended
            // ignores a further end.
            Self::UntilEnd { request, outcome, bytes, .. } => request.end(at_end(*outcome, *bytes)),
            _ => self.end(|request| request.end_with_trailers(None)),
        }
    }

    /// Like [`finish`](Self::finish), for a body that has ended without a poll. Out of line and
    /// without a call of `finish`, so that `finish` is inlined into the poll.
    #[cold]
    fn finish_on_drop<E>(&mut self)
    where
        K: Classify<E>,
    {
        let outcome = match self {
            Self::Nothing | Self::Stream { .. } => return,
            Self::UntilEnd { outcome, bytes, .. } => at_end(*outcome, *bytes),
            Self::UntilTrailers(request, _) => request.classify.trailers(None),
        };
        self.end(|request| request.end(outcome));
    }

    /// Ends the request if its outcome is known although the rest of the body is dropped.
    #[cold]
    fn end_on_drop(&mut self) {
        if let Self::UntilEnd { request, outcome, is_known: true, .. } = self
            // A caller that panics has failed, whatever the response was.
            && !thread::panicking()
        {
            request.end(*outcome);
        }
    }

    /// Notes a frame. Ends the request if the frame has its trailers. Otherwise, returns whether
    /// the request ends with this frame.
    #[inline]
    fn has_ended_with<E, B: Body>(&mut self, frame: &Frame<B::Data>, body: &InParts<B>) -> bool
    where
        K: Classify<E>,
    {
        match self {
            Self::UntilTrailers(request, unconfirmed) => {
                if let Some(trailers) = frame.trailers_ref() {
                    if let (Some(name), Some(entry)) = (unconfirmed.take(), request.entry()) {
                        name.learn(entry.node(), trailers);
                    }
                    self.end(|request| request.end_with_trailers(Some(trailers)));
                }
                false
            }
            Self::UntilEnd { bytes, .. } => {
                if let (Some(bytes), Some(data)) = (bytes.as_mut(), frame.data_ref()) {
                    *bytes = bytes.saturating_sub(data.remaining() as u64);
                }
                *bytes == Some(0) || frame.is_trailers() || body.is_end_stream()
            }
            Self::Nothing | Self::Stream { .. } => false,
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
    body.size_hint().exact().or_else(|| {
        let announced = head.headers.get(CONTENT_LENGTH)?;
        announced.to_str().ok()?.parse().ok()
    })
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
