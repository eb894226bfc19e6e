//! The resources that a thread has found last.

use std::any::Any;
use std::cell::Cell;
use std::ptr;
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
struct LastFound {
    name: String,
    slots: Slots,
}

/// The slots of a thread, which are made when the first resource is noted.
#[derive(Default)]
pub(crate) struct Slots(Vec<Option<FoundSlot>>);

/// The parts of a name: the method and the route of a request, or no method and the name itself. A
/// name of two parts need not be written to be found.
#[derive(Clone, Copy)]
pub(crate) struct NameParts<'a> {
    /// Compared by its address, which takes fewer instructions. Equal methods at different
    /// addresses only displace each other in their slot.
    pub(crate) method: &'static str,
    pub(crate) route: &'a str,
}

struct FoundSlot {
    layer: LayerId,
    method: &'static str,
    route: String,
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

/// Calls `look` with the slots of the thread, and an empty name.
#[inline]
pub(crate) fn with<T>(look: impl FnOnce(&mut Slots, &mut String) -> T) -> T {
    // In a destructor of another thread-local, it may be destroyed: each request then has a new
    // one.
    let mut last = LAST.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let LastFound { name, slots } = &mut *last;
    name.clear();
    let found = look(slots, name);
    let _ = LAST.try_with(|it| it.set(Some(last)));
    found
}

impl Slots {
    /// Returns the resource with that name, if the layer has found it last in its slot.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the name goes through memory")]
    pub(crate) fn get<C: 'static>(
        &self,
        layer: LayerId,
        name: NameParts<'_>,
    ) -> Option<Resource<C>> {
        let slot = self.0.get(slot_of(layer, name))?.as_ref()?;
        if slot.layer != layer || !ptr::eq(slot.method, name.method) || slot.route != name.route {
            return None;
        }
        slot.resource.downcast_ref::<WeakResource<C>>()?.upgrade()
    }

    /// Notes a resource, which the registry has found by that name.
    #[cold]
    pub(crate) fn note<C: 'static>(
        &mut self,
        layer: LayerId,
        name: NameParts<'_>,
        resource: &Resource<C>,
    ) {
        if self.0.is_empty() {
            self.0.resize_with(SLOTS, || None);
        }
        let slot = &mut self.0[slot_of(layer, name)];
        let resource = resource.downgrade();
        if let Some(slot) = slot
            && let Some(last) = slot.resource.downcast_mut::<WeakResource<C>>()
        {
            slot.layer = layer;
            slot.method = name.method;
            name.route.clone_into(&mut slot.route);
            *last = resource;
        } else {
            let (method, route) = (name.method, name.route.to_owned());
            *slot = Some(FoundSlot { layer, method, route, resource: Box::new(resource) });
        }
    }
}

/// Returns the slot of a name. Layers around one service give a request the same name, so their
/// slots differ. Names that a client has chosen to share a slot only cost look-ups.
#[inline]
fn slot_of(layer: LayerId, NameParts { method, route }: NameParts<'_>) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let bytes = route.as_bytes();
    // Methods with the same first letter and length would only share slots.
    let first = method.as_bytes().first().map_or(0, |&first| u64::from(first));
    let lengths = (method.len() as u64) << 8 ^ (bytes.len() as u64) << 16;
    let seed = mix(layer.0, first ^ lengths);
    let (mut hash, mut rest) = (seed, bytes);
    while let Some((&word, after)) = rest.split_first_chunk() {
        (hash, rest) = (mix(hash, u64::from_le_bytes(word)), after);
    }
    // The last word of all, since a loop over the bytes after the last whole word takes longer.
    let last = bytes.last_chunk().map_or_else(
        || rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        |&last| u64::from_le_bytes(last),
    );
    // The upper bits of a product depend on all bits of its factors.
    let [high, ..] = mix(hash, last).to_be_bytes();
    usize::from(high >> (u8::BITS - SLOTS.ilog2()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use leaparray::Registry;

    use super::*;

    fn slot(layer: u64, method: &'static str, route: &str) -> usize {
        slot_of(LayerId(layer), parts(method, route))
    }

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
                    (b'a'..=b'z').map(|byte| slot(0, "", &name(byte))).collect();
                // 21 if they were random.
                assert!(slots.len() >= 8, "{} slots: {len} bytes, byte {at}", slots.len());
            }
        }
    }

    #[test]
    fn layers_and_methods_have_different_slots_for_a_name() {
        for name in ["/", "GET /orders", "GET /orders/{id}", "GET /orders/{id}/status"] {
            let slots: HashSet<_> = (0..8).map(|layer| slot(layer, "", name)).collect();
            assert!(slots.len() >= 6, "{} slots: {name}", slots.len());
            let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY"];
            let slots: HashSet<_> = methods.map(|method| slot(0, method, name)).into();
            assert!(slots.len() >= 6, "{} slots: {name}", slots.len());
        }
    }

    fn parts<'a>(method: &'static str, route: &'a str) -> NameParts<'a> {
        NameParts { method, route }
    }

    #[test]
    fn parts_find_the_resource_that_was_noted_with_them() {
        let (registry, layer, other) = (Registry::new(), LayerId(0), LayerId(1));
        let mut last = Slots::default();
        let noted = [
            (layer, parts("GET", "/a")),
            (layer, parts("PUT", "/a")),
            (other, parts("GET", "/orders")),
        ];
        let resources =
            ["GET /a", "PUT /a", "GET /orders"].map(|name| registry.resource(name).unwrap());
        for ((layer, parts), resource) in noted.into_iter().zip(&resources) {
            last.note(layer, parts, resource);
        }
        for ((layer, parts), resource) in noted.into_iter().zip(&resources) {
            let found: Option<Resource> = last.get(layer, parts);
            assert_eq!(found.map(|it| it.id()), Some(resource.id()));
        }
        let is_found = |layer, parts: NameParts<'_>| {
            last.get::<leaparray::MonotonicClock>(layer, parts).is_some()
        };
        // Its slot is that of GET.
        assert!(!is_found(layer, parts("GAT", "/a")));
        // Some of them have that slot too.
        for number in 2..1_000 {
            assert!(!is_found(LayerId(number), parts("GET", "/a")));
            assert!(!is_found(layer, parts("GET", &format!("/{number}"))));
        }
    }
}
