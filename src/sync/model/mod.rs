//! The model checker's atomics, and two stand-ins for `arc-swap`, which loom cannot see into.
//!
//! The default one is an index that is swapped atomically: it makes the edges that an acquiring
//! load and a releasing swap make, and no others. `--cfg locked_slot` puts a mutex there instead:
//! simpler, and a cross-check, but its lock orders what a real slot does not.

#[cfg(not(locked_slot))]
mod indexed_slot;
mod lazy;
#[cfg(locked_slot)]
mod locked_slot;
mod names;

#[cfg(not(locked_slot))]
pub(crate) use indexed_slot::Slot;
#[cfg(locked_slot)]
pub(crate) use locked_slot::Slot;

pub(crate) use lazy::Lazy;
pub(crate) use names::Names;

pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

/// What something is called: never changed, so that loom need not see who has it.
pub(crate) type Name = std::sync::Arc<str>;

/// Counted: loom drops its statics before the last threads' locals.
pub(crate) type FreeTokensRef = Arc<Mutex<FreeTokens>>;

pub(crate) fn free_tokens() -> FreeTokensRef {
    loom::lazy_static! {
        static ref FREE: FreeTokensRef = Arc::new(Mutex::new(FreeTokens::new()));
    }
    FREE.clone()
}

/// From 0 in each execution: two arrays have their hands in one place or not, whatever other models do.
pub(crate) fn unique_numbers() -> std::sync::Arc<std::sync::atomic::AtomicU64> {
    loom::lazy_static! {
        static ref NEXT: std::sync::Arc<std::sync::atomic::AtomicU64> = std::sync::Arc::default();
    }
    NEXT.clone()
}

/// Loom's has no form for a constant initial value.
macro_rules! modelled_thread_local {
    (static $name:ident: $type:ty = const $init:block;) => {
        loom::thread_local! { static $name: $type = $init; }
    };
    (static $name:ident: $type:ty = $init:expr;) => {
        loom::thread_local! { static $name: $type = $init; }
    };
}
pub(crate) use modelled_thread_local as thread_local;

use std::fmt;

pub(crate) use loom::sync::{Mutex, MutexGuard};

use super::FreeTokens;

/// Loom's cannot be collected into.
pub(crate) fn arc_slice<T>(items: impl Iterator<Item = T>) -> Arc<[T]> {
    Arc::from_std(items.collect())
}

/// How many cells one bucket may have: one that is owned, and one that is shared.
pub(crate) const fn cell_limit() -> usize {
    1
}

/// How many wraps are made together: two, so that a model has few atomics more than it needs.
pub(crate) const CHUNK_LEN: u32 = 2;

/// What a slot held when it was loaded, kept alive.
pub(crate) struct Held<T>(Option<Arc<T>>);

impl<T> Held<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    fn address(&self) -> Option<*const T> {
        self.get().map(std::ptr::from_ref)
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
