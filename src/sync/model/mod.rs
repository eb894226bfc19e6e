//! Loom's atomics, and two stand-ins for `arc-swap`, which loom cannot see into.
//!
//! The first stand-in is an index that is swapped atomically. It synchronizes as an acquire load
//! and a release swap do, and no more. The second one is a mutex, as a cross-check. The mutex is
//! simpler, but orders more than a real slot does. A model that uses a slot is explored with each.

mod indexed_slot;
mod locked_slot;
mod names;
mod once_ref;
mod payload;
mod racy_once;
mod shadowed;
mod slot;

pub(crate) use names::Names;
pub(crate) use once_ref::OnceRef;
pub(crate) use payload::{Payload, Payload32, payload, payload_32, seen_payload, seen_payload_32};
pub(crate) use racy_once::RacyOnce;
pub(crate) use shadowed::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize};
pub use shadowed::{shadow_all_words, show_all_words};
pub(crate) use slot::Slot;
pub use slot::{lock_slots, slots_are_locked, slots_were_used};

// The standard library's: no model inserts data into a resource.
pub(crate) use std::sync::OnceLock;

pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::{Ordering, fence};

/// Returns the value if the caller has the only reference to it.
pub(crate) fn into_inner<T>(value: Arc<T>) -> Option<T> {
    Arc::try_unwrap(value).ok()
}

/// The name of a resource or a context. A name never changes, so loom need not see its reference
/// count.
pub(crate) type Name = std::sync::Arc<str>;

/// Returns a number that was never returned before in this execution. Each execution starts anew,
/// so whether two windows share a set of the thread cache does not depend on other models. The
/// atomic is the standard library's: the numbers only have to differ.
pub(crate) fn unique() -> u64 {
    loom::lazy_static! {
        static ref NEXT: std::sync::Arc<std::sync::atomic::AtomicU64> = std::sync::Arc::default();
    }
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A place for one value, which threads take out and put in. The mutex orders as a swap does that
/// acquires and releases.
pub(crate) struct Place<T>(Mutex<Option<T>>);

impl<T> Place<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Takes the value out.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap().take()
    }

    /// Puts a value in, and drops the one that was there.
    pub(crate) fn put(&self, value: T) {
        let before = self.0.lock().unwrap().replace(value);
        drop(before);
    }
}

/// Returns the number of lanes among which threads are spread: one, so that threads meet in it.
pub(crate) const fn lanes() -> usize {
    1
}

/// Creates a word of a cell that a model need not see, unless it calls [`show_all_words`].
pub(crate) fn unmodelled_word(value: i64) -> AtomicI64 {
    AtomicI64::unmodelled(value)
}

/// Defines a static of one execution. It is leaked: loom drops its statics before the thread-locals
/// of the last thread, which may still refer to it.
macro_rules! process_static {
    (static $name:ident: $type:ty = $init:expr;) => {
        loom::lazy_static! {
            static ref $name: &'static $type = Box::leak(Box::new($init));
        }
    };
}
pub(crate) use process_static;

/// Defines a constructor. It is not `const`, since the constructors of loom's atomics are not.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),*)
        -> Self $body:block) => {
        $(#[$attribute])*
        $visibility fn $name($($argument: $type),*) -> Self $body
    };
}
pub(crate) use const_unless_loom;

/// Creates atomics of 0.
pub(crate) fn zeros<const N: usize>() -> [AtomicU64; N] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

/// Creates an array of empty [`RacyOnce`]s.
macro_rules! racy_once_array {
    ($len:expr) => {
        std::array::from_fn::<_, { $len }, _>(|_| RacyOnce::new())
    };
}
pub(crate) use racy_once_array;

/// Defines a thread-local. Loom's macro has no form for a constant initial value.
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

/// The number of values of a pool that are made together: two, so that a model has few atomics that
/// it does not need.
pub(crate) const CHUNK_LEN: u32 = 2;

/// The number of cells in the first chunk of the slab.
pub(crate) const SLAB_CHUNK_LEN: u32 = 1;

/// Returns the least number of shards of a keyed limiter: two, so that a model has few locks that
/// it does not need.
pub(crate) fn least_shards(_max_keys: usize) -> usize {
    2
}

/// Locks a mutex.
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>) -> std::sync::LockResult<MutexGuard<'_, T>> {
    mutex.lock()
}

/// The number of sets of a thread cache: two, so that few windows fill a set.
pub(crate) const THREAD_CACHE_SETS: usize = 2;

/// The value that a load of a slot has returned, kept alive.
pub(crate) struct Loaded<T>(Option<Arc<T>>);

impl<T> Loaded<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    pub(crate) fn to_arc(&self) -> Option<Arc<T>> {
        self.0.clone()
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

impl<T: fmt::Debug> fmt::Debug for Loaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
