//! The resources that a thread has found last.

use std::any::Any;
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::Resource;
use leaparray::registry::WeakResource;

thread_local! {
    static LAST: RefCell<LastFound> = const { RefCell::new(LastFound::new()) };
}

/// The slots of a thread. A power of two, and at most 256.
const SLOTS: usize = 64;

/// A cache of the resources that the thread has found last, by their names, with a buffer for the
/// name of the present request. Without it, each request would hash its name with random keys, pin
/// the map of the registry, and take and put back the handle that the registry keeps.
///
/// Each name of a layer has one slot. If two names of a slot take turns, their requests look the
/// registry up. A resource in a slot can be evicted. A slot that was used keeps a name, the text of
/// a route, and the memory of one handle, of 128 bytes, until another name needs it: also after the
/// eviction of the resource, and after the drop of the layer and of the router.
struct LastFound {
    name: String,
    slots: Slots,
}

impl LastFound {
    const fn new() -> Self {
        Self { name: String::new(), slots: Slots::new() }
    }
}

/// The slots of a thread, which are made when the first resource is noted.
pub(crate) struct Slots {
    /// None, or as many as [`SLOTS`].
    slots: Vec<Option<FoundSlot>>,
    /// The slots of routes by their addresses. A hint: the routes of a router stay where they are,
    /// and a hash of an address takes fewer instructions than one of a name.
    by_address: [u8; SLOTS],
}

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
    kept: KeptRoute,
    /// A [`WeakResource`] with the clock of the layer. The slots of a thread are of all its layers.
    resource: Box<dyn Any>,
}

/// The text of a route at the address at which a request had it. While it is kept, no other text
/// is at that address, so a route with that address and length is equal: it need not be compared.
pub(crate) struct KeptRoute {
    address: usize,
    _owner: Option<Box<dyn Any>>,
}

impl KeptRoute {
    /// Keeps nothing: each route is compared.
    pub(crate) const NOTHING: Self = Self { address: 0, _owner: None };

    /// Keeps `route` by `owner`, which owns it.
    pub(crate) fn new(route: &str, owner: Box<dyn Any>) -> Self {
        Self { address: route.as_ptr().addr(), _owner: Some(owner) }
    }
}

impl FoundSlot {
    #[inline]
    fn is_of(&self, layer: LayerId, name: NameParts<'_>) -> bool {
        self.layer == layer && ptr::eq(self.method, name.method) && self.is_route(name.route)
    }

    #[inline]
    fn is_route(&self, route: &str) -> bool {
        if self.kept.address == route.as_ptr().addr() && self.route.len() == route.len() {
            return true;
        }
        self.has_text(route)
    }

    /// Compares a route with the text of this slot. Out of line: most routes are at the address at
    /// which they were before.
    #[inline(never)]
    fn has_text(&self, route: &str) -> bool {
        self.route == route
    }

    #[inline]
    fn get<C: 'static>(&self) -> Option<Resource<C>> {
        self.resource.downcast_ref::<WeakResource<C>>()?.upgrade()
    }
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
///
/// Returns `None` if the thread-local is in use or destroyed: by a [`Name`](crate::Name) that calls
/// the service of another layer, and in a destructor of another thread-local.
#[inline(always)]
#[expect(clippy::inline_always, reason = "out of line, the result goes through memory")]
pub(crate) fn with<T>(look: impl FnOnce(&mut Slots, &mut String) -> T) -> Option<T> {
    let found = LAST.try_with(|last| {
        let LastFound { name, slots } = &mut *last.try_borrow_mut().ok()?;
        name.clear();
        Some(look(slots, name))
    });
    found.ok().flatten()
}

/// Returns the resource with that name, if the layer has found it last in its slot of the thread.
/// `None` also if the thread-local is in use or destroyed, as for [`with`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "out of line, the name goes through memory")]
pub(crate) fn get<C: 'static>(layer: LayerId, name: NameParts<'_>) -> Option<Resource<C>> {
    LAST.try_with(|last| last.try_borrow_mut().ok()?.slots.get(layer, name)).ok().flatten()
}

