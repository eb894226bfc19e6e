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
/// Each name of a layer has one slot. If two names of a slot take turns, their requests look the
/// registry up. A resource in a slot can be evicted. A slot that was used keeps a name, and the
/// memory of one handle, of 128 bytes, until another name needs it: also after the eviction of the
/// resource, and after the drop of the layer.
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
        // In a destructor of another thread-local, it may be destroyed: each request then has a new
        // one.
        let mut last = LAST.try_with(Cell::take).ok().flatten().unwrap_or_default();
        last.name.clear();
        let found = look(&mut last);
        let _ = LAST.try_with(|it| it.set(Some(last)));
        found
    }

    /// Returns the resource with the present name, if the layer has found it last in its slot.
    #[inline]
    pub(crate) fn get<C: 'static>(&self, layer: LayerId) -> Option<Resource<C>> {
        let slot = self.slots.get(slot_of(layer, &self.name))?.as_ref()?;
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
        let slot = &mut self.slots[slot_of(layer, &self.name)];
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

/// Returns the slot of a name. Layers around one service give a request the same name, so their
/// slots differ. Names that a client has chosen to share a slot only cost look-ups.
#[inline]
fn slot_of(layer: LayerId, name: &str) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let hash = words.iter().fold(layer.0, |hash, &word| mix(hash, u64::from_le_bytes(word)));
    // At most seven bytes, below the lowest one of the length.
    let last = rest.iter().fold(name.len() as u64, |word, &byte| word << 8 | u64::from(byte));
    // The upper bits of a product depend on all bits of its factors.
    let [high, ..] = mix(hash, last).to_be_bytes();
    usize::from(high >> (u8::BITS - SLOTS.ilog2()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_byte_of_a_name_decides_on_its_slot() {
        for len in 1..=40 {
            for at in 0..len {
                let name = |byte: u8| {
                    let mut name = "/".repeat(at) + &char::from(byte).to_string();
                    name.extend(std::iter::repeat_n('/', len - at - 1));
                    name
                };
                let slots: HashSet<_> =
                    (b'a'..=b'z').map(|byte| slot_of(LayerId(0), &name(byte))).collect();
                // 21 if they were random.
                assert!(slots.len() >= 8, "{} slots: {len} bytes, byte {at}", slots.len());
            }
        }
    }

    #[test]
    fn layers_have_different_slots_for_a_name() {
        for name in ["/", "GET /orders", "GET /orders/{id}", "GET /orders/{id}/status"] {
            let slots: HashSet<_> = (0..8).map(|layer| slot_of(LayerId(layer), name)).collect();
            assert!(slots.len() >= 6, "{} slots: {name}", slots.len());
        }
    }
}
