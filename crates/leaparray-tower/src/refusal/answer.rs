//! The responses to refused requests.

use std::fmt::{Arguments, Write};

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use leaparray::flow::{NO_ROOM_FOR_KEY, Reason};

use super::{Refuse, Refused};
use crate::grpc::Code;

/// Answers refused requests, with an empty body.
///
/// The status is 503 if the [backend fails](Reason::Failing), a [queue is full](Reason::QueueFull),
/// or a keyed limiter has [no room](NO_ROOM_FOR_KEY) for a further client, and 429 otherwise. If
/// the time until the next attempt is known, it is in `Retry-After`, in whole seconds. If the
/// limiter has a [quota](leaparray::flow::Limiter::quota_at), the response has the headers
/// `RateLimit` and `RateLimit-Policy` of the IETF's [draft][ietf]: the limit `q`, the remaining
/// permits `r`, and the seconds `t` until all of them remain again.
///
/// A request of gRPC gets the status `UNAVAILABLE` instead of 503, and `RESOURCE_EXHAUSTED` instead
/// of 429. Its response also has the time until the next attempt in `grpc-retry-pushback-ms`, in
/// milliseconds.
///
/// [ietf]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
///
/// ```
/// use http::{Request, Response};
/// use leaparray::Registry;
/// use leaparray::flow::{Rate, TokenBucket};
/// use leaparray_tower::ResourceLayer;
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let name = |_: &Request<()>, name: &mut String| name.push_str("search");
/// // One request at a time, and another one after a minute.
/// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
/// let layer = ResourceLayer::new(Arc::new(Registry::new()), name)?.limit(Arc::new(bucket));
/// let answer = async |_| Ok::<_, Infallible>(Response::new(String::new()));
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
///
/// assert_eq!(service.clone().oneshot(Request::new(())).await?.status(), 200);
/// let refused = service.oneshot(Request::new(())).await?;
/// assert_eq!(refused.status(), 429);
/// assert_eq!(refused.headers()["retry-after"], "60");
/// assert_eq!(refused.headers()["ratelimit-policy"], "\"default\";q=1");
/// assert_eq!(refused.headers()["ratelimit"], "\"default\";r=0;t=60");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer;

/// The name of the only policy.
const POLICY: &str = "default";

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

impl<B, E> Refuse<B, E> for Answer {
    type Error = E;

    fn refuse(&self, refused: &Refused) -> Result<Response<Option<B>>, E> {
        Ok(if refused.is_grpc { grpc(refused) } else { http(refused) })
    }

    fn error(error: E) -> E {
        error
    }
}

/// The greatest integer of a structured field (RFC 9651, section 3.3.1).
const GREATEST: u64 = 999_999_999_999_999;

/// Returns whether the server cannot serve the request now, which may be the client's first.
fn is_unavailable(refused: &Refused) -> bool {
    [Reason::Failing, Reason::QueueFull, NO_ROOM_FOR_KEY].contains(&refused.refusal.reason)
}

fn http<B>(refused: &Refused) -> Response<Option<B>> {
    let mut response = Response::new(None);
    *response.status_mut() = if is_unavailable(refused) {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::TOO_MANY_REQUESTS
    };
    insert_advice(response.headers_mut(), refused);
    response
}

/// Inserts the time of the next attempt, and the quota.
fn insert_advice(headers: &mut HeaderMap, refused: &Refused) {
    if let Some(after) = refused.refusal.retry_after(refused.at) {
        headers.insert(RETRY_AFTER, after.as_secs().into());
    }
    if let Some(quota) = refused.quota {
        let [limit, remaining] = [quota.limit, quota.remaining].map(|it| it.min(GREATEST));
        headers.insert(RATE_LIMIT_POLICY, value(format_args!("\"{POLICY}\";q={limit}")));
        let remaining = match quota.reset_after(refused.at).map(|reset| reset.as_secs()) {
            Some(reset) => value(format_args!("\"{POLICY}\";r={remaining};t={reset}")),
            None => value(format_args!("\"{POLICY}\";r={remaining}")),
        };
        headers.insert(RATE_LIMIT, remaining);
    }
}

fn grpc<B>(refused: &Refused) -> Response<Option<B>> {
    let mut response = Response::new(None);
    let headers = response.headers_mut();
    let code = if is_unavailable(refused) { Code::UNAVAILABLE } else { Code::RESOURCE_EXHAUSTED };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", code.number().into());
    headers.insert("grpc-message", message(refused.refusal.reason));
    if let Some(at) = refused.refusal.retry_at() {
        let wait = at.saturating_since(refused.at);
        let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        headers.insert("grpc-retry-pushback-ms", millis.into());
    }
    insert_advice(headers, refused);
    response
}

/// Returns the reason as a message of gRPC, in which all but printable ASCII is escaped.
fn message(reason: Reason) -> HeaderValue {
    let mut message = String::new();
    for byte in reason.to_string().bytes() {
        match byte {
            b'%' | 0..b' ' | 0x7f.. => drop(write!(message, "%{byte:02X}")),
            _ => message.push(byte.into()),
        }
    }
    value(format_args!("{message}"))
}

fn value(text: Arguments<'_>) -> HeaderValue {
    // With room for each of the values, so that the string is allocated once.
    let mut value = String::with_capacity(64);
    value.write_fmt(text).expect("a string takes all text");
    HeaderValue::try_from(value).expect("printable ASCII")
}
