//! The implementation outside of loom: the standard library's atomics, and the only type that uses
//! `arc-swap`.

use std::fmt;
use std::hint::spin_loop;
use std::num::NonZero;
use std::sync::{LockResult, TryLockError};

use arc_swap::{ArcSwapOption, Guard};
use crossbeam_utils::atomic::AtomicCell;
use once_cell::race::OnceBox;

pub(crate) use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

pub(crate) use std::thread_local;

pub(crate) use once_cell::race::OnceRef;

use super::stall::{self, Point};

/// Returns the value if the caller has the last reference to it. If several threads give up their
/// references at once, one of them gets the value.
pub(crate) fn into_inner<T>(value: Arc<T>) -> Option<T> {
    Arc::into_inner(value)
}

/// The name of a resource or a context.
pub(crate) type Name = Arc<str>;

/// Returns a number that was never returned before.
pub(crate) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Creates a word of a cell that a model need not see.
pub(crate) const fn unmodelled_word(value: i64) -> AtomicI64 {
    AtomicI64::new(value)
}

/// Creates atomics of 0. The constant is repeated, since a mapped array takes longer to compile.
pub(crate) const fn zeros<const N: usize>() -> [AtomicU64; N] {
    [const { AtomicU64::new(0) }; N]
}

/// A word of a row or of a descriptor.
pub(crate) type Payload = AtomicU64;

/// Creates a word of a row or of a descriptor that a model need not see.
pub(crate) const fn payload(value: u64) -> Payload {
    Payload::new(value)
}

/// Creates a word of a row or of a descriptor that a model sees.
pub(crate) const fn seen_payload(value: u64) -> Payload {
    Payload::new(value)
}

/// A word of a row's bins.
pub(crate) type Payload32 = AtomicU32;

/// Creates a word of a row's bins that a model need not see.
pub(crate) const fn payload_32(value: u32) -> Payload32 {
    Payload32::new(value)
}

/// Creates a word of a row's bins that a model sees.
pub(crate) const fn seen_payload_32(value: u32) -> Payload32 {
    Payload32::new(value)
}

/// Defines a static of the process.
macro_rules! process_static {
    (static $name:ident: $type:ty = $init:expr;) => {
        static $name: $type = $init;
    };
}
pub(crate) use process_static;

/// Defines a constructor that is `const`.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),*)
        -> Self $body:block) => {
        $(#[$attribute])*
        $visibility const fn $name($($argument: $type),*) -> Self $body
    };
}
pub(crate) use const_unless_loom;

/// Creates an array of empty [`RacyOnce`]s.
macro_rules! racy_once_array {
    ($len:expr) => {
        [const { RacyOnce::new() }; $len]
    };
}
pub(crate) use racy_once_array;

/// The number of values of a pool that are made together. It is small, since a window that was used
/// once has that many.
pub(crate) const CHUNK_LEN: u32 = 4;

/// The number of cells in the first chunk of the slab.
pub(crate) const SLAB_CHUNK_LEN: u32 = 64;

/// Returns the least number of shards of a keyed limiter of up to `max_keys` keys.
pub(crate) fn least_shards(max_keys: usize) -> usize {
    max_keys.div_ceil(8).min(64)
}

/// A place for one value, which threads take out and put in.
pub(crate) struct Place<T>(AtomicCell<Option<T>>);

impl<T> Place<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicCell::new(None))
    }

    /// Takes the value out.
    #[inline]
    pub(crate) fn take(&self) -> Option<T> {
        self.0.take()
    }

    /// Puts a value in, and drops the one that was there.
    #[inline]
    pub(crate) fn put(&self, value: T) {
        drop(self.0.swap(Some(value)));
    }
}

/// Returns the number of lanes among which threads are spread by their numbers: a power of two, of
/// at least two for each processor, up to 64.
pub(crate) fn lanes() -> usize {
    // Asked once: the answer may come from files.
    static LANES: OnceLock<usize> = OnceLock::new();
    *LANES.get_or_init(|| {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        (2 * processors).next_power_of_two().min(64)
    })
}

/// Locks a mutex that is never locked for long. A thread that finds it locked spins for up to some
/// microseconds, with longer and longer pauses, and then sleeps. The standard library's own
/// spinning reads the lock in each pause, which takes the cache line away from the thread that has
/// locked it. The first pause is already longer than an operation under the lock, so that the other
/// thread does several while it has the cache line.
#[inline]
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
        Err(TryLockError::WouldBlock) => lock_contended(mutex),
    }
}

#[cold]
fn lock_contended<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    for pauses in [16, 32, 64] {
        (0..pauses).for_each(|_| spin_loop());
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    mutex.lock()
}

/// The number of sets of a thread cache.
pub(crate) const THREAD_CACHE_SETS: usize = 512;

/// An atomically swapped `Option<Arc<T>>`.
///
/// # Orderings
///
/// A load acquires and a swap releases: a thread that sees a value sees everything that was written
/// before it was put into the slot. `arc-swap` needs this for the value itself, as the description
/// of its internals says. Its documentation promises a `SeqCst` read-modify-write for both
/// operations.
pub(crate) struct Slot<T>(ArcSwapOption<T>);

impl<T> Slot<T> {
    pub(crate) fn empty() -> Self {
        Self(ArcSwapOption::empty())
    }

    #[inline]
    pub(crate) fn load(&self) -> Loaded<T> {
        Loaded(self.0.load())
    }

    /// Puts `new` into the slot if the slot still has the very value that was `observed`, and
    /// returns that value; otherwise returns `new`.
    ///
    /// There is no ABA: while `observed` is alive, its address belongs to no other value.
    pub(crate) fn compare_and_swap(
        &self,
        observed: &Loaded<T>,
        new: Arc<T>,
    ) -> Result<Option<Arc<T>>, Arc<T>> {
        let found = Loaded(self.0.compare_and_swap(&observed.0, Some(Arc::clone(&new))));
        if found.same(observed) { Ok(Guard::into_inner(found.0)) } else { Err(new) }
    }
}

/// A value that is made when it is first needed. Threads that need it at the same time do not wait
/// for each other: each makes a value, and all use the value that was published first.
#[derive(Debug)]
pub(crate) struct RacyOnce<T>(OnceBox<T>);

impl<T> RacyOnce<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceBox::new())
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get()
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(|| {
            let value = Box::new(make());
            stall::at(Point::Made);
            value
        })
    }
}

/// The value that a load of a slot has returned, kept alive.
pub(crate) struct Loaded<T>(Guard<Option<Arc<T>>>);

impl<T> Loaded<T> {
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    pub(crate) fn to_arc(&self) -> Option<Arc<T>> {
        Option::clone(&self.0)
    }

    /// Whether both are the same value, by address, or both are empty.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.0.as_ref().map(Arc::as_ptr) == other.0.as_ref().map(Arc::as_ptr)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_against_the_observed_value() {
        let slot = Slot::empty();
        let empty = slot.load();
        assert_eq!(slot.compare_and_swap(&empty, Arc::new(1)), Ok(None));
        let refused = slot.compare_and_swap(&empty, Arc::new(2));
        assert_eq!(refused, Err(Arc::new(2)), "no longer empty");
        let one = slot.load();
        assert_eq!(one.get(), Some(&1));
        assert_eq!(slot.compare_and_swap(&one, Arc::new(1)), Ok(Some(Arc::new(1))));
        let refused = slot.compare_and_swap(&one, Arc::new(3));
        assert_eq!(refused, Err(Arc::new(3)), "equal, but not the same");
        assert!(slot.load().same(&slot.load()) && !slot.load().same(&one));
    }
}
