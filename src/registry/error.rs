//! The errors of a registry.

use std::error::Error;
use std::fmt;

use super::name;

/// The error of a [`Registry`](crate::Registry) that has no room for a new resource or context, or
/// refuses its name.
///
/// ```
/// use leaparray::Registry;
/// use leaparray::registry::RegistryError;
///
/// let registry = Registry::new();
/// let refused = registry.resource("GET /orders\n").unwrap_err();
/// assert_eq!(refused, RegistryError::InvalidName { name: "GET /orders\n".into() });
/// assert!(refused.to_string().starts_with(r#"the name "GET /orders\n" contains '\n'"#));
/// assert!(registry.resource("GET /orders")?.in_context("").is_err());
/// assert_eq!(registry.refused(), 2);
/// # Ok::<_, RegistryError>(())
/// ```
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
    /// The name is not listed, and the thread that asked for it ends: it can look names up, and
    /// list none. Not returned before the destructors of the thread's locals run.
    ThreadEnds {
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
    /// The name of the new resource or context is empty, or contains a control character or a line
    /// break: a character of the Unicode category `Cc`, such as `\n` or `\t`, or U+2028 or U+2029.
    InvalidName {
        /// The name that was asked for.
        name: Box<str>,
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
            Self::ThreadEnds { name } => write!(
                f,
                "resource {name:?} is not listed, and a thread whose locals are destroyed can list \
                 none: look it up earlier, or on another thread"
            ),
            Self::TooManyContexts { max, resource, context } => write!(
                f,
                "no room for context {context:?}: resource {resource:?} is limited to {max} contexts"
            ),
            Self::InvalidName { name } => name::explain_invalid(f, name),
        }
    }
}

impl Error for RegistryError {}
