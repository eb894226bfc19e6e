//! A lock that nobody ever waits for.

use super::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct TryLock(AtomicBool);

impl TryLock {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// The lock, unless another thread has it. Dropping the guard gives it back, on a panic too.
    pub(crate) fn try_lock(&self) -> Option<TryLockGuard<'_>> {
        // Acquire: pairs with the Release of the last owner's drop, so that the look that follows
        // sees what that owner put in.
        let taken =
            self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken.then(|| TryLockGuard(&self.0))
    }
}

#[derive(Debug)]
pub(crate) struct TryLockGuard<'a>(&'a AtomicBool);

impl Drop for TryLockGuard<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next `try_lock`.
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_owner_at_a_time() {
        let lock = TryLock::new();
        let owner = lock.try_lock();
        assert!(owner.is_some() && lock.try_lock().is_none());
        drop(owner);
        assert!(lock.try_lock().is_some());
    }
}
