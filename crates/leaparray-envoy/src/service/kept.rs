//! The newest version of a value, which each thread keeps from one decision to the next.

use std::any::Any;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

thread_local! {
    /// The version by which this thread has decided last. A decision takes it and puts it back, so
    /// it writes no word that threads share. A decision inside of another one finds none.
    static LAST: Cell<Option<Kept>> = const { Cell::new(None) };
}

/// A version that a thread keeps.
struct Kept {
    number: u64,
    /// A [`Version`].
    version: Arc<dyn Any + Send + Sync>,
}

/// A value, with a number.
#[derive(Debug)]
pub(super) struct Version<T> {
    /// No other version in the process has it, of whatever value: so a thread compares one word to
    /// find out whether the version that it keeps is the newest one.
    number: u64,
    value: T,
}

/// A value that is replaced as a whole, while threads read it.
///
/// # Orderings
///
/// `newest` is stored with Release after the version, and loaded with Acquire. If a thread finds
/// the number of the version that it keeps, no later [`set`](Self::set) has returned before.
/// Otherwise, it loads the version, which is at least as new as the number that it has found.
pub(super) struct Newest<T> {
    newest: AtomicU64,
    version: ArcSwap<Version<T>>,
}

impl<T: Send + Sync + 'static> Newest<T> {
    pub(super) fn new(value: T) -> Self {
        let version = Version::new(value);
        Self { newest: AtomicU64::new(version.number), version: ArcSwap::from_pointee(version) }
    }

    /// Replaces the value. Threads that replace it take turns.
    pub(super) fn set(&self, value: T) {
        let version = Version::new(value);
        let number = version.number;
        self.version.store(Arc::new(version));
        self.newest.store(number, Ordering::Release);
    }

    /// Calls `read` with the newest value. A thread keeps it until the next call.
    #[inline]
    pub(super) fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        // An error while the thread ends. Each call then loads the version.
        let last = LAST.try_with(Cell::take).ok().flatten();
        let last = last.filter(|it| it.number == self.newest.load(Ordering::Acquire));
        let kept = last.unwrap_or_else(|| self.load());
        let version = kept.version.downcast_ref::<Version<T>>().expect("a number has one type");
        let result = read(&version.value);
        // A decision inside of this one may have left its version there.
        let _other = LAST.try_with(|last| last.replace(Some(kept)));
        result
    }

    #[cold]
    #[inline(never)]
    fn load(&self) -> Kept {
        let version = self.version.load_full();
        Kept { number: version.number, version }
    }

    /// Returns the newest version, for a decision that waits.
    #[cfg(feature = "redis")]
    pub(super) fn get(&self) -> Arc<Version<T>> {
        self.version.load_full()
    }
}

impl<T> Version<T> {
    fn new(value: T) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the number orders nothing.
        Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), value }
    }
}

impl<T> Deref for Version<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
