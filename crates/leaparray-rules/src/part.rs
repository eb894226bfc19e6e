//! The part of a limit in flight that a request may use.

use leaparray::flow::shadow::Share;

/// The part of a limit in flight that a request may use. It is of the version of the rules by which
/// the request is decided.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// All of it.
    Whole,
    /// The share of its class.
    Share(Share),
    /// The fair share of its tenant. The name is empty for the requests without one.
    Tenant { name: &'a str, weight: u32 },
}

impl Part<'_> {
    /// Returns the share that classes divide the limit by.
    pub(crate) const fn share(self) -> Share {
        match self {
            Self::Share(share) => share,
            Self::Whole | Self::Tenant { .. } => Share::ALL,
        }
    }
}
