//! A slot that is one of the two stand-ins for `arc-swap`.

use loom::sync::Arc;

use super::Loaded;
use super::indexed_slot::IndexedSlot;
use super::locked_slot::LockedSlot;

pub(crate) enum Slot<T> {
    Indexed(IndexedSlot<T>),
    Locked(LockedSlot<T>),
}

impl<T> Slot<T> {
    pub(crate) fn empty() -> Self {
        match std::env::var_os("LOCKED_SLOT") {
            None => Self::Indexed(IndexedSlot::empty()),
            Some(_) => Self::Locked(LockedSlot::empty()),
        }
    }

    pub(crate) fn load(&self) -> Loaded<T> {
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
        match self {
            Self::Indexed(slot) => slot.compare_and_swap(observed, new),
            Self::Locked(slot) => slot.compare_and_swap(observed, new),
        }
    }
}
