//! How long to wait for somebody else before doing the work oneself.

/// A bounded number of yields.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Patience(crossbeam_utils::Backoff);

#[cfg(not(loom))]
impl Patience {
    pub(crate) fn new() -> Self {
        Self(crossbeam_utils::Backoff::new())
    }

    /// Spins at first, then yields to the scheduler; `false`, at once, when it is used up.
    pub(crate) fn wait(&mut self) -> bool {
        if self.0.is_completed() {
            return false;
        }
        self.0.snooze();
        true
    }
}

/// One yield: `crossbeam-utils` spins without loom's knowledge, and a second yield adds states to
/// a model but no new ones.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Patience(bool);

#[cfg(loom)]
impl Patience {
    pub(crate) fn new() -> Self {
        Self(true)
    }

    pub(crate) fn wait(&mut self) -> bool {
        if std::mem::take(&mut self.0) {
            loom::thread::yield_now();
            return true;
        }
        false
    }
}
