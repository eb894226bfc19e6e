//! The report of a change of the rules.

use std::fmt;
use std::sync::Arc;

/// The report of a change of the rules: plain data. Returned by
/// [`Rules::apply`](crate::Rules::apply).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// The number of changes up to this one.
    pub version: u64,
    /// The rules that are new, in their order.
    pub added: Vec<Arc<str>>,
    /// The rules that were changed and have kept their state, in their order.
    pub changed: Vec<Arc<str>>,
    /// The rules that were changed and begin without a state, in their order: their limiters are of
    /// another kind.
    pub begun_anew: Vec<Arc<str>>,
    /// The rules that are gone, by their names.
    pub removed: Vec<Arc<str>>,
    /// The number of rules that are as before.
    pub unchanged: usize,
    /// The rules that decide and are not shown, because the registry watches another limiter under
    /// the name.
    pub not_shown: Vec<Arc<str>>,
    /// The rules over a fleet that have no leases, because these rules have no fleet, or the
    /// operating system has no random number. They decide as if the server was away.
    pub not_started: Vec<Arc<str>>,
}

impl Changes {
    /// Returns whether the rules are as before.
    ///
    /// ```
    /// assert!(leaparray_rules::Changes::default().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { added, changed, begun_anew, removed, .. } = self;
        [added, changed, begun_anew, removed].into_iter().all(Vec::is_empty)
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, added, changed, begun_anew, removed, unchanged, .. } = self;
        write!(
            f,
            "version {version}: {} added, {} changed, {} begun anew, {} removed, {unchanged} as \
             before",
            added.len(),
            changed.len(),
            begun_anew.len(),
            removed.len(),
        )
    }
}
