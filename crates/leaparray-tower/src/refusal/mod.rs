//! What becomes of a request that is refused.

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
/// `B` is the body of the service's responses, and `E` its error. [`Answer`] is the default, for servers. [`Fail`] returns a
/// typed error, for clients.
pub trait Refuse<B, E> {
    /// The error of the layer's service.
    type Error;

    /// Returns the response to a refused request, or the error. A response without a body has an empty one.
    ///
    /// # Errors
    ///
    /// Returns the error of a layer that does not answer.
    fn refuse(&self, refused: &Refused) -> Result<Response<Option<B>>, Self::Error>;

    /// Converts an error of the service.
    fn error(error: E) -> Self::Error;
}
