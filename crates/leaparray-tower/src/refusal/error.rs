//! The errors of refused requests.

use std::error::Error;
use std::fmt;

use http::Response;

use super::{Refuse, Refused};

/// Returns [`CallError::Refused`] for refused requests.
///
/// A client of tonic shows this error as the source of a status `UNKNOWN`. With [`Answer`](super::Answer), it shows
/// `RESOURCE_EXHAUSTED` or `UNAVAILABLE`, as if the server had refused the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fail;

/// The error of a service whose layer refuses requests with an [error](Fail).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The layer has refused the request. It has not reached the service.
    Refused(Refused),
    /// The service has returned an error.
    Service(E),
}

impl<B, E> Refuse<B, E> for Fail {
    type Error = CallError<E>;

    fn refuse(&self, refused: &Refused) -> Result<Response<Option<B>>, CallError<E>> {
        Err(CallError::Refused(*refused))
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
