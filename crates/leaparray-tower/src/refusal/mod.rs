//! The responses and the errors for refused requests.

mod answer;
mod error;

use http::Response;
use leaparray::Timestamp;
use leaparray::flow::{Quota, Refusal};

pub use answer::Answer;
pub use error::{CallError, Fail};

/// A refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The reason, and when to ask again.
    pub refusal: Refusal,
    /// The time of the refusal.
    pub at: Timestamp,
    /// The state of the limit, if the limiter has one.
    pub quota: Option<Quota>,
    /// Whether the request is one of gRPC, by its content type.
    pub is_grpc: bool,
}

/// What a layer does with a refused request: a response of the service's kind, or an error.
///
/// `B` is the body of the service's responses, and `E` its error. [`Answer`] is the default, for
/// servers. [`Fail`] returns a typed error, for clients.
///
/// ```
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
///     fn refuse(&self, refused: &Refused) -> Result<Response<Option<String>>, E> {
///         let response = Refuse::<String, E>::refuse(&Answer, refused)?;
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
    /// empty one.
    ///
    /// # Errors
    ///
    /// Returns the error of a layer that does not answer.
    fn refuse(&self, refused: &Refused) -> Result<Response<Option<B>>, Self::Error>;

    /// Converts an error of the service.
    fn error(error: E) -> Self::Error;
}
