//! Yielding to a thread that does the same work, for a bounded time.

/// A bounded number of yields.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Backoff(crossbeam_utils::Backoff);

#[cfg(not(loom))]
impl Backoff {
    pub(crate) fn new() -> Self {
        Self(crossbeam_utils::Backoff::new())
    }

    /// Spins at first, and later yields to the scheduler. Once the bound is reached, returns `false` at once.
    pub(crate) fn snooze(&mut self) -> bool {
        if self.0.is_completed() {
            return false;
        }
        self.0.snooze();
        true
    }
}

/// No yields at all: in a model, the lock holder has always stalled. At a yield, loom would run the lock holder to its end,
/// and so never explore what happens without the lock.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Backoff;

#[cfg(loom)]
impl Backoff {
    pub(crate) fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the real one counts")]
    pub(crate) fn snooze(&mut self) -> bool {
        false
    }
}
