//! Words of rows and descriptors, of which loom need not see all.

use std::sync::atomic as invisible;

use loom::sync::atomic::{self as visible, Ordering};

/// Defines a word that loom sees, or a word that is written and read together with such a word. The
/// latter orders nothing, and every load of it finds the last store.
macro_rules! payload {
    ($name:ident, $value:ty, $atomic:ident, $unseen:ident, $seen:ident) => {
        #[derive(Debug)]
        pub(crate) enum $name {
            Seen(visible::$atomic),
            Unseen(invisible::$atomic),
        }

        /// Creates a word that a model need not see.
        pub(crate) fn $unseen(value: $value) -> $name {
            $name::Unseen(invisible::$atomic::new(value))
        }

        /// Creates a word that a model sees.
        pub(crate) fn $seen(value: $value) -> $name {
            $name::Seen(visible::$atomic::new(value))
        }

        impl $name {
            pub(crate) fn load(&self, order: Ordering) -> $value {
                match self {
                    Self::Seen(word) => word.load(order),
                    Self::Unseen(word) => word.load(order),
                }
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                match self {
                    Self::Seen(word) => word.store(value, order),
                    Self::Unseen(word) => word.store(value, order),
                }
            }
        }
    };
}

payload!(Payload, u64, AtomicU64, payload, seen_payload);
payload!(Payload32, u32, AtomicU32, payload_32, seen_payload_32);
