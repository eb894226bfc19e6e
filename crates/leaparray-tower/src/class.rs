//! The outcomes of responses.

use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use leaparray::Outcome;

use crate::grpc::{self, Protocol};
use crate::media_type::is_event_stream;

/// When a request ends, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// With the head of the response, whatever its body is.
    AtHead(Outcome),
    /// With the head of the response. Its body, if it has one, is counted as an [open
    /// stream](crate::open_streams).
    AtHeadOfStream(Outcome),
    /// With the last frame of the body, if the body ends without an error.
    ///
    /// An exception or a cancellation is known with the head: if the body is dropped, the request
    /// ends so with the drop. A success is known with the head only if a
    /// [client](crate::ResourceLayer::outbound) leaves the body unread.
    AtBody(Outcome),
    /// With the trailers, which say the outcome: see [`Classify::trailers`].
    AtTrailers,
}

/// A function from responses to the outcomes of their requests. It is cloned for each request.
///
/// `E` is the error of the service. The other endings are always the same: a request is cancelled
/// if its future is dropped, or its body before the outcome is known. A panic or an error of the
/// body is an exception, and so is a body that is shorter than its announced length. A cancellation
/// is an exception if the deadline of the request has expired; see
/// [`ResourceLayer`](crate::ResourceLayer#time-outs).
///
/// [`ByStatus`] is the default. [`ByHead`] makes a classification of a closure.
pub trait Classify<E>: Clone {
    /// Returns when the request ends, and how, by the head of the response.
    fn head(&self, head: &Parts) -> End;

    /// Returns the outcome of a request that [ends with its trailers](End::AtTrailers), and is
    /// called for no other. `None` if the body has ended without trailers.
    fn trailers(&self, trailers: Option<&HeaderMap>) -> Outcome;

    /// Returns the outcome of a request for which the service has returned an error instead of a
    /// response.
    fn error(&self, error: &E) -> Outcome;
}

/// The default classification: the status 408 and those of 500 or above are exceptions, and so is
/// an error of the service. Everything else is a success.
///
/// With 408 or 504, a time-out inside the layer answers, such as the `TimeoutLayer` of tower-http.
/// A handler that answers 408 because its client sends the request too slowly counts alike.
///
/// If the content type is `application/grpc`, with or without a suffix such as `+proto`, and the
/// HTTP status is 2xx, the status of gRPC decides, in the headers or in the trailers. The codes
/// `UNKNOWN`, `DEADLINE_EXCEEDED`, `UNIMPLEMENTED`, `INTERNAL`, `UNAVAILABLE` and `DATA_LOSS` are
/// exceptions, and so are codes that gRPC does not define and a missing status. `CANCELLED` is a
/// cancellation, unless its message is `Timeout expired`: so tonic answers if a deadline has
/// expired.
///
/// gRPC-Web has its trailers in the body, which the layer does not read. If the head has no status,
/// the response is a success. So put the layer inside the layer that translates gRPC-Web, such as
/// the `GrpcWebLayer` of the crate `tonic-web`.
///
/// A request whose response is a stream of server-sent events, or a change of protocols such as to
/// a WebSocket, ends with the head of the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByStatus;

impl<E> Classify<E> for ByStatus {
    #[inline]
    fn head(&self, head: &Parts) -> End {
        let outcome = outcome_of(head.status);
        let content_type = content_type(&head.headers);
        if is_plain(content_type) {
            return End::AtBody(outcome);
        }
        end_by_content(head, content_type, outcome)
    }

    fn trailers(&self, trailers: Option<&HeaderMap>) -> Outcome {
        trailers.and_then(grpc::outcome).unwrap_or(Outcome::Exception)
    }

    fn error(&self, _error: &E) -> Outcome {
        Outcome::Exception
    }
}

/// A classification by a closure that looks at the head of the response. The request ends with its
/// body. An error of the service is an exception.
///
/// ```
/// use leaparray::Outcome;
/// use leaparray_tower::{ByHead, Classify, End};
///
/// // For a client: a server that refuses requests has not done its work.
/// let classify = ByHead(|head: &http::response::Parts| match head.status.as_u16() {
///     429 | 500.. => Outcome::Exception,
///     _ => Outcome::Success,
/// });
/// let (head, ()) = http::Response::builder().status(429).body(())?.into_parts();
/// let end = Classify::<std::io::Error>::head(&classify, &head);
/// assert_eq!(end, End::AtBody(Outcome::Exception));
/// # Ok::<_, http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByHead<F>(pub F);

impl<E, F: Fn(&Parts) -> Outcome + Clone> Classify<E> for ByHead<F> {
    fn head(&self, head: &Parts) -> End {
        End::AtBody((self.0)(head))
    }

    fn trailers(&self, _trailers: Option<&HeaderMap>) -> Outcome {
        Outcome::Exception
    }

    fn error(&self, _error: &E) -> Outcome {
        Outcome::Exception
    }
}

/// Returns whether a content type is neither of gRPC nor of server-sent events, by the two bytes at
/// which most other types differ from these. May return false for such a type.
#[inline]
fn is_plain(content_type: &[u8]) -> bool {
    let is = |at: usize, letter: u8| content_type.get(at).is_some_and(|it| it | 0x20 == letter);
    !is("application/".len(), b'g') && !is("text/".len(), b'e')
}

/// Returns the end of a request by the content type of its response, with the outcome of its HTTP
/// status. Out of line, so that the usual rest takes few registers.
#[inline(never)]
fn end_by_content(head: &Parts, content_type: &[u8], outcome: Outcome) -> End {
    match Protocol::of(content_type) {
        Some(protocol) if head.status.is_success() => end_of_grpc(protocol, head, outcome),
        _ if is_event_stream(content_type) => End::AtHeadOfStream(outcome),
        _ => End::AtBody(outcome),
    }
}

/// Returns the end of a call, with the outcome of its HTTP status.
fn end_of_grpc(protocol: Protocol, head: &Parts, outcome: Outcome) -> End {
    match (grpc::outcome(&head.headers), protocol) {
        // There are no messages: a client need not read the end of the body.
        (Some(outcome), _) => End::AtHead(outcome),
        (None, Protocol::Grpc) => End::AtTrailers,
        (None, Protocol::Web) => End::AtBody(outcome),
    }
}

/// Returns the content type, or nothing if there is none.
#[inline]
fn content_type(headers: &HeaderMap) -> &[u8] {
    /// Up to this number, comparing the names takes fewer instructions than a hash.
    const FEW: usize = 4;
    let value = if headers.len() <= FEW {
        headers.iter().find(|(name, _)| *name == CONTENT_TYPE).map(|(_, value)| value)
    } else {
        by_hash(headers)
    };
    value.map_or(&[], HeaderValue::as_bytes)
}

/// Returns the content type. Out of line, as [`end_by_content`] is.
#[inline(never)]
fn by_hash(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(CONTENT_TYPE)
}

#[inline]
fn outcome_of(status: StatusCode) -> Outcome {
    match status.as_u16() {
        408 | 500.. => Outcome::Exception,
        _ => Outcome::Success,
    }
}
