//! Which value has a name: the one type that holds `papaya`.

use std::fmt;

use papaya::HashMap;

use super::{Arc, Name};

/// A map from names to values that is read without a lock, while others insert and remove.
///
/// # Orderings
///
/// An insertion releases and a look-up acquires: who finds a value sees it made. Of a look-up that does
/// not find, nothing follows but that the insertion does not come before it.
pub(crate) struct Names<V>(HashMap<Name, Arc<V>>);

impl<V> Names<V> {
    pub(crate) fn new() -> Self {
        Self(HashMap::new())
    }

    /// What `look` makes of the value of that name, if there is one.
    #[inline]
    pub(crate) fn with<R>(&self, name: &str, look: impl FnOnce(&Arc<V>) -> R) -> Option<R> {
        self.0.pin().get(name).map(look)
    }

    /// Puts the value in, unless the name has one.
    pub(crate) fn insert(&self, name: &Name, value: Arc<V>) -> bool {
        self.0.pin().try_insert(Name::clone(name), value).is_ok()
    }

    /// Takes the name out if it has this very value, and says whether it had.
    pub(crate) fn remove(&self, name: &str, value: &Arc<V>) -> bool {
        let is_it = |_: &Name, found: &Arc<V>| Arc::ptr_eq(found, value);
        matches!(self.0.pin().remove_if(name, is_it), Ok(Some(_)))
    }

    /// Shows each value that is there throughout exactly once; what comes or goes meanwhile, perhaps.
    pub(crate) fn for_each(&self, look: impl FnMut(&Arc<V>)) {
        // Over one table, the newest of when this begins: an entry stays where it is in it, also when
        // it is copied into the next.
        self.0.pin().values().for_each(look);
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
    fn a_name_has_one_value_and_only_that_very_one_is_removed() {
        let names = Names::new();
        let name = Name::from("a");
        let [one, equal] = [(); 2].map(|()| Arc::new(1));
        assert!(names.insert(&name, Arc::clone(&one)));
        assert!(!names.insert(&name, Arc::clone(&equal)));
        assert!(names.with("a", |found| Arc::ptr_eq(found, &one)).is_some_and(|same| same));
        assert!(!names.remove("a", &equal), "equal, but not the same");
        assert!(names.remove("a", &one) && !names.remove("a", &one));
        assert!(names.with("a", |_| ()).is_none());
        names.for_each(|_| panic!("it is empty"));
    }
}
