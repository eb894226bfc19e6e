//! The functions of the user that return the fleet and the rules for the page.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::format::{Fleet, RuleList};

/// The function that returns the fleet, if the page has one.
pub(crate) type FleetSource = Source<Fleet>;

/// The function that returns the rules, if the page has one.
pub(crate) type RuleSource = Source<RuleList>;

type Read<T> = dyn Fn() -> Option<T> + Send + Sync;

/// A function that returns what is shown, if the page has one.
pub(crate) struct Source<T>(Option<Arc<Read<T>>>);

impl<T> Source<T> {
    pub(crate) fn new(read: impl Fn() -> Option<T> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// Returns whether the page has such a function.
    pub(crate) const fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Returns what is shown now; `None` if there is nothing, or if the function panics.
    pub(crate) fn read(&self) -> Option<T> {
        let read = self.0.as_ref()?;
        // The next reading calls the function again.
        catch_unwind(AssertUnwindSafe(|| read())).ok().flatten()
    }
}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Source<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.exists() { "Source" } else { "None" })
    }
}
