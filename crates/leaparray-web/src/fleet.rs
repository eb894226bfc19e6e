//! The fleet that is shown.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::format::Fleet;

type Read = dyn Fn() -> Option<Fleet> + Send + Sync;

/// The function that returns the fleet, if the page has one.
#[derive(Clone, Default)]
pub(crate) struct FleetSource(Option<Arc<Read>>);

impl FleetSource {
    pub(crate) fn new(read: impl Fn() -> Option<Fleet> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// Returns whether the page has a fleet.
    pub(crate) const fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the fleet now; `None` without figures of it, or if the function panics.
    pub(crate) fn read(&self) -> Option<Fleet> {
        let read = self.0.as_ref()?;
        // The next reading calls the function again.
        catch_unwind(AssertUnwindSafe(|| read())).ok().flatten()
    }
}

impl fmt::Debug for FleetSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.exists() { "FleetSource" } else { "None" })
    }
}
