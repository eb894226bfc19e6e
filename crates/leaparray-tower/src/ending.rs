//! How a request ends after the head of its response.

use bytes::Buf;
use http_body::Frame;
use leaparray::Outcome;
use leaparray::node::OnDrop;

use crate::body::RequestKind;
use crate::streams::OpenStream;
use crate::unconfirmed::Unconfirmed;

/// How a request ends after the head of its response. It is moved with the request, so it has as
/// few words as it can.
pub(crate) struct Ending {
    pub(crate) until: Until,
    /// The outcome by the head, if the request ends [with the body](Until::End).
    outcome: Outcome,
    /// Whether a success stays one if the body is dropped unpolled: the caller is a client that
    /// wanted the head only.
    pub(crate) head_suffices: bool,
    /// Whether a poll has begun and not returned. If a caller catches the panic of a poll, the
    /// entry is dropped after the unwinding has ended, and cannot detect the panic.
    pub(crate) is_polled: bool,
    pub(crate) choices: Choices,
    /// The number of bytes that are still expected, or [`UNKNOWN`].
    bytes: u64,
}

/// The properties of the request and of the layer that the response needs.
#[derive(Clone, Copy)]
pub(crate) struct Choices {
    pub(crate) kind: RequestKind,
    pub(crate) first_byte: bool,
    /// The policy once the request has reached the service.
    pub(crate) on_drop: OnDrop,
    /// Whether the caller is a client, and the service a backend.
    pub(crate) is_outbound: bool,
}

/// When a request ends after the head of its response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// It has ended with the head.
    Head,
    /// With the body.
    End,
    /// With the trailers.
    Trailers,
    /// It has ended with the last frame or the end of the body.
    Over,
}

/// The parts that few requests have after the head of their response.
pub(crate) enum RareRest<C> {
    /// The body is an open stream until this is dropped. The request has ended.
    Stream { _open: OpenStream<C> },
    /// The name, which the status in the trailers may confirm.
    Name(Unconfirmed<C>),
}

/// The number of expected bytes if it is not known.
const UNKNOWN: u64 = u64::MAX;

impl Ending {
    /// The ending of a request whose response has no head yet, or that has ended with it.
    #[inline]
    pub(crate) const fn at_head(choices: Choices) -> Self {
        Self {
            until: Until::Head,
            outcome: Outcome::Success,
            head_suffices: false,
            is_polled: false,
            choices,
            bytes: UNKNOWN,
        }
    }

    /// From now on, the request ends with the last of these bytes, if their number is known, or
    /// with the end of the body.
    #[inline]
    pub(crate) fn begin_body(&mut self, outcome: Outcome, bytes: Option<u64>) {
        self.until = Until::End;
        self.outcome = outcome;
        self.bytes = bytes.unwrap_or(UNKNOWN);
        self.head_suffices = self.choices.is_outbound;
    }

    /// Returns the outcome if the body of a request that ends [with it](Until::End) has ended. If
    /// there were fewer bytes than announced, an HTTP/1.1 server breaks the connection off, and a
    /// client reports an error.
    pub(crate) const fn outcome(&self) -> Outcome {
        match self.bytes {
            0 | UNKNOWN => self.outcome,
            _ => Outcome::Exception,
        }
    }

    /// Returns the outcome of a request that ends [with the body](Until::End), if this is the last
    /// frame.
    #[inline]
    pub(crate) fn outcome_after<D: Buf>(
        &mut self,
        frame: &Frame<D>,
        is_at_end: impl FnOnce() -> bool,
    ) -> Option<Outcome> {
        if let Some(data) = frame.data_ref()
            && self.bytes != UNKNOWN
        {
            self.bytes = self.bytes.saturating_sub(data.remaining() as u64);
        }
        let is_last = self.bytes == 0 || frame.is_trailers() || is_at_end();
        is_last.then(|| self.outcome())
    }

    /// Returns the outcome of a request whose body is dropped before its end, if it is known.
    pub(crate) fn outcome_on_drop(&self) -> Option<Outcome> {
        let is_known = self.outcome != Outcome::Success || self.head_suffices;
        (self.until == Until::End && is_known).then_some(self.outcome)
    }
}
