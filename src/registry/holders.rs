//! Who holds a resource, and whether it is still listed: both in one word.

use crate::sync::{AtomicU64, Ordering};

/// How many hold a resource.
///
/// It is *gone* when it is evicted or removed, for good; from then on nobody takes it who does not hold
/// it already. It is evicted only while nobody holds it: so who holds it and has not seen it removed
/// records in what is listed.
///
/// It is *watched* while somebody is about to evict it: whoever takes it ends that. So what is evicted has
/// been nobody's since the watch began, and what was looked at meanwhile still holds.
#[derive(Debug)]
pub(crate) struct Holders(AtomicU64);

const GONE: u64 = 1 << 63;
const WATCHED: u64 = 1 << 62;
const COUNT: u64 = WATCHED - 1;

impl Holders {
    /// Held by whoever makes it.
    pub(crate) fn one() -> Self {
        Self(AtomicU64::new(1))
    }

    /// Takes it, unless it is gone.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        // Relaxed: who takes it sees it made, by the map. That it is held comes before the end of a watch
        // or after it, since both are read-modify-writes.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        before & (GONE | WATCHED) == 0 || self.end_watch(before)
    }

    #[cold]
    fn end_watch(&self, before: u64) -> bool {
        if before & GONE != 0 {
            // Nothing was done with it.
            self.0.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        // While it is held, so that no watch ends in between as if nobody had.
        self.0.fetch_and(!WATCHED, Ordering::Relaxed);
        true
    }

    /// Takes it once more, for somebody who holds it.
    #[inline]
    pub(crate) fn take_another(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets go of it.
    #[inline]
    pub(crate) fn let_go(&self) {
        // Release: pairs with the Acquire in `watch` and in `has_settled`. What was recorded by who held
        // it is in what is read then.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Begins to watch it; `false` if somebody holds it. One thread at a time does this.
    pub(crate) fn watch(&self) -> bool {
        // Acquire: pairs with the Release in `let_go`.
        let begun = self.0.compare_exchange(0, WATCHED, Ordering::Acquire, Ordering::Relaxed);
        // Watched already: by who did this before, and nobody has taken it since; if that is not so any
        // more, `evict` finds out.
        begun.is_ok() || begun == Err(WATCHED)
    }

    /// Evicts it, if nobody took it since the watch began.
    pub(crate) fn evict(&self) -> bool {
        // Relaxed: everything that was recorded was acquired when the watch began.
        self.0.compare_exchange(WATCHED, GONE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Removes it, whoever holds it; `false` if it was gone.
    pub(crate) fn remove(&self) -> bool {
        self.0.fetch_or(GONE, Ordering::Relaxed) & GONE == 0
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed) & GONE != 0
    }

    /// Of what is gone: whether nobody holds it any more. Then nobody ever will.
    pub(crate) fn has_settled(&self) -> bool {
        // Acquire: pairs with the Release in `let_go`.
        self.0.load(Ordering::Acquire) & COUNT == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn free() -> Holders {
        let holders = Holders::one();
        holders.let_go();
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
        assert!(!holders.take() && holders.has_settled());
    }

    #[test]
    fn resource_that_is_taken_is_not_watched_any_more() {
        let holders = free();
        assert!(holders.watch() && holders.take());
        assert!(!holders.evict() && !holders.is_gone());
        holders.let_go();
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
