//! The responses to refused requests.

use std::fmt::Write;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use leaparray::flow::{Reason, Refusal, Retry};

use super::{Refuse, Refused};
use crate::grpc::{Code, timeout};

/// Answers refused requests, with an empty body.
///
/// The status is 503 if the [backend fails](Reason::Failing), a [queue is full](Reason::QueueFull),
/// or a keyed limiter has [no room](Reason::NO_ROOM_FOR_KEY) for a further client, and 429
/// otherwise. If the time until the next attempt is known, it is in `Retry-After`, in whole
/// seconds, at least one.
///
/// If the limiter has [quotas](leaparray::flow::Account::each_quota), the response has the
/// headers `RateLimit-Policy` and `RateLimit` of the IETF's [draft 11][ietf], with an item for each
/// limit:
///
/// | parameter | value |
/// |---|---|
/// | the item itself | the [name](leaparray::flow::LimiterExt::named) of the limit, or `default`; for a further limit with that name `default-2`, and so on. Characters other than printable ASCII are written as `_` |
/// | `q` | the limit |
/// | `qu` | `concurrent-requests` for a limit of the requests in flight, `cost` for one of costs |
/// | `w` | the [window](leaparray::flow::Quota::window) in seconds, rounded up, if it has at least one |
/// | `r` | the permits that remain |
/// | `t` | the effective window: the seconds in which a client gets no more than these. It ends when all permits remain again or with `Retry-After`, whichever is earlier |
///
/// `pk` is not sent: a key of a client may be confidential.
///
/// A request of gRPC gets the status `UNAVAILABLE` instead of 503, and `RESOURCE_EXHAUSTED` instead
/// of 429. Its response also has the time until the next attempt in `grpc-retry-pushback-ms`, in
/// milliseconds. If the request can never succeed, or not before the deadline of the call, the
/// number is -1: a client must not retry, and reports the refusal at once. With a later time, some
/// clients wait for the deadline and report that.
///
/// [ietf]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
///
/// ```
/// use http::{Request, Response};
/// use leaparray::Registry;
/// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
/// use leaparray_tower::ResourceLayer;
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let name = |_: &Request<()>, name: &mut String| name.push_str("search");
/// // One request at a time, and another one after a minute.
/// let registry = Arc::new(Registry::new());
/// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1).named("searches");
/// let layer = ResourceLayer::new(registry, name)?.limit(Arc::new(bucket));
/// let answer = async |_| Ok::<_, Infallible>(Response::new(String::new()));
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
///
/// assert_eq!(service.clone().oneshot(Request::new(())).await?.status(), 200);
/// let refused = service.oneshot(Request::new(())).await?;
/// assert_eq!(refused.status(), 429);
/// assert_eq!(refused.headers()["retry-after"], "60");
/// assert_eq!(refused.headers()["ratelimit-policy"], "\"searches\";q=1;w=60");
/// assert_eq!(refused.headers()["ratelimit"], "\"searches\";r=0;t=60");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer;

impl<B, E> Refuse<B, E> for Answer {
    type Error = E;

    fn refuse(&self, refused: &Refused, request: &Parts) -> Result<Response<Option<B>>, E> {
        Ok(if refused.is_grpc { grpc(refused, request) } else { http(refused) })
    }

    fn error(error: E) -> E {
        error
    }
}

/// Returns whether the server cannot serve the request now, which may be the client's first.
pub(super) fn is_unavailable(refused: &Refused) -> bool {
    [Reason::Failing, Reason::QueueFull, Reason::NO_ROOM_FOR_KEY].contains(&refused.refusal.reason)
}

/// Returns the status of the response to a request that is not one of gRPC.
pub(super) fn status(refused: &Refused) -> StatusCode {
    if is_unavailable(refused) {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::TOO_MANY_REQUESTS
    }
}

fn http<B>(refused: &Refused) -> Response<Option<B>> {
    let mut response = Response::new(None);
    *response.status_mut() = status(refused);
    refused.add_headers(response.headers_mut());
    response
}

fn grpc<B>(refused: &Refused, request: &Parts) -> Response<Option<B>> {
    let mut response = Response::new(None);
    let headers = response.headers_mut();
    let code = if is_unavailable(refused) { Code::UNAVAILABLE } else { Code::RESOURCE_EXHAUSTED };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", code.number().into());
    headers.insert("grpc-message", message(&refused.refusal));
    if let Some(pushback) = pushback(refused, timeout(&request.headers)) {
        headers.insert("grpc-retry-pushback-ms", pushback.into());
    }
    refused.add_headers(headers);
    response
}

/// Returns the milliseconds until a client may retry; -1 if it must not; `None` if the limiter does
/// not know.
fn pushback(refused: &Refused, timeout: Option<Duration>) -> Option<i64> {
    let at = match refused.refusal.retry() {
        Retry::At(at) => at,
        Retry::Never => return Some(-1),
        _ => return None,
    };
    let wait = at.saturating_since(refused.at);
    if timeout.is_some_and(|timeout| wait >= timeout) {
        return Some(-1);
    }
    let millis = i64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    // As for `Refused::retry_after`: zero would say that the call may be repeated at once.
    Some(if millis == 0 { 1_000 } else { millis })
}

/// Returns the reason, after the name of the limiter if it has one, as a message of gRPC, in which
/// all but printable ASCII is escaped.
fn message(refusal: &Refusal) -> HeaderValue {
    let text = match refusal.limiter() {
        Some(name) => format!("{name}: {}", refusal.reason),
        None => refusal.reason.to_string(),
    };
    let mut message = String::new();
    for byte in text.bytes() {
        match byte {
            b'%' | 0..b' ' | 0x7f.. => drop(write!(message, "%{byte:02X}")),
            _ => message.push(byte.into()),
        }
    }
    HeaderValue::try_from(message).expect("printable ASCII")
}
