//! The frames of a body, large ones in parts.

use std::any::Any;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// The most bytes of a part: few enough that a server with a full write buffer waits for its client
/// before it asks for the next one, and enough that a part costs little beside its transmission.
pub(crate) const PART: usize = 64 * 1_024;

/// The next frame of a body.
type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

pin_project! {
    /// A body whose frames of more than 64 KiB are passed on in parts, if its data are [`Bytes`].
    ///
    /// hyper takes a frame whole, whatever its size, and asks for the next one once its write
    /// buffer has room. A body of one frame would be at its end before its client has read a byte.
    /// The parts share the memory of the frame.
    pub(crate) struct InParts<B> {
        #[pin]
        body: B,
        // The remaining bytes of the last frame.
        rest: Bytes,
    }
}

impl<B: Body> InParts<B> {
    pub(crate) const fn new(body: B) -> Self {
        Self { body, rest: Bytes::new() }
    }

    /// Polls the next frame or part. Not an implementation of [`Body`]: the rest of it does not
    /// need data without references.
    #[inline]
    pub(crate) fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<B>
    where
        B::Data: 'static,
    {
        let this = self.project();
        if !this.rest.is_empty() {
            return Poll::Ready(next_part(this.rest).map(Ok));
        }
        let mut frame = ready!(this.body.poll_frame(cx));
        if let Some(Ok(frame)) = &mut frame
            && let Some(data) = frame.data_mut()
            && let Some(data) = (data as &mut dyn Any).downcast_mut::<Bytes>()
            && data.len() > PART
        {
            *this.rest = data.split_off(PART);
        }
        Poll::Ready(frame)
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if rest > 0 {
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

/// Returns the next part of a frame. `D` is [`Bytes`], since there is a rest.
#[cold]
fn next_part<D: 'static>(rest: &mut Bytes) -> Option<Frame<D>> {
    let after = if rest.len() > PART { rest.split_off(PART) } else { Bytes::new() };
    let mut part = Some(mem::replace(rest, after));
    let part = (&mut part as &mut dyn Any).downcast_mut::<Option<D>>()?;
    part.take().map(Frame::data)
}
