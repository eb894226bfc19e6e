//! The number of handles to a resource, and whether it is still listed, in one word.

use crate::sync::{AtomicU64, Ordering};

/// `{ GONE: 1, WATCHED: 1, holders: 62 }`.
///
/// A *holder* is a [`Handle`](super::handle::Handle), which clones of a
/// [`Resource`](super::Resource) share.
///
/// A resource is *gone* once it is evicted or removed. That is final: from then on, a new holder is
/// taken only from an existing one. A resource is evicted only while it has no holders. So a thread
/// that has a handle, and has not found the resource removed, records in a listed resource.
///
/// A resource is *watched* while a thread decides whether to evict it. A thread that takes a holder
/// ends the watch. So a resource that is evicted has had no holder since the watch began, and
/// everything that the evicting thread has read of it since then still holds.
///
/// # Orderings
///
/// [`release`](Self::release) is a Release, and [`watch`](Self::watch) and
/// [`is_released`](Self::is_released) acquire: a thread that finds no holder finds the records of
/// all former holders. All other operations are relaxed. Those that write are read-modify-writes of
/// one word, whose order decides.
#[derive(Debug)]
pub(crate) struct Holders(AtomicU64);

const GONE: u64 = 1 << 63;
const WATCHED: u64 = 1 << 62;
const COUNT: u64 = WATCHED - 1;

impl Holders {
    /// Creates the state of a listed resource with one holder.
    pub(crate) fn one() -> Self {
        Self(AtomicU64::new(1))
    }

    /// Adds a holder, unless the resource is gone. Returns whether the holder was added.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        // Relaxed: the map orders the making of the resource before its look-up. This add and the
        // changes of a watch are read-modify-writes of one word, so one is ordered before the
        // other.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        before & (GONE | WATCHED) == 0 || self.end_watch(before)
    }

    #[cold]
    fn end_watch(&self, before: u64) -> bool {
        if before & GONE != 0 {
            // Relaxed: the resource was not used.
            self.0.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        // After the add, and before this holder is removed: a watch that began before the add
        // cannot end in an eviction.
        self.0.fetch_and(!WATCHED, Ordering::Relaxed);
        true
    }

    /// Adds a holder, for an existing holder.
    #[inline]
    pub(crate) fn take_another(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a holder.
    #[inline]
    pub(crate) fn release(&self) {
        // Release: pairs with the Acquire in `watch` and in `is_released`. Totals that are read
        // after these include the records of this holder.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Begins a watch; `false` if there is a holder. Only one thread at a time may call this.
    pub(crate) fn watch(&self) -> bool {
        // Acquire: pairs with the Release in `release`.
        let begun = self.0.compare_exchange(0, WATCHED, Ordering::Acquire, Ordering::Relaxed);
        // If the resource is still watched since an earlier call, no thread has taken a holder
        // since. If a thread takes one now, `evict` fails.
        begun.is_ok() || begun == Err(WATCHED)
    }

    /// Evicts the resource, unless a thread has taken a holder since the watch began. Returns
    /// whether the resource was evicted.
    pub(crate) fn evict(&self) -> bool {
        // Relaxed: all records were acquired when the watch began.
        self.0.compare_exchange(WATCHED, GONE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Removes the resource, even if it has holders; `false` if it was gone already.
    pub(crate) fn remove(&self) -> bool {
        self.0.fetch_or(GONE, Ordering::Relaxed) & GONE == 0
    }

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed) & GONE != 0
    }

    /// Returns whether a resource that is gone has no holders. If so, it will never have one again.
    pub(crate) fn is_released(&self) -> bool {
        // Acquire: pairs with the Release in `release`.
        self.0.load(Ordering::Acquire) & COUNT == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn free() -> Holders {
        let holders = Holders::one();
        holders.release();
        holders
    }

    #[test]
    fn held_resource_is_not_watched() {
        assert!(!Holders::one().watch());
    }

    #[test]
    fn watched_resource_can_be_watched_again_and_evicted() {
        let holders = free();
        assert!(holders.watch() && holders.watch());
        assert!(holders.evict() && holders.is_gone());
        assert!(!holders.take() && holders.is_released());
    }

    #[test]
    fn resource_that_is_taken_is_not_watched_any_more() {
        let holders = free();
        assert!(holders.watch() && holders.take());
        assert!(!holders.evict() && !holders.is_gone());
        holders.release();
        assert!(!holders.evict(), "a new watch has not begun");
        assert!(holders.watch() && holders.evict());
    }

    #[test]
    fn removed_resource_is_not_taken_even_if_it_is_watched() {
        let holders = free();
        assert!(holders.watch() && holders.remove());
        assert!(!holders.remove() && !holders.take() && !holders.evict());
    }
}
