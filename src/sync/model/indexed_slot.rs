//! A slot that holds an index into a table of all values that were ever put there.

use std::sync::{Arc as Invisible, Mutex, PoisonError};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

use super::Loaded;

/// Index 0 is the empty slot. When a value is swapped out, its entry in the table is emptied, and
/// its index is never used again.
///
/// The table is behind the standard library's mutex, so loom sees the index alone. An inner `Arc`
/// is never cloned or dropped under that lock: loom may switch threads at these operations, and all
/// threads of a model run on one thread of the operating system, which would then wait for its own
/// lock. So each inner `Arc` is in an outer one, which loom does not see.
pub(crate) struct IndexedSlot<T> {
    index: AtomicUsize,
    values: Mutex<Vec<Option<Invisible<Arc<T>>>>>,
}

impl<T> IndexedSlot<T> {
    pub(crate) fn empty() -> Self {
        Self { index: AtomicUsize::new(0), values: Mutex::new(vec![None]) }
    }

    pub(crate) fn load(&self) -> Loaded<T> {
        let mut index = self.index.load(Ordering::Acquire);
        loop {
            if index == 0 {
                return Loaded(None);
            }
            let value = self.with_values(|values| values[index].clone());
            if let Some(value) = value {
                return Loaded(Some(Arc::clone(&value)));
            }
            // The value was swapped out since the load. Retry with the newest index, as arc-swap
            // does if its validation fails. Only a read-modify-write is certain to read the newest.
            index = self.index.fetch_add(0, Ordering::Acquire);
        }
    }

    pub(crate) fn compare_and_swap(
        &self,
        observed: &Loaded<T>,
        new: Arc<T>,
    ) -> Result<Option<Arc<T>>, Arc<T>> {
        let (old, put) = self.with_values(|values| {
            values.push(Some(Invisible::new(new)));
            (Self::index_of(values, observed), values.len() - 1)
        });
        let swapped = old.filter(|&old| {
            self.index.compare_exchange(old, put, Ordering::AcqRel, Ordering::Acquire).is_ok()
        });
        match swapped {
            Some(old) => Ok(self.take_out(old)),
            None => Err(self.take_out(put).expect("no other thread has the index")),
        }
    }

    fn take_out(&self, index: usize) -> Option<Arc<T>> {
        let value = self.with_values(|values| values[index].take())?;
        // A thread that is loading the value at the same time also has the outer `Arc`.
        Some(Invisible::try_unwrap(value).unwrap_or_else(|value| Arc::clone(&value)))
    }

    /// The index of `observed`; `None` if it was swapped out.
    fn index_of(values: &[Option<Invisible<Arc<T>>>], observed: &Loaded<T>) -> Option<usize> {
        let Some(address) = observed.address() else { return Some(0) };
        values.iter().position(|value| {
            value.as_ref().is_some_and(|arc| std::ptr::from_ref(&***arc) == address)
        })
    }

    fn with_values<R>(&self, f: impl FnOnce(&mut Vec<Option<Invisible<Arc<T>>>>) -> R) -> R {
        f(&mut self.values.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
