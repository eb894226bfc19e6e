//! The content type and the status of gRPC in the headers of HTTP.

use http::{HeaderMap, header};
use leaparray::Outcome;

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
    /// An exception is a failure of the server, by the list of OpenTelemetry's semantic conventions for servers.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::CANCELLED => Outcome::Cancelled,
            Self::UNKNOWN
            | Self::DEADLINE_EXCEEDED
            | Self::UNIMPLEMENTED
            | Self::INTERNAL
            | Self::UNAVAILABLE
            | Self::DATA_LOSS => Outcome::Exception,
            _ => Outcome::Success,
        }
    }
}

/// Returns whether a content type is that of gRPC, with or without a suffix such as `+proto`. That of gRPC-Web is not: its trailers
/// are part of the body.
pub(crate) fn is_content_type(value: &[u8]) -> bool {
    let suffix = value.strip_prefix(b"application/grpc");
    suffix.is_some_and(|suffix| matches!(suffix.first(), None | Some(b'+' | b';')))
}

/// Returns whether these are the headers of a request or a response of gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|it| is_content_type(it.as_bytes()))
}

/// Returns the status in headers or in trailers; `None` if it is missing or no number.
pub(crate) fn code(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok().map(Code)
}
