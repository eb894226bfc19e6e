//! A bounded backoff, for a thread that waits for another thread to do the same work.

/// A bounded number of yields.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Backoff(crossbeam_utils::Backoff);

#[cfg(not(loom))]
impl Backoff {
    pub(crate) fn new() -> Self {
        Self(crossbeam_utils::Backoff::new())
    }

    /// Spins at first, and later yields to the scheduler. Once the bound is reached, returns
    /// `false` at once.
    pub(crate) fn snooze(&mut self) -> bool {
        if self.0.is_completed() {
            return false;
        }
        self.0.snooze();
        true
    }
}

/// A backoff without yields: in a model, the lock holder always counts as stalled. At a yield, loom
/// would run the lock holder to its end, and would never explore an execution that proceeds without
/// the lock.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Backoff;

#[cfg(loom)]
impl Backoff {
    pub(crate) fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "outside of loom, it counts the yields")]
    pub(crate) fn snooze(&mut self) -> bool {
        false
    }
}
