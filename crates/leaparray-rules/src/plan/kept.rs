//! The version that a thread keeps from one decision to the next.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::Plan;
use super::home::Home;
use super::version::{PlanRef, Version};
use crate::limiter::RuleClock;

thread_local! {
    /// The version by which this thread has decided last. A decision borrows it, or takes it and
    /// puts it back at its end: neither writes the count of its references, which all threads
    /// share.
    static LAST: RefCell<Option<Arc<Version>>> = const { RefCell::new(None) };
}

/// Calls `read` with the version that this thread keeps, if it is the newest one of the rules with
/// that counter.
#[inline(always)]
#[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
pub(super) fn with_newest<T>(
    newest: &Arc<AtomicU64>,
    read: impl FnOnce(&Arc<Version>) -> T,
) -> Option<T> {
    // An error if the thread ends.
    let found = LAST.try_with(|last| {
        // An error if a decision inside of another one takes the version.
        let last = last.try_borrow().ok()?;
        let version = last.as_ref().filter(|it| it.number.is_newest(newest))?;
        Some(read(version))
    });
    found.ok().flatten()
}

/// The plan of a decision.
pub(crate) struct Kept<C: RuleClock>(
    /// `None` while it is dropped.
    Option<PlanRef<C>>,
);

impl<C: RuleClock> Kept<C> {
    /// Returns the newest plan.
    #[inline]
    pub(crate) fn newest(home: &Home<C>) -> Self {
        let last = LAST.try_with(|last| last.try_borrow_mut().ok()?.take()).ok().flatten();
        match last.filter(|it| it.number.is_newest(home.newest())) {
            Some(version) => PlanRef::of(version).into(),
            None => Self::load(home),
        }
    }

    #[cold]
    fn load(home: &Home<C>) -> Self {
        home.plan().into()
    }

    pub(super) fn plan(&self) -> &PlanRef<C> {
        self.0.as_ref().expect("there is a plan until the drop")
    }
}

impl<C: RuleClock> Deref for Kept<C> {
    type Target = Plan<C>;

    #[inline]
    fn deref(&self) -> &Plan<C> {
        self.plan()
    }
}

impl<C: RuleClock> From<PlanRef<C>> for Kept<C> {
    #[inline]
    fn from(plan: PlanRef<C>) -> Self {
        Self(Some(plan))
    }
}

impl<C: RuleClock> Drop for Kept<C> {
    #[inline]
    fn drop(&mut self) {
        let Some(plan) = self.0.take() else { return };
        let other = LAST.try_with(|last| {
            // An error inside of a decision that has borrowed a version: that one stays.
            let mut last = last.try_borrow_mut().ok()?;
            last.replace(plan.into_version())
        });
        if let Ok(Some(other)) = other {
            forget(other);
        }
    }
}

/// Drops a version that another decision of the thread has put back before: not while it is
/// borrowed, since the drop of a limiter may decide, too.
#[cold]
fn forget(version: Arc<Version>) {
    drop(version);
}
