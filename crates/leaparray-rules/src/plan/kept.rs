//! The plan that a thread keeps from one decision to the next.

use std::any::Any;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Plan;
use crate::limiter::RuleClock;
use crate::rules::Shared;

thread_local! {
    /// The plan by which this thread has decided last. A decision takes it, and puts it back at its
    /// end: neither writes the count of its references, which all threads share.
    static LAST: Cell<Option<Arc<dyn Any + Send + Sync>>> = const { Cell::new(None) };
}

/// The plan of a decision.
pub(crate) struct Kept<C: RuleClock>(
    /// `None` while it is dropped.
    Option<Arc<Plan<C>>>,
);

impl<C: RuleClock> Kept<C> {
    /// Returns the newest plan.
    #[inline(always)]
    pub(crate) fn newest(shared: &Shared<C>) -> Self {
        // An error if the thread ends.
        let last = LAST.try_with(Cell::take).ok().flatten();
        if let Some(last) = last
            && let Ok(plan) = last.downcast::<Plan<C>>()
            && Arc::ptr_eq(&plan.newest, &shared.newest)
            // Acquire: pairs with the Release in `Plan::set_newest`. The numbers that fall with
            // this version have fallen.
            && shared.newest.load(Ordering::Acquire) == plan.version
        {
            return Self(Some(plan));
        }
        Self::load(shared)
    }

    #[cold]
    fn load(shared: &Shared<C>) -> Self {
        Self(Some(shared.plan.load_full()))
    }
}

impl<C: RuleClock> Deref for Kept<C> {
    type Target = Arc<Plan<C>>;

    #[inline]
    fn deref(&self) -> &Arc<Plan<C>> {
        self.0.as_ref().expect("there is a plan until the drop")
    }
}

impl<C: RuleClock> From<Arc<Plan<C>>> for Kept<C> {
    fn from(plan: Arc<Plan<C>>) -> Self {
        Self(Some(plan))
    }
}

impl<C: RuleClock> Drop for Kept<C> {
    #[inline]
    fn drop(&mut self) {
        if let Some(plan) = self.0.take()
            && let Ok(Some(other)) = LAST.try_with(|last| last.replace(Some(plan)))
        {
            forget(other);
        }
    }
}

/// Drops a plan that another decision of the thread has put back before.
#[cold]
fn forget(plan: Arc<dyn Any + Send + Sync>) {
    drop(plan);
}
