//! The frames of a body, large ones in parts.

use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// The most bytes of a part: few enough that a server with a full write buffer waits for its client
/// before it asks for the next one, and enough that a part costs little beside its transmission.
pub(crate) const PART: usize = 64 * 1_024;

/// The next frame of a body.
pub(crate) type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

pin_project! {
    /// A body whose frames of more than 64 KiB are passed on in parts, if its data are [`Bytes`].
    ///
    /// hyper takes a frame whole, whatever its size, and asks for the next one once its write
    /// buffer has room. A body of one frame would be at its end before its client has read a byte.
    /// The parts share the memory of the frame.
    pub(crate) struct InParts<B> {
        #[pin]
        body: B,
        // The remaining bytes of the last frame. In a box: most bodies have none.
        rest: Option<Box<Bytes>>,
    }
}

impl<B: Body> InParts<B> {
    pub(crate) const fn new(body: B) -> Self {
        Self { body, rest: None }
    }

    /// Polls the next frame, to [cut](Self::cut), or the next part. Not an implementation of
    /// [`Body`]: the frame is cut in its place, so that it is not moved once more.
    #[inline]
    pub(crate) fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<B>
    where
        B::Data: 'static,
    {
        let this = self.project();
        if this.rest.is_some() {
            return Poll::Ready(next_part(this.rest).map(|part| Ok(Frame::data(part))));
        }
        this.body.poll_frame(cx)
    }

    /// Cuts a large frame after its first part.
    #[inline]
    pub(crate) fn cut(self: Pin<&mut Self>, frame: &mut Frame<B::Data>)
    where
        B::Data: 'static,
    {
        if let Some(data) = frame.data_mut()
            && let Some(data) = (data as &mut dyn Any).downcast_mut::<Bytes>()
            && data.len() > PART
        {
            *self.project().rest = rest_of(data);
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        if let Some(rest) = &self.rest {
            let rest = rest.len() as u64;
            let upper = hint.upper().and_then(|upper| upper.checked_add(rest));
            let lower = hint.lower().saturating_add(rest);
            hint = SizeHint::new();
            hint.set_lower(lower);
            if let Some(upper) = upper {
                hint.set_upper(upper);
            }
        }
        hint
    }
}

/// Cuts a frame or a rest after a part, and returns the rest.
#[cold]
fn rest_of(data: &mut Bytes) -> Option<Box<Bytes>> {
    (data.len() > PART).then(|| Box::new(data.split_off(PART)))
}

/// Takes the next part of a rest, as data of the type `D`, which is [`Bytes`] if there is a rest.
#[cold]
fn next_part<D: 'static>(rest: &mut Option<Box<Bytes>>) -> Option<D> {
    let mut part = *rest.take()?;
    *rest = rest_of(&mut part);
    (&mut Some(part) as &mut dyn Any).downcast_mut::<Option<D>>()?.take()
}
