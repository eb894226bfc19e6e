//! Words that one thread at a time uses, in memory that passes from thread to thread.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

pub(crate) use crossbeam_utils::atomic::AtomicCell;

macro_rules! private {
    ($name:ident, $atomic:ident, $value:ty) => {
        /// A word that one thread at a time reads and writes. It is atomic only so that it can be
        /// shared without unsafe code. It orders nothing, so a model need not see it.
        #[derive(Debug)]
        pub(crate) struct $name($atomic);

        impl $name {
            pub(crate) const fn new(value: $value) -> Self {
                Self($atomic::new(value))
            }

            #[inline]
            pub(crate) fn get(&self) -> $value {
                self.0.load(Ordering::Relaxed)
            }

            #[inline]
            pub(crate) fn set(&self, value: $value) {
                self.0.store(value, Ordering::Relaxed);
            }
        }
    };
}

private!(PrivateU16, AtomicU16, u16);
private!(PrivateU32, AtomicU32, u32);
private!(PrivateU64, AtomicU64, u64);
