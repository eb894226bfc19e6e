//! What is done in a turn.

use super::Record;

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Nothing,
    Record {
        record: Record,
        through: Through,
        /// By the form that takes the time, not by the one that reads the clock.
        at: bool,
    },
    /// The buckets of the array that are held are released.
    Release,
}

/// The handle to record through. What is recorded in the window is recorded in the array as well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Through {
    Window,
    View,
    /// A clone that is dropped at once.
    Clone,
    /// The window; and the array's bucket is held from then on.
    Hold,
    /// Every bucket of the array that is held, whatever the time; and the window, at the time since
    /// which it is held.
    Held,
}
