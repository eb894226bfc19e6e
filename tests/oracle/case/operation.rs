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
    /// Who held buckets lets go of them.
    Release,
}

/// The handle to record through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Through {
    Window,
    View,
    /// A clone that is dropped at once.
    Clone,
    /// The window; and the bucket is held from then on.
    Hold,
    /// Every bucket that is held, whatever the time.
    Held,
}
