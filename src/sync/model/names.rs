//! A map whose places hold indices into a table of all entries that were ever inserted.

use std::fmt;
use std::sync::{Arc as Invisible, Mutex, PoisonError};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Name;

/// The number of entries that a model can insert: a place is used once.
const CAPACITY: usize = 4;

/// A place that was never used. The places after it were never used either.
const EMPTY: usize = 0;

/// A place whose entry was removed. It is never used again.
const GONE: usize = usize::MAX;

type Entry<V> = Invisible<(Name, Arc<V>)>;

/// A map with open addressing, in which the probe of each name starts at the first place. An
/// insertion puts the name into the first empty place by one compare-exchange, so each name is
/// there once. The map synchronizes as an acquire load and a release swap of an entry do, as
/// `papaya` does, and no more: a lock would also order a look-up before later operations.
///
/// The table of entries is behind the standard library's mutex, as in `IndexedSlot`.
pub(crate) struct Names<V> {
    places: [AtomicUsize; CAPACITY],
    values: Mutex<Vec<Entry<V>>>,
}

impl<V> Names<V> {
    pub(crate) fn new() -> Self {
        let places = std::array::from_fn(|_| AtomicUsize::new(EMPTY));
        Self { places, values: Mutex::new(Vec::new()) }
    }

    #[expect(clippy::unused_self, reason = "as in the map")]
    pub(crate) fn can_change(&self) -> bool {
        true
    }

    #[expect(clippy::unused_self, reason = "as in the map")]
    pub(crate) fn pin(&self) -> impl Sized + use<'_, V> {}

    pub(crate) fn with<R>(&self, name: &str, look: impl FnOnce(&Arc<V>) -> Option<R>) -> Option<R> {
        let (_, entry) = self.entries().find(|(_, entry)| &*entry.0 == name)?;
        look(&entry.1)
    }

    pub(crate) fn insert(&self, name: &Name, value: Arc<V>) -> bool {
        let index = self.push(Name::clone(name), value);
        for place in &self.places {
            match place.compare_exchange(EMPTY, index, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(GONE) => {}
                Err(found) if self.entry(found).0 == *name => return false,
                Err(_) => {}
            }
        }
        panic!("the model inserts more names than there are places");
    }

    pub(crate) fn remove(&self, name: &str, value: &Arc<V>) -> bool {
        let is_it = |entry: &Entry<V>| &*entry.0 == name && Arc::ptr_eq(&entry.1, value);
        let Some((place, entry)) = self.entries().find(|(_, entry)| is_it(entry)) else {
            return false;
        };
        let index = self
            .with_values(|values| values.iter().position(|value| Invisible::ptr_eq(value, &entry)));
        let index = index.map_or(EMPTY, |index| index + 1);
        place.compare_exchange(index, GONE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn for_each(&self, mut look: impl FnMut(&Arc<V>)) {
        self.entries().for_each(|(_, entry)| look(&entry.1));
    }

    pub(crate) fn for_each_prepared(
        &self,
        _stages: usize,
        _prepare: impl Fn(&Arc<V>, usize),
        look: impl FnMut(&Arc<V>),
    ) {
        self.for_each(look);
    }

    fn entries(&self) -> impl Iterator<Item = (&AtomicUsize, Entry<V>)> {
        let places = self.places.iter().map(|place| (place, place.load(Ordering::Acquire)));
        places
            .take_while(|&(_, index)| index != EMPTY)
            .filter(|&(_, index)| index != GONE)
            .map(|(place, index)| (place, self.entry(index)))
    }

    fn entry(&self, index: usize) -> Entry<V> {
        self.with_values(|values| Invisible::clone(&values[index - 1]))
    }

    /// Appends an entry to the table, and returns its index + 1.
    fn push(&self, name: Name, value: Arc<V>) -> usize {
        self.with_values(|values| {
            values.push(Invisible::new((name, value)));
            values.len()
        })
    }

    /// Calls `f` under the lock. `f` must not clone or drop an `Arc` of loom's.
    fn with_values<R>(&self, f: impl FnOnce(&mut Vec<Entry<V>>) -> R) -> R {
        f(&mut self.values.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<V> fmt::Debug for Names<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}
