//! The errors of refused requests.

use std::error::Error;
use std::fmt;

use http::Response;
use http::request::Parts;

use super::{Refuse, Refused};

/// Returns [`CallError::Refused`] for refused requests.
///
/// A client of tonic shows this error as the source of a status `UNKNOWN`. With
/// [`Answer`](super::Answer), it shows `RESOURCE_EXHAUSTED` or `UNAVAILABLE`, as if the server had
/// refused the request.
///
/// ```
/// use http::{Request, Response};
/// use leaparray::Registry;
/// use leaparray::flow::{ConcurrencyLimiter, Reason};
/// use leaparray_tower::{CallError, Fail, ResourceLayer};
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let name = |_: &Request<()>, name: &mut String| name.push_str("search");
/// let layer = ResourceLayer::outbound(Arc::new(Registry::new()), name)?;
/// let layer = layer.limit(Arc::new(ConcurrencyLimiter::new(1))).refuse(Fail);
/// let answer = async |_| Ok::<_, Infallible>(Response::new("found".to_owned()));
/// let client = ServiceBuilder::new().layer(layer).service(service_fn(answer));
///
/// // In flight until its body is dropped or read to its end.
/// let first = client.clone().oneshot(Request::new(())).await?;
/// match client.oneshot(Request::new(())).await {
///     Err(CallError::Refused(refused)) => {
///         assert_eq!(refused.refusal.reason, Reason::LimitReached);
///     }
///     other => panic!("not refused: {other:?}"),
/// }
/// # drop(first);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fail;

/// The error of a service whose layer refuses requests with an [error](Fail).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The layer has refused the request. It has not reached the service.
    Refused(Refused<'static>),
    /// The service has returned an error.
    Service(E),
}

impl<B, E> Refuse<B, E> for Fail {
    type Error = CallError<E>;

    fn refuse(
        &self,
        refused: &Refused,
        _request: &Parts,
    ) -> Result<Response<Option<B>>, CallError<E>> {
        Err(CallError::Refused(refused.clone().into_owned()))
    }

    fn error(error: E) -> CallError<E> {
        CallError::Service(error)
    }
}

impl<E> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.refusal.fmt(f),
            Self::Service(_) => f.write_str("the service failed"),
        }
    }
}

impl<E: Error + 'static> Error for CallError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(_) => None,
            Self::Service(error) => Some(error),
        }
    }
}
