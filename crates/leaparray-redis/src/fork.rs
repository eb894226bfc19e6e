//! Whether this is a forked child of the process that has started a task.

/// The process that has started a task. A forked child has a copy of its state: the task does not
/// run there, or it would write to the connections of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Starter(u32);

impl Starter {
    /// Returns this process.
    pub(crate) fn here() -> Self {
        Self(std::process::id())
    }

    /// Returns whether this is another process. It takes a system call.
    pub(crate) fn is_elsewhere(self) -> bool {
        self != Self::here()
    }
}
