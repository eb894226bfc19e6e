//! The stand-in for a reference that changes.

use std::sync::Mutex;

use loom::sync::atomic::{AtomicUsize, Ordering};

/// A reference that changes. It synchronizes as a release store and an acquire load do, as that of
/// `crossbeam_utils` does.
#[derive(Debug)]
pub(crate) struct AtomicRef<T: 'static> {
    /// The index + 1 of the reference in `stored`; 0 for none.
    index: AtomicUsize,
    /// The standard library's: loom sees the index.
    stored: Mutex<Vec<&'static T>>,
}

impl<T> AtomicRef<T> {
    pub(crate) fn new() -> Self {
        Self { index: AtomicUsize::new(0), stored: Mutex::new(Vec::new()) }
    }

    pub(crate) fn load(&self) -> Option<&'static T> {
        let index = self.index.load(Ordering::Acquire).checked_sub(1)?;
        Some(self.stored.lock().unwrap()[index])
    }

    pub(crate) fn store(&self, value: &'static T) {
        let mut stored = self.stored.lock().unwrap();
        stored.push(value);
        let index = stored.len();
        drop(stored);
        self.index.store(index, Ordering::Release);
    }
}
