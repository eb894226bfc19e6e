//! The runtime of a task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

/// Why there is no runtime for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRuntime {
    /// There is none.
    None,
    /// It has no timers: the task would panic at its first wait.
    NoTimers,
}

/// Returns the runtime of the caller, which has timers.
pub(crate) fn current() -> Result<Handle, NoRuntime> {
    let runtime = Handle::try_current().map_err(|_| NoRuntime::None)?;
    // Tokio has no other way to ask.
    catch_unwind(AssertUnwindSafe(|| drop(sleep(Duration::ZERO))))
        .map_err(|_| NoRuntime::NoTimers)?;
    Ok(runtime)
}
