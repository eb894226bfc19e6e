//! A map from types to values that only grows, while other threads read it.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::PoisonError;

use super::AppendList;
use crate::sync::{Mutex, OnceLock};

/// Values of different types, at most one of each type. A map without values is one word.
///
/// Each type has a slot in a list that only grows, so a read takes no lock. A thread that inserts a
/// value appends the slot without a lock, and then makes the value in it. Other threads that insert
/// a value of that type wait for it.
pub(crate) struct TypeMap(AppendList<TypeSlot>);

struct TypeSlot {
    type_id: TypeId,
    /// A value of that type. Empty until `make` has succeeded.
    value: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Locked while a thread makes the value. `OnceLock` alone has no stable form for a value that
    /// may fail.
    making: Mutex<()>,
}

impl TypeMap {
    pub(crate) fn new() -> Self {
        Self(AppendList::new())
    }

    /// Returns the value of the type `T`; `None` if there is none, or if it is not made yet.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        let type_id = TypeId::of::<T>();
        let slot = self.0.iter().find(|slot| slot.type_id == type_id)?;
        slot.value.get().map(|value| of_type(&**value))
    }

    /// Returns the value of the type `T`. If there is none, inserts the result of `make`, or
    /// returns its error.
    pub(crate) fn get_or_try_insert_with<T: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&T, E> {
        let type_id = TypeId::of::<T>();
        let is_it = |slot: &TypeSlot| slot.type_id == type_id;
        let empty = || TypeSlot { type_id, value: OnceLock::new(), making: Mutex::new(()) };
        let (_, slot) = self.0.find_or_append(is_it, empty, usize::MAX).expect("there is no limit");
        if let Some(value) = slot.value.get() {
            return Ok(of_type(&**value));
        }
        // A panic in `make` poisons the lock, and leaves the slot empty for the next call.
        let _making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.value.get().is_none() {
            let value = Box::new(make()?);
            slot.value.get_or_init(|| value);
        }
        Ok(of_type(&**slot.value.get().expect("it was made")))
    }
}

/// Returns the value of a slot of the type `T`.
fn of_type<T: Any>(value: &(dyn Any + Send + Sync)) -> &T {
    value.downcast_ref().expect("the slot has a value of its type")
}

impl fmt::Debug for TypeMap {
    /// Formats the number of slots: the values need not implement `Debug`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypeMap").field("slots", &self.0.iter().count()).finish_non_exhaustive()
    }
}
