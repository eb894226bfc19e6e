//! A slot whose value is an index into everything that was ever put there.

use std::sync::{Arc as Invisible, Mutex, PoisonError};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

use super::Held;

/// Index 0 is the empty slot; a value that was swapped out is let go of, and its index not used
/// again.
///
/// The table of values is the standard library's, so that loom sees the index alone. An inner
/// `Arc` is never cloned or dropped under its lock: those are loom's switching points, and all of
/// a model's threads run on one thread of the system. Hence the outer, invisible `Arc`.
pub(crate) struct IndexedSlot<T> {
    index: AtomicUsize,
    values: Mutex<Vec<Option<Invisible<Arc<T>>>>>,
}

impl<T> IndexedSlot<T> {
    pub(crate) fn empty() -> Self {
        Self { index: AtomicUsize::new(0), values: Mutex::new(vec![None]) }
    }

    pub(crate) fn load(&self) -> Held<T> {
        let mut index = self.index.load(Ordering::Acquire);
        loop {
            if index == 0 {
                return Held(None);
            }
            let value = self.with_values(|values| values[index].clone());
            if let Some(value) = value {
                return Held(Some(Arc::clone(&value)));
            }
            // Gone since: take the newest, as arc-swap does when its second look fails. Only a
            // read-modify-write is sure to read that.
            index = self.index.fetch_add(0, Ordering::Acquire);
        }
    }

    pub(crate) fn compare_and_swap(
        &self,
        observed: &Held<T>,
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
            Some(old) => Ok(self.let_go(old)),
            None => Err(self.let_go(put).expect("nobody has seen it")),
        }
    }

    fn let_go(&self, index: usize) -> Option<Arc<T>> {
        let value = self.with_values(|values| values[index].take())?;
        // Who is loading it at this moment has the outer one too.
        Some(Invisible::try_unwrap(value).unwrap_or_else(|value| Arc::clone(&value)))
    }

    /// Where `observed` lies: nowhere if it was let go of.
    fn index_of(values: &[Option<Invisible<Arc<T>>>], observed: &Held<T>) -> Option<usize> {
        let Some(address) = observed.address() else { return Some(0) };
        values.iter().position(|value| {
            value.as_ref().is_some_and(|arc| std::ptr::from_ref(&***arc) == address)
        })
    }

    fn with_values<R>(&self, f: impl FnOnce(&mut Vec<Option<Invisible<Arc<T>>>>) -> R) -> R {
        f(&mut self.values.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
