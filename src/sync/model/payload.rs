//! Words of rows and descriptors, of which loom need not see all.

use std::sync::atomic as invisible;

use loom::sync::atomic::{AtomicU64, Ordering};

/// A word that loom sees, or a word that is written and read together with such a word. The latter orders nothing, and
/// every load of it finds the last store.
#[derive(Debug)]
pub(crate) enum Payload {
    Seen(AtomicU64),
    Unseen(invisible::AtomicU64),
}

/// Creates a word that a model need not see.
pub(crate) fn payload(value: u64) -> Payload {
    Payload::Unseen(invisible::AtomicU64::new(value))
}

/// Creates a word that a model sees.
pub(crate) fn seen_payload(value: u64) -> Payload {
    Payload::Seen(AtomicU64::new(value))
}

impl Payload {
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        match self {
            Self::Seen(word) => word.load(order),
            Self::Unseen(word) => word.load(order),
        }
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        match self {
            Self::Seen(word) => word.store(value, order),
            Self::Unseen(word) => word.store(value, order),
        }
    }
}
