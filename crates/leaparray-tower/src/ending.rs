//! How a request ends after the head of its response.

use bytes::Buf;
use http_body::Frame;
use leaparray::Outcome;

use crate::streams::OpenStream;
use crate::unconfirmed::Unconfirmed;

/// How a request ends after the head of its response. It is moved with the response, so it has as
/// few words as it can.
pub(crate) struct Ending<C> {
    pub(crate) until: Until,
    /// The outcome by the head, if the request ends [with the body](Until::End).
    outcome: Outcome,
    /// Whether a success stays one if the body is dropped unpolled: the caller is a client that
    /// wanted the head only.
    pub(crate) head_suffices: bool,
    /// The number of bytes that are still expected, or [`UNKNOWN`].
    bytes: u64,
    /// In a box: few responses have it.
    pub(crate) rare: Option<Box<RareRest<C>>>,
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

/// What few requests have after the head of their response.
pub(crate) enum RareRest<C> {
    /// The body is an open stream until this is dropped. The request has ended.
    Stream { _open: OpenStream<C> },
    /// The name, which the status in the trailers may confirm.
    Name(Unconfirmed<C>),
}

/// The number of expected bytes if it is not known.
const UNKNOWN: u64 = u64::MAX;

impl<C> Ending<C> {
    /// The ending of a request that has ended with the head, or was refused.
    pub(crate) const AT_HEAD: Self = Self::new(Until::Head, Outcome::Success, UNKNOWN);

    /// The ending of a request that ends with the trailers.
    pub(crate) const AT_TRAILERS: Self = Self::new(Until::Trailers, Outcome::Success, UNKNOWN);

    const fn new(until: Until, outcome: Outcome, bytes: u64) -> Self {
        Self { until, outcome, head_suffices: false, bytes, rare: None }
    }

    /// Returns the ending of a request that ends with the last of these bytes, if their number is
    /// known, or with the end of the body.
    pub(crate) fn at_end(outcome: Outcome, bytes: Option<u64>, head_suffices: bool) -> Self {
        let ending = Self::new(Until::End, outcome, bytes.unwrap_or(UNKNOWN));
        Self { head_suffices, ..ending }
    }

    #[cold]
    pub(crate) fn with_rare(self, rare: RareRest<C>) -> Self {
        Self { rare: Some(Box::new(rare)), ..self }
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
