//! The scenes of the stall tests.

/// The action of the stopped thread, and the state in which it finds the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// An add where nothing was recorded before.
    First,
    /// An add that replaces a stale bucket. In a window, the thread adopts a cell that is bound to
    /// the bucket before.
    Rotate,
    /// Like `Rotate`, but the thread's own cell is bound to the bucket before.
    Next,
    /// Like `Rotate`, but a second abandoned cell is there to be retired.
    Orphan,
    /// An add that recycles a wrap which another thread is still adding up.
    Refused,
    /// An add to a bucket that is there. In a window, the thread adopts a cell that is bound to it.
    Join,
    /// A second add to the same bucket.
    Again,
    /// An add that is one lap behind.
    Late,
    Sum,
    Values,
    Ledger,
    /// A read that finds a publication whose steps are not completed.
    Incomplete,
    /// An add by a thread that finds such a publication when it seals its own cell.
    IncompleteAdd,
}
