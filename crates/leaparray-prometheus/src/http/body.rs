//! The body of an exposition.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

/// A part of an exposition.
#[derive(Debug)]
pub(super) enum Part {
    Chunk(Bytes),
    /// The exposition is whole.
    End,
}

/// The body of an [`Exposition`](crate::Exposition).
///
/// If it is dropped before its end, the exposition is given up.
#[derive(Debug)]
#[must_use = "a body that is dropped is not sent"]
pub struct ExpositionBody {
    parts: mpsc::Receiver<Part>,
    has_ended: bool,
}

impl ExpositionBody {
    pub(super) const fn new(parts: mpsc::Receiver<Part>) -> Self {
        Self { parts, has_ended: false }
    }
}

impl Body for ExpositionBody {
    type Data = Bytes;
    type Error = ExpositionError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExpositionError>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let part = ready!(self.parts.poll_recv(cx));
        self.has_ended = !matches!(part, Some(Part::Chunk(_)));
        Poll::Ready(match part {
            Some(Part::Chunk(chunk)) => Some(Ok(Frame::data(chunk))),
            Some(Part::End) => None,
            None => Some(Err(ExpositionError(()))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended
    }
}

/// The exposition ended before it was whole: the client took more than 60 s, or a collector failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpositionError(());

impl fmt::Display for ExpositionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the exposition is not whole: the client took more than 60 s, or a collector failed",
        )
    }
}

impl Error for ExpositionError {}
