//! The responses and the errors for refused requests.

mod answer;
mod error;
pub(crate) mod headers;
#[cfg(feature = "problem")]
mod problem;
mod spread;

use std::borrow::Cow;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Response};
use leaparray::Timestamp;
use leaparray::flow::{Quota, Refusal};

pub use answer::Answer;
pub use error::{CallError, Fail};
#[cfg(feature = "problem")]
pub use problem::Problem;
pub use spread::Spread;

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused<'a> {
    /// The reason, and when to ask again.
    pub refusal: Refusal,
    /// The name of the resource.
    pub resource: Cow<'a, str>,
    /// The time of the refusal. If the refusal refers to a time that is past for the registry,
    /// since the clock of the limiter is behind, this is the limiter's time.
    pub at: Timestamp,
    /// The state of [each limit](leaparray::flow::Account::each_quota) of the limiter that
    /// has one.
    pub quotas: Vec<Quota>,
    /// Whether the request is one of gRPC, by its content type.
    pub is_grpc: bool,
}

impl Refused<'_> {
    /// Returns this refused request with a name of its own.
    pub(crate) fn into_owned(self) -> Refused<'static> {
        let Self { refusal, resource, at, quotas, is_grpc } = self;
        Refused { refusal, resource: Cow::Owned(resource.into_owned()), at, quotas, is_grpc }
    }

    /// Returns the time until asking again can succeed, rounded up to whole seconds, at least one;
    /// `None` if it is not known, or if there is none.
    ///
    /// A limiter whose parts have different clocks may name a time that is past. Asking again at
    /// once is then refused again, so the result is a second.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        Some(self.refusal.retry_after(self.at)?.max(Duration::from_secs(1)))
    }

    /// Adds the headers `Retry-After`, `RateLimit-Policy` and `RateLimit` to those of a response,
    /// as [`Answer`] does. For a [`Refuse`] that makes the response by itself.
    ///
    /// Items of `RateLimit` that the response has are kept, and of two times the later one is the
    /// `Retry-After`. So the limits of two layers, or those of a backend, stand beside each other.
    ///
    /// ```
    /// use http::Response;
    /// use http::request::Parts;
    /// use leaparray_tower::{Refuse, Refused};
    ///
    /// /// Answers in plain text.
    /// #[derive(Clone)]
    /// struct Text;
    ///
    /// impl<E> Refuse<String, E> for Text {
    ///     type Error = E;
    ///
    ///     fn refuse(&self, refused: &Refused, _: &Parts) -> Result<Response<Option<String>>, E> {
    ///         let mut response = Response::new(Some("too many requests".to_owned()));
    ///         *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
    ///         refused.add_headers(response.headers_mut());
    ///         Ok(response)
    ///     }
    ///
    ///     fn error(error: E) -> E {
    ///         error
    ///     }
    /// }
    /// # use std::{convert::Infallible, sync::Arc};
    /// # use http::Request;
    /// # use leaparray::flow::{FixedWindowLimiter, LimiterExt};
    /// # use leaparray_tower::ResourceLayer;
    /// # use tower::{ServiceBuilder, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let registry = Arc::new(leaparray::Registry::new());
    /// # let minute = std::time::Duration::from_secs(60);
    /// # let limiter = FixedWindowLimiter::new(minute, 0)?.named("none");
    /// # let name = |_: &Request<()>, name: &mut String| name.push_str("search");
    /// # let layer = ResourceLayer::new(registry, name)?.limit(Arc::new(limiter)).refuse(Text);
    /// # let answer = async |_| Ok::<_, Infallible>(Response::new(String::new()));
    /// # let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
    /// # let response = service.oneshot(Request::new(())).await?;
    /// # assert_eq!(response.headers()["ratelimit-policy"], "\"none\";q=0;w=60");
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        let retry_after = self.retry_after();
        headers::add_retry_after(headers, retry_after);
        headers::add_quotas(headers, &self.quotas, self.at, retry_after);
    }
}

/// What a layer does with a refused request: a response of the service's kind, or an error.
///
/// `B` is the body of the service's responses, and `E` its error. [`Answer`] is the default, for
/// servers. [`Fail`] returns a typed error, for clients.
///
/// ```
/// use http::request::Parts;
/// use http::{Request, Response};
/// use leaparray::Registry;
/// use leaparray::flow::ConcurrencyLimiter;
/// use leaparray_tower::{Answer, Refuse, Refused, ResourceLayer};
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// /// Answers as [`Answer`] does, and adds a text.
/// #[derive(Clone)]
/// struct WithText;
///
/// impl<E> Refuse<String, E> for WithText {
///     type Error = E;
///
///     fn refuse(
///         &self,
///         refused: &Refused,
///         request: &Parts,
///     ) -> Result<Response<Option<String>>, E> {
///         let response = Refuse::<String, E>::refuse(&Answer, refused, request)?;
///         Ok(response.map(|_| Some("Please try again in a minute.".to_owned())))
///     }
///
///     fn error(error: E) -> E {
///         error
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use http_body_util::BodyExt;
///
/// let name = |_: &Request<()>, name: &mut String| name.push_str("search");
/// let layer = ResourceLayer::new(Arc::new(Registry::new()), name)?;
/// let layer = layer.limit(Arc::new(ConcurrencyLimiter::new(1))).refuse(WithText);
/// let answer = async |_| Ok::<_, Infallible>(Response::new("found".to_owned()));
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
///
/// let first = service.clone().oneshot(Request::new(())).await?;
/// let refused = service.oneshot(Request::new(())).await?;
/// assert_eq!(
///     refused.into_body().collect().await?.to_bytes(),
///     "Please try again in a minute."
/// );
/// # drop(first);
/// # Ok(())
/// # }
/// ```
pub trait Refuse<B, E> {
    /// The error of the layer's service.
    type Error;

    /// Returns the response to a refused request, or the error. A response without a body has an
    /// empty one. `request` is the head of the request, with the extensions that outer layers have
    /// added.
    ///
    /// # Errors
    ///
    /// Returns the error of a layer that does not answer.
    fn refuse(
        &self,
        refused: &Refused,
        request: &Parts,
    ) -> Result<Response<Option<B>>, Self::Error>;

    /// Converts an error of the service.
    fn error(error: E) -> Self::Error;
}
