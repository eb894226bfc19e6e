//! How long to wait for somebody else before doing the work oneself.

/// A bounded number of yields.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Backoff(crossbeam_utils::Backoff);

#[cfg(not(loom))]
impl Backoff {
    pub(crate) fn new() -> Self {
        Self(crossbeam_utils::Backoff::new())
    }

    /// Spins at first, then yields to the scheduler; `false`, at once, when it is used up.
    pub(crate) fn snooze(&mut self) -> bool {
        if self.0.is_completed() {
            return false;
        }
        self.0.snooze();
        true
    }
}

/// None at all: to a model, whoever has what is waited for has stalled. Loom would run it to its
/// end at the first yield, and so never show what the lock does not keep out.
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
