//! The operation of a turn.

use super::Record;

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Nothing,
    Record {
        record: Record,
        through: Through,
        /// Whether to record by the method that takes the time, not by the method that reads the
        /// clock.
        at: bool,
    },
    /// Releases the pinned buckets of the array.
    Release,
}

/// The handle through which to record. Each record in the window is made in the array as well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Through {
    Window,
    View,
    /// A clone of the window that is dropped at once.
    Clone,
    /// The window. The array's bucket is pinned from then on.
    Hold,
    /// Every pinned bucket of the array, whatever the time, and the window, at the time for which
    /// the bucket was looked up.
    Pinned,
}
