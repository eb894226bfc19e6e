//! The version that a thread keeps from one decision to the next.

use std::cell::Cell;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::Plan;
use super::home::Home;
use super::version::{PlanRef, Version};
use crate::limiter::RuleClock;

thread_local! {
    /// The version by which this thread has decided last. A decision takes it and puts it back at
    /// its end, so it does not write the count of its references, which all threads share. A
    /// decision inside of another one, as by a caller that is asked for its key, finds none.
    static LAST: Cell<Option<Arc<Version>>> = const { Cell::new(None) };
}

/// Takes the version that this thread keeps, if it is the newest one of the rules with that
/// counter. The decision ends with [`keep`].
//
// Not a closure that is called with the version: `LocalKey` would call it out of line.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
pub(super) fn take_newest(newest: &AtomicU64) -> Option<Arc<Version>> {
    // An error if the thread ends.
    let version = LAST.try_with(Cell::take).ok()??;
    if version.number.is_newest(newest) {
        return Some(version);
    }
    forget(version);
    None
}

/// Keeps a version until the next decision of the thread.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
pub(super) fn keep(version: Arc<Version>) {
    // An error if the thread ends.
    if let Ok(Some(other)) = LAST.try_with(|last| last.replace(Some(version))) {
        forget(other);
    }
}

/// As [`keep`], after a decision that has called nothing which decides, too: so the thread keeps no
/// other version.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call takes as long as what it does")]
pub(super) fn keep_alone(version: Arc<Version>) {
    // An error if the thread ends. There is nothing to drop.
    mem::forget(LAST.try_with(|last| last.replace(Some(version))));
}

/// Drops a version that is not the newest one, or that a decision inside of another one has kept.
/// The thread keeps none, or another one: the drop of a limiter may decide, too.
#[cold]
#[inline(never)]
fn forget(version: Arc<Version>) {
    drop(version);
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
        let last = LAST.try_with(Cell::take).ok().flatten();
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
        keep(plan.into_version());
    }
}
