//! A slot behind a mutex.

use loom::sync::{Arc, Mutex};

use super::Loaded;

pub(crate) struct LockedSlot<T>(Mutex<Option<Arc<T>>>);

impl<T> LockedSlot<T> {
    pub(crate) fn empty() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn load(&self) -> Loaded<T> {
        Loaded(self.0.lock().expect("no model panics with a slot locked").clone())
    }

    pub(crate) fn compare_and_swap(
        &self,
        observed: &Loaded<T>,
        new: Arc<T>,
    ) -> Result<Option<Arc<T>>, Arc<T>> {
        let mut value = self.0.lock().expect("no model panics with a slot locked");
        if value.as_ref().map(|arc| std::ptr::from_ref(&**arc)) != observed.address() {
            return Err(new);
        }
        Ok(value.replace(new))
    }
}
