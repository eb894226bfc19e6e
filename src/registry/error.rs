//! What a registry refuses.

use std::error::Error;
use std::fmt;

/// Why a [`Registry`](crate::Registry) has no node for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is not listed, and as many are as may be.
    Full {
        /// How many may be.
        max: usize,
        /// The name that was asked for.
        name: Box<str>,
    },
    /// The resource does not have this context, and has as many as it may have.
    TooManyContexts {
        /// How many it may have.
        max: usize,
        /// The name of the resource.
        resource: Box<str>,
        /// The context that was asked for.
        context: Box<str>,
    },
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { max, name } => {
                write!(f, "{name:?} would be one more than the {max} resources there may be")
            }
            Self::TooManyContexts { max, resource, context } => write!(
                f,
                "{context:?} would be one more than the {max} contexts that {resource:?} may have"
            ),
        }
    }
}

impl Error for RegistryError {}
