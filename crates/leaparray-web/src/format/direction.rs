//! The direction of calls.

use serde::{Deserialize, Serialize};

/// The direction of the calls to a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Direction {
    /// Calls to the service.
    #[default]
    In,
    /// Calls by the service to others.
    Out,
}