impl Slots {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), by_address: [0; SLOTS] }
    }

    /// Returns the resource with that name, if the layer has found it last in its slot.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the name goes through memory")]
    pub(crate) fn get<C: 'static>(
        &mut self,
        layer: LayerId,
        name: NameParts<'_>,
    ) -> Option<Resource<C>> {
        // A name without a method is in the buffer of the thread, whatever it is.
        if name.method.is_empty() {
            let slot = self.slots.get(slot_of(layer, name))?.as_ref()?;
            return if slot.is_of(layer, name) { slot.get() } else { None };
        }
        let index = usize::from(self.by_address[place_of(layer, name)]);
        match self.slots.get(index)?.as_ref().filter(|slot| slot.is_of(layer, name)) {
            Some(slot) => slot.get(),
            None => self.get_by_name(layer, name),
        }
    }

    /// Returns the resource of a route that has another address than before.
    #[inline(never)]
    fn get_by_name<C: 'static>(
        &mut self,
        layer: LayerId,
        name: NameParts<'_>,
    ) -> Option<Resource<C>> {
        let index = slot_of(layer, name);
        let slot = self.slots.get(index)?.as_ref().filter(|slot| slot.is_of(layer, name))?;
        self.by_address[place_of(layer, name)] = u8::try_from(index).ok()?;
        slot.get()
    }

    /// Notes a resource, which the registry has found by that name.
    #[cold]
    pub(crate) fn note<C: 'static>(
        &mut self,
        layer: LayerId,
        name: NameParts<'_>,
        kept: KeptRoute,
        resource: &Resource<C>,
    ) {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let slot = &mut self.slots[slot_of(layer, name)];
        let resource = resource.downgrade();
        if let Some(slot) = slot
            && let Some(last) = slot.resource.downcast_mut::<WeakResource<C>>()
        {
            slot.layer = layer;
            slot.method = name.method;
            name.route.clone_into(&mut slot.route);
            slot.kept = kept;
            *last = resource;
        } else {
            let (method, route) = (name.method, name.route.to_owned());
            let resource = Box::new(resource);
            *slot = Some(FoundSlot { layer, method, route, kept, resource });
        }
    }
}

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the index among the slots by address of a name of two parts.
#[inline]
fn place_of(layer: LayerId, NameParts { method, route }: NameParts<'_>) -> usize {
    let addresses = (route.as_ptr().addr() as u64).rotate_left(5) ^ method.as_ptr().addr() as u64;
    upper_bits((addresses ^ layer.0).wrapping_mul(FACTOR))
}

/// Returns as many of the upper bits of a product as there are slots for. They depend on all bits
/// of its factors.
#[inline]
fn upper_bits(product: u64) -> usize {
    let [high, ..] = product.to_be_bytes();
    usize::from(high >> (u8::BITS - SLOTS.ilog2()))
}

/// Returns the slot of a name. Layers around one service give a request the same name, so their
/// slots differ. Names that a client has chosen to share a slot only cost look-ups.
#[inline]
fn slot_of(layer: LayerId, NameParts { method, route }: NameParts<'_>) -> usize {
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
    upper_bits(mix(hash, last))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

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
        let mut last = Slots::new();
        let noted = [
            (layer, parts("GET", "/a")),
            (layer, parts("PUT", "/a")),
            (other, parts("GET", "/orders")),
        ];
        let resources =
            ["GET /a", "PUT /a", "GET /orders"].map(|name| registry.resource(name).unwrap());
        for ((layer, parts), resource) in noted.into_iter().zip(&resources) {
            last.note(layer, parts, KeptRoute::NOTHING, resource);
        }
        for ((layer, parts), resource) in noted.into_iter().zip(&resources) {
            let found: Option<Resource> = last.get(layer, parts);
            assert_eq!(found.map(|it| it.id()), Some(resource.id()));
        }
        let mut is_found = |layer, parts: NameParts<'_>| {
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

    #[test]
    fn route_is_found_at_another_address() {
        let (registry, layer) = (Registry::new(), LayerId(0));
        let mut last = Slots::new();
        let resource = registry.resource("GET /a").unwrap();
        last.note(layer, parts("GET", "/a"), KeptRoute::NOTHING, &resource);
        // In the second round, the slot of the address is known.
        let routes: Vec<_> = (0..100).map(|_| "/a".to_owned()).collect();
        for route in routes.iter().chain(&routes) {
            let found: Option<Resource> = last.get(layer, parts("GET", route));
            assert_eq!(found.map(|it| it.id()), Some(resource.id()));
        }
        for route in routes.iter().map(|route| route.replace('a', "b")) {
            assert!(last.get::<leaparray::MonotonicClock>(layer, parts("GET", &route)).is_none());
        }
    }

    #[test]
    fn kept_route_stays_at_its_address_until_its_slot_has_another_one() {
        let (registry, layer) = (Registry::new(), LayerId(0));
        let mut last = Slots::new();
        let resource = registry.resource("GET /a").unwrap();
        let mut note = |text: &Arc<str>| {
            let kept = KeptRoute::new(text, Box::new(Arc::clone(text)));
            last.note(layer, parts("GET", text), kept, &resource);
        };
        let (first, second): (Arc<str>, Arc<str>) = ("/a".into(), "/a".into());
        note(&first);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (2, 1));
        note(&second);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
        let mut is_found = |route: &str| {
            last.get::<leaparray::MonotonicClock>(layer, parts("GET", route)).is_some()
        };
        // By its address, by its text, and neither.
        assert!(is_found(&second) && is_found(&first));
        assert!(!is_found("/b") && !is_found(&second[..1]));
    }
}
