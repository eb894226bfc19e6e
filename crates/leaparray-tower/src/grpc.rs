//! The content type and the status of gRPC in the headers of HTTP.

use http::{HeaderMap, header};
use leaparray::Outcome;

use crate::media_type::{is_parameters, strip_prefix};

/// A status code of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u32);

impl Code {
    const CANCELLED: Self = Self(1);
    const UNKNOWN: Self = Self(2);
    const DEADLINE_EXCEEDED: Self = Self(4);
    pub(crate) const RESOURCE_EXHAUSTED: Self = Self(8);
    pub(crate) const UNIMPLEMENTED: Self = Self(12);
    const INTERNAL: Self = Self(13);
    pub(crate) const UNAVAILABLE: Self = Self(14);
    const DATA_LOSS: Self = Self(15);

    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Returns the outcome of a request that was answered with this code.
    ///
    /// An exception is a failure of the server, by the list of OpenTelemetry's semantic conventions
    /// for servers. A code that gRPC does not define is `UNKNOWN`.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::CANCELLED => Outcome::Cancelled,
            Self::UNKNOWN
            | Self::DEADLINE_EXCEEDED
            | Self::UNIMPLEMENTED
            | Self::INTERNAL
            | Self::UNAVAILABLE
            | Self::DATA_LOSS
            | Self(17..) => Outcome::Exception,
            _ => Outcome::Success,
        }
    }
}

/// A protocol of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    /// Its trailers are part of the body.
    Web,
}

impl Protocol {
    /// Returns the protocol by a content type, with or without a suffix such as `+proto`; `None` if
    /// it is of neither.
    #[inline]
    pub(crate) fn of(content_type: &[u8]) -> Option<Self> {
        let rest = strip_prefix(content_type, b"application/grpc", "application/".len())?;
        let (protocol, rest) = match strip_prefix(rest, b"-web", 0) {
            Some(rest) => (Self::Web, strip_prefix(rest, b"-text", 0).unwrap_or(rest)),
            None => (Self::Grpc, rest),
        };
        (rest.starts_with(b"+") || is_parameters(rest)).then_some(protocol)
    }
}

/// Returns whether these are the headers of a request or a response of gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    content_type.is_some_and(|it| Protocol::of(it.as_bytes()) == Some(Protocol::Grpc))
}

/// Returns the status in headers or in trailers; `None` if it is missing or no number.
pub(crate) fn code(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok().map(Code)
}
