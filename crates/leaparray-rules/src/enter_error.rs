//! Why a request has not entered.

use std::fmt;

use leaparray::flow::Refusal;
use leaparray::registry::RegistryError;

/// Why a request has not entered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnterError {
    /// A rule has refused it.
    Refused(Refusal),
    /// The registry has no such resource, and cannot list it.
    NotListed(RegistryError),
}

impl From<Refusal> for EnterError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<RegistryError> for EnterError {
    fn from(error: RegistryError) -> Self {
        Self::NotListed(error)
    }
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NotListed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EnterError {}
