//! The errors of a registry.

use std::error::Error;
use std::fmt;

/// The error of a [`Registry`](crate::Registry) that has no room for a new resource or context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name is not listed, and the registry has its maximum number of resources.
    Full {
        /// The maximum.
        max: usize,
        /// The name that was asked for.
        name: Box<str>,
    },
    /// The resource does not have this context, and has its maximum number of contexts.
    TooManyContexts {
        /// The maximum.
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
                write!(
                    f,
                    "no room for resource {name:?}: the registry is limited to {max} resources"
                )
            }
            Self::TooManyContexts { max, resource, context } => write!(
                f,
                "no room for context {context:?}: resource {resource:?} is limited to {max} contexts"
            ),
        }
    }
}

impl Error for RegistryError {}
