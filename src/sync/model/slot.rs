//! A slot that is one of the two stand-ins for `arc-swap`.

use std::cell::Cell;

use loom::sync::Arc;

use super::Loaded;
use super::indexed_slot::IndexedSlot;
use super::locked_slot::LockedSlot;

// Loom runs all threads of a model on the thread of its test.
std::thread_local! {
    /// Whether a new slot is a locked one.
    static LOCKED: Cell<bool> = const { Cell::new(false) };

    /// Whether a slot was loaded or swapped since the last call of [`slots_were_used`].
    static USED: Cell<bool> = const { Cell::new(false) };
}

/// Selects the stand-in for the slots of the models that the calling thread explores after this
/// call: a locked slot, or an indexed one.
pub fn lock_slots(locked: bool) {
    LOCKED.set(locked);
}

/// Returns whether the slots of the calling thread's models are locked.
#[must_use]
pub fn slots_are_locked() -> bool {
    LOCKED.get()
}

/// Returns whether a model of the calling thread has loaded or swapped a slot since the last call.
#[must_use]
pub fn slots_were_used() -> bool {
    USED.take()
}

pub(crate) enum Slot<T> {
    Indexed(IndexedSlot<T>),
    Locked(LockedSlot<T>),
}

impl<T> Slot<T> {
    pub(crate) fn empty() -> Self {
        if slots_are_locked() {
            Self::Locked(LockedSlot::empty())
        } else {
            Self::Indexed(IndexedSlot::empty())
        }
    }

    pub(crate) fn load(&self) -> Loaded<T> {
        USED.set(true);
        match self {
            Self::Indexed(slot) => slot.load(),
            Self::Locked(slot) => slot.load(),
        }
    }

    pub(crate) fn compare_and_swap(
        &self,
        observed: &Loaded<T>,
        new: Arc<T>,
    ) -> Result<Option<Arc<T>>, Arc<T>> {
        USED.set(true);
        match self {
            Self::Indexed(slot) => slot.compare_and_swap(observed, new),
            Self::Locked(slot) => slot.compare_and_swap(observed, new),
        }
    }
}
