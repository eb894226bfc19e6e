//! A map from names to values: the only type that uses `papaya` and `foldhash`.

use std::cell::Cell;
use std::fmt;
use std::thread_local;

use foldhash::fast::RandomState;
use papaya::{Guard, HashMap, HashMapRef};

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
///
/// # Threads that end
///
/// A pin of the map has the number of its thread, which `seize` keeps in a thread-local. Once that
/// is destroyed, as in the destructor of another thread-local and in a handler of `atexit`, the
/// first pin of the thread panics. From then on, a look-up and a visit take a pin with a number of
/// its own, which costs a lock. An insertion and a removal need the number of the thread in any
/// case, so such a thread [can not change](Self::can_change) the map.
pub(crate) struct Names<V>(HashMap<Name, Arc<V>, RandomState>);

/// Whether a thread has a number in `seize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not pinned a map.
    New,
    Numbered,
    /// The thread-local with its number is destroyed, or will be.
    Ending,
}

thread_local! {
    /// It has no destructor, so an access has no state to check.
    static PHASE: Cell<Phase> = const { Cell::new(Phase::New) };
    static END: End = const { End };
}

/// Notes that the thread ends. Thread-locals are destroyed in the reverse order of their first use,
/// and the first use of this one follows the first pin: so it is destroyed before the number is.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        PHASE.set(Phase::Ending);
    }
}

/// A pin of the map, for as long as it exists.
enum Pin<L, O> {
    Local(L),
    Owned(O),
}

impl<V> Names<V> {
    pub(crate) fn new() -> Self {
        Self(HashMap::default())
    }

    /// Returns whether this thread can insert and remove names. A thread that ends cannot.
    #[inline]
    pub(crate) fn can_change(&self) -> bool {
        PHASE.with(Cell::get) == Phase::Numbered || self.enter()
    }

    /// Prepares the first pin of the thread. Returns whether the thread has a number.
    #[cold]
    fn enter(&self) -> bool {
        if PHASE.get() == Phase::New {
            drop(self.0.pin());
            // Fails in no case: a thread whose `END` was destroyed is not new.
            let _ = END.try_with(|End| PHASE.set(Phase::Numbered));
        }
        PHASE.get() == Phase::Numbered
    }

    /// Returns a pin of the map. Until it is dropped, no value that was taken out of the map is
    /// dropped by this thread.
    pub(crate) fn pin(&self) -> impl Sized + use<'_, V> {
        if self.can_change() { Pin::Local(self.0.pin()) } else { Pin::Owned(self.0.pin_owned()) }
    }

    /// Calls `look` with the value of that name, and returns the result; `None` if the name has no
    /// value.
    #[inline]
    pub(crate) fn with<R>(&self, name: &str, look: impl FnOnce(&Arc<V>) -> Option<R>) -> Option<R> {
        if self.can_change() {
            self.0.pin().get(name).and_then(look)
        } else {
            self.with_while_ending(name, look)
        }
    }

    #[cold]
    fn with_while_ending<R>(
        &self,
        name: &str,
        look: impl FnOnce(&Arc<V>) -> Option<R>,
    ) -> Option<R> {
        self.0.pin_owned().get(name).and_then(look)
    }

    /// Inserts the value, unless the name has a value. Returns whether it was inserted. The thread
    /// [can change](Self::can_change) the map.
    pub(crate) fn insert(&self, name: &Name, value: Arc<V>) -> bool {
        self.0.pin().try_insert(Name::clone(name), value).is_ok()
    }

    /// Removes the name if its value is `value`, by identity. Returns whether it was removed. The
    /// thread [can change](Self::can_change) the map.
    pub(crate) fn remove(&self, name: &str, value: &Arc<V>) -> bool {
        let is_it = |_: &Name, found: &Arc<V>| Arc::ptr_eq(found, value);
        matches!(self.0.pin().remove_if(name, is_it), Ok(Some(_)))
    }

    /// Visits each value that is present during the whole call exactly once, and perhaps values
    /// that are inserted or removed during the call.
    pub(crate) fn for_each(&self, look: impl FnMut(&Arc<V>)) {
        // Iterates over one table, the newest at the start of the call. An entry keeps its place in
        // that table even when it is copied into a larger one.
        if self.can_change() {
            self.0.pin().values().for_each(look);
        } else {
            self.0.pin_owned().values().for_each(look);
        }
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
        look: impl FnMut(&Arc<V>),
    ) {
        if self.can_change() {
            Self::visit_prepared(&self.0.pin(), stages, prepare, look);
        } else {
            Self::visit_prepared(&self.0.pin_owned(), stages, prepare, look);
        }
    }

    fn visit_prepared(
        pin: &HashMapRef<'_, Name, Arc<V>, RandomState, impl Guard>,
        stages: usize,
        prepare: impl Fn(&Arc<V>, usize),
        mut look: impl FnMut(&Arc<V>),
    ) {
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
        assert_eq!(names.with("a", |found| Some(Arc::ptr_eq(found, &one))), Some(true));
        assert!(!names.remove("a", &equal), "equal, but not the same");
        assert!(names.remove("a", &one) && !names.remove("a", &one));
        assert!(names.with("a", |_| Some(())).is_none());
        names.for_each(|_| panic!("the map is empty"));
    }
}
