//! The model checker's atomics, and two stand-ins for `arc-swap`, which loom cannot see into.
//!
//! The default one is an index that is swapped atomically: it makes the edges that an acquiring
//! load and a releasing swap make, and no others. With `LOCKED_SLOT` in the environment, a mutex takes
//! its place: simpler, and a cross-check, but its lock orders what a real slot does not.

mod indexed_slot;
mod locked_slot;
mod names;
mod once_ref;
mod payload;
mod racy_once;
mod shadowed;
mod slot;

pub(crate) use slot::Slot;

pub(crate) use names::Names;
pub(crate) use once_ref::OnceRef;
pub(crate) use payload::{Payload, payload, seen_payload};
pub(crate) use racy_once::RacyOnce;
pub(crate) use shadowed::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize};
pub use shadowed::{shadow_all_words, show_all_words};

pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::{Ordering, fence};

/// The value, if the caller has the only reference to it.
pub(crate) fn into_inner<T>(value: Arc<T>) -> Option<T> {
    Arc::try_unwrap(value).ok()
}

/// What something is called: never changed, so that loom need not see who has it.
pub(crate) type Name = std::sync::Arc<str>;

/// A number that was never returned before in this execution: two windows have their cells in one set
/// or not, whatever other models do. From the standard library: that no two are equal is all there is
/// to it.
pub(crate) fn unique() -> u64 {
    loom::lazy_static! {
        static ref NEXT: std::sync::Arc<std::sync::atomic::AtomicU64> = std::sync::Arc::default();
    }
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A word of a cell that a model need not see, unless it asks for [`show_all_words`].
pub(crate) fn word_beside(value: i64) -> AtomicI64 {
    AtomicI64::beside(value)
}

/// A static of one execution. Leaked: loom drops its statics before the last thread's locals, which
/// may still refer to it.
macro_rules! process_static {
    (static $name:ident: $type:ty = $init:expr;) => {
        loom::lazy_static! {
            static ref $name: &'static $type = Box::leak(Box::new($init));
        }
    };
}
pub(crate) use process_static;

/// An array of [`RacyOnce`]s in which nothing is made.
macro_rules! lazy_array {
    ($len:expr) => {
        std::array::from_fn::<_, { $len }, _>(|_| RacyOnce::new())
    };
}
pub(crate) use lazy_array;

/// Loom's has no form for a constant initial value.
macro_rules! modelled_thread_local {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = const $init:block;) => {
        loom::thread_local! { static $name: $type = $init; }
    };
    (static $name:ident: $type:ty = $init:expr;) => {
        loom::thread_local! { static $name: $type = $init; }
    };
}
pub(crate) use modelled_thread_local as thread_local;

use std::fmt;

pub(crate) use loom::sync::{Mutex, MutexGuard};

/// How many values of a pool are made together: two, so that a model has few atomics more than it
/// needs.
pub(crate) const CHUNK_LEN: u32 = 2;

/// How many cells the slab begins with.
pub(crate) const SLAB_CHUNK_LEN: u32 = 1;

/// How many sets a thread's cache of cells has: two, so that a model can fill one.
pub(crate) const THREAD_CACHE_SETS: usize = 2;

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
