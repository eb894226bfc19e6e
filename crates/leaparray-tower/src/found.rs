//! The resources that a thread has found last.

use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::Resource;
use leaparray::registry::WeakResource;

thread_local! {
    /// `None` while a request uses it. A [`Name`](crate::Name) that calls the service of another
    /// layer then gets a new one.
    static LAST: Cell<Option<Box<LastFound>>> = const { Cell::new(None) };
}

/// The slots of a thread. A power of two, and at most 256.
const SLOTS: usize = 64;

/// A cache of the resources that the thread has found last, by their names, with a buffer for the
/// name of the present request. Without it, each request would hash its name with random keys, pin
/// the map of the registry, and take and put back the handle that the registry keeps.
///
/// Each name has one slot. If two names of a slot take turns, their requests look the registry up.
/// A resource in a slot can be evicted, and names of layers that are dropped stay until other names
/// need their slots.
#[derive(Default)]
pub(crate) struct LastFound {
    pub(crate) name: String,
    slots: Vec<Option<FoundSlot>>,
}

struct FoundSlot {
    layer: LayerId,
    name: String,
    /// A [`WeakResource`] with the clock of the layer. The slots of a thread are of all its layers.
    resource: Box<dyn Any>,
}

/// The identity of the resources of a layer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerId(u64);

impl LayerId {
    /// Returns an identity that was never returned before.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl LastFound {
    /// Calls `look` with the cache of the thread, and an empty name.
    #[inline]
    pub(crate) fn with<T>(look: impl FnOnce(&mut Self) -> T) -> T {
        let mut last = LAST.take().unwrap_or_default();
        last.name.clear();
        let found = look(&mut last);
        LAST.set(Some(last));
        found
    }

    /// Returns the resource with the present name, if the layer has found it last in its slot.
    #[inline]
    pub(crate) fn get<C: 'static>(&self, layer: LayerId) -> Option<Resource<C>> {
        let slot = self.slots.get(slot_of(&self.name))?.as_ref()?;
        if slot.layer != layer || slot.name != self.name {
            return None;
        }
        slot.resource.downcast_ref::<WeakResource<C>>()?.upgrade()
    }

    /// Notes a resource, which the registry has found by the present name.
    #[cold]
    pub(crate) fn note<C: 'static>(&mut self, layer: LayerId, resource: &Resource<C>) {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let slot = &mut self.slots[slot_of(&self.name)];
        let resource = resource.downgrade();
        if let Some(slot) = slot
            && let Some(last) = slot.resource.downcast_mut::<WeakResource<C>>()
        {
            slot.layer = layer;
            slot.name.clone_from(&self.name);
            *last = resource;
        } else {
            *slot =
                Some(FoundSlot { layer, name: self.name.clone(), resource: Box::new(resource) });
        }
    }
}

/// Returns the slot of a name. Names that a client has chosen to share a slot only cost look-ups.
#[inline]
fn slot_of(name: &str) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let hash = words.iter().fold(0, |hash, &word| mix(hash, u64::from_le_bytes(word)));
    let hash = rest.iter().fold(hash, |hash, &byte| hash << 8 | u64::from(byte));
    let [high, ..] = mix(hash, name.len() as u64).to_be_bytes();
    usize::from(high) % SLOTS
}
