//! The model checker's atomics, and two stand-ins for `arc-swap`, which loom cannot see into.
//!
//! The default one is an index that is swapped atomically: it makes the edges that an acquiring
//! load and a releasing swap make, and no others. `--cfg locked_slot` puts a mutex there instead:
//! simpler, and a cross-check, but its lock orders what a real slot does not.

#[cfg(not(locked_slot))]
mod indexed_slot;
#[cfg(locked_slot)]
mod locked_slot;

#[cfg(not(locked_slot))]
pub(crate) use indexed_slot::Slot;
#[cfg(locked_slot)]
pub(crate) use locked_slot::Slot;

pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

/// Counted: loom drops its statics before the last threads' locals.
pub(crate) type FreeTokensRef = Arc<Mutex<FreeTokens>>;

pub(crate) fn free_tokens() -> FreeTokensRef {
    loom::lazy_static! {
        static ref FREE: FreeTokensRef = Arc::new(Mutex::new(FreeTokens::new()));
    }
    FREE.clone()
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

pub(crate) use loom::sync::Mutex;

use super::FreeTokens;

/// How many cells one bucket may have: one that is owned, and one that is shared.
pub(crate) const fn cell_limit() -> usize {
    1
}

/// What is made when it is first needed. Here it is made at once: a model is about what happens to
/// it, and the real one is not loom's.
#[derive(Debug)]
pub(crate) struct Lazy<T>(T);

impl<T> Lazy<T> {
    pub(crate) fn new(make: impl FnOnce() -> T) -> Self {
        Self(make())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the real one may not be made yet")]
    pub(crate) const fn get(&self) -> Option<&T> {
        Some(&self.0)
    }

    pub(crate) fn get_or_make(&self, _: impl FnOnce() -> T) -> &T {
        &self.0
    }
}

/// What a slot held when it was loaded, kept alive.
pub(crate) struct Held<T>(Option<Arc<T>>);

impl<T> Held<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    pub(crate) fn to_arc(&self) -> Option<Arc<T>> {
        self.0.clone()
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.address() == other.address()
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
