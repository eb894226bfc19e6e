//! Words of memory that goes from thread to thread, and that one thread at a time uses.

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use crossbeam_utils::atomic::AtomicCell;

/// A word that one thread at a time reads and writes. It is atomic only to be shareable without unsafe
/// code, and orders nothing: a model need not see it.
#[derive(Debug)]
pub(crate) struct PrivateU64(AtomicU64);

impl PrivateU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}
