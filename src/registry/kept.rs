//! Handles that look-ups of the same thread use again.

use std::fmt;

use super::handle::Handle;
use crate::sync::{Arc, Place, RacyOnce, lanes, stripe};

/// The handles of a resource, or of one of its contexts, that are kept for further look-ups.
///
/// Without them, each look-up would count a holder in a word that all threads write, and the end of
/// its request would write that word again. Threads are spread over *lanes*, each with one handle.
/// A look-up clones the handle of its lane, and so writes only the lane and the reference count of
/// that handle. Threads that have a lane each write no word in common.
///
/// A kept handle is a holder like any other: its resource is not evicted. So an eviction first
/// [releases](Self::release) the handles that the resource keeps. If a thread has cloned one of
/// them, or keeps another one now, the resource still has a holder.
///
/// # Threads of one lane
///
/// A thread takes the handle out of its lane, clones it, and puts it back. Another thread of the
/// lane that looks the resource up in between finds none, takes a handle of its own, and puts a
/// clone into the lane, where the later of the two stays. An eviction that finds none in between
/// does not evict: the handle is a holder, wherever it is.
///
/// # Cycles
///
/// A kept handle refers to the resource that keeps it. The handles are released before an eviction,
/// when the registry is dropped, and, for a removed resource, each time that the registry looks
/// whether the resource has holders. A thread that has another handle may ask it for one in a
/// context beside the drop of the registry, or later: it then releases what it has kept.
pub(crate) struct KeptHandles<C>(RacyOnce<Lanes<C>>);

/// The lanes that have been used. Their number is a power of two.
type Lanes<C> = Box<[RacyOnce<Lane<C>>]>;

/// A place for one handle.
//
// Aligned to a cache line, as a handle is.
#[repr(align(64))]
struct Lane<C>(Place<Arc<Handle<C>>>);

impl<C> KeptHandles<C> {
    pub(super) fn new() -> Self {
        Self(RacyOnce::new())
    }

    /// Returns a clone of the handle in this thread's lane, if there is one.
    #[inline]
    pub(super) fn reuse(&self) -> Option<Arc<Handle<C>>> {
        let lane = of_thread(self.0.get()?).get()?;
        let kept = lane.0.take()?;
        let handle = Arc::clone(&kept);
        lane.0.put(kept);
        Some(handle)
    }

    /// Keeps a handle in this thread's lane.
    #[cold]
    pub(super) fn keep(&self, handle: &Arc<Handle<C>>) {
        let lanes = self.0.get_or_init(|| (0..lanes()).map(|_| RacyOnce::new()).collect());
        let lane = of_thread(lanes).get_or_init(|| Lane(Place::new()));
        lane.0.put(Arc::clone(handle));
    }

    /// Drops the handles, except those that other threads have taken out for the moment.
    pub(super) fn release(&self) {
        for lane in self.0.get().into_iter().flatten().filter_map(RacyOnce::get) {
            drop(lane.0.take());
        }
    }
}

/// Returns the lane of this thread.
#[inline]
fn of_thread<C>(lanes: &Lanes<C>) -> &RacyOnce<Lane<C>> {
    &lanes[stripe().number() & (lanes.len() - 1)]
}

impl<C> fmt::Debug for KeptHandles<C> {
    /// Without the handles, whose resource has these.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptHandles").finish_non_exhaustive()
    }
}
