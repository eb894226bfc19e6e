//! The content type, the status and the deadline of gRPC in the headers of HTTP.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use leaparray::Outcome;

use crate::media_type::{is_parameters, strip_prefix};

/// A status code of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u32);

impl Code {
    pub(crate) const OK: Self = Self(0);
    const CANCELLED: Self = Self(1);
    const UNKNOWN: Self = Self(2);
    const DEADLINE_EXCEEDED: Self = Self(4);
    pub(crate) const RESOURCE_EXHAUSTED: Self = Self(8);
    const UNIMPLEMENTED: Self = Self(12);
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

/// The messages with which tonic answers `CANCELLED` if a deadline has expired, and not because the
/// client has given up. On the wire, messages are percent-encoded.
const EXPIRED: [&[u8]; 2] = [b"Timeout%20expired", b"Timeout expired"];

/// Returns the outcome by the status in headers or in trailers; `None` if it is missing or no
/// number.
pub(crate) fn outcome(headers: &HeaderMap) -> Option<Outcome> {
    let outcome = code(headers)?.outcome();
    let message = || headers.get("grpc-message").map(HeaderValue::as_bytes);
    if outcome == Outcome::Cancelled && message().is_some_and(|it| EXPIRED.contains(&it)) {
        return Some(Outcome::Exception);
    }
    Some(outcome)
}

/// Returns the time that the client gives the call, in the header `grpc-timeout`; `None` if it is
/// missing or malformed, or if these are not the headers of gRPC or gRPC-Web. It has at most eight
/// digits and a unit.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    Protocol::of(headers.get(header::CONTENT_TYPE)?.as_bytes())?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}
