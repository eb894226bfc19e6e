//! A map from names to values: the only type that uses `papaya` and `foldhash`.

use std::fmt;

use foldhash::fast::RandomState;
use papaya::HashMap;

use super::{Arc, Name};

/// A map from names to values, in which threads look up without a lock while others insert and
/// remove.
///
/// # Orderings
///
/// An insertion releases and a look-up acquires: a thread that finds a value sees it made. A
/// look-up that finds nothing only shows that no insertion of the name happened before it, or that
/// the name was removed.
///
/// The hashes have a random seed: clients may choose names, as those of gRPC methods, and without
/// the seed they cannot choose names that collide.
pub(crate) struct Names<V>(HashMap<Name, Arc<V>, RandomState>);

impl<V> Names<V> {
    pub(crate) fn new() -> Self {
        Self(HashMap::default())
    }

    /// Returns a pin of the map. Until it is dropped, no value that was taken out of the map is
    /// dropped by this thread.
    pub(crate) fn pin(&self) -> impl Sized + use<'_, V> {
        self.0.pin()
    }

    /// Calls `look` with the value of that name, and returns the result; `None` if the name has no
    /// value.
    #[inline]
    pub(crate) fn with<R>(&self, name: &str, look: impl FnOnce(&Arc<V>) -> R) -> Option<R> {
        self.0.pin().get(name).map(look)
    }

    /// Inserts the value, unless the name has a value. Returns whether it was inserted.
    pub(crate) fn insert(&self, name: &Name, value: Arc<V>) -> bool {
        self.0.pin().try_insert(Name::clone(name), value).is_ok()
    }

    /// Removes the name if its value is `value`, by identity. Returns whether it was removed.
    pub(crate) fn remove(&self, name: &str, value: &Arc<V>) -> bool {
        let is_it = |_: &Name, found: &Arc<V>| Arc::ptr_eq(found, value);
        matches!(self.0.pin().remove_if(name, is_it), Ok(Some(_)))
    }

    /// Visits each value that is present during the whole call exactly once, and perhaps values
    /// that are inserted or removed during the call.
    pub(crate) fn for_each(&self, look: impl FnMut(&Arc<V>)) {
        // Iterates over one table, the newest at the start of the call. An entry keeps its place in
        // that table even when it is copied into a larger one.
        self.0.pin().values().for_each(look);
    }
}

/// The number of values whose stages are done together.
const AHEAD: usize = 32;

impl<V> Names<V> {
    /// Visits each value, as [`for_each`](Self::for_each) does, in batches: calls `prepare` for
    /// stage 0 of each value of a batch, then for stage 1 of each, and so on, and then `look` for
    /// each.
    pub(crate) fn for_each_prepared(
        &self,
        stages: usize,
        prepare: impl Fn(&Arc<V>, usize),
        mut look: impl FnMut(&Arc<V>),
    ) {
        let pin = self.0.pin();
        let mut some = Vec::with_capacity(AHEAD);
        let mut values = pin.values();
        loop {
            some.extend(values.by_ref().take(AHEAD));
            for stage in 0..stages {
                for value in &some {
                    prepare(value, stage);
                }
            }
            for value in &some {
                look(value);
            }
            if some.len() < AHEAD {
                return;
            }
            some.clear();
        }
    }
}

impl<V> fmt::Debug for Names<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_one_value_and_only_that_value_is_removed() {
        let names = Names::new();
        let name = Name::from("a");
        let [one, equal] = [(); 2].map(|()| Arc::new(1));
        assert!(names.insert(&name, Arc::clone(&one)));
        assert!(!names.insert(&name, Arc::clone(&equal)));
        assert!(names.with("a", |found| Arc::ptr_eq(found, &one)).is_some_and(|same| same));
        assert!(!names.remove("a", &equal), "equal, but not the same");
        assert!(names.remove("a", &one) && !names.remove("a", &one));
        assert!(names.with("a", |_| ()).is_none());
        names.for_each(|_| panic!("the map is empty"));
    }
}
