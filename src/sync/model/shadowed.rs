//! Atomics whose loads conflict with each other for loom, and words that loom need not see.
//!
//! Loom 0.7 keeps only the last access to an object. If one thread loads while another one loads
//! and then stores, the second load hides the first one from the store, and loom explores only one
//! of the two orders (`findings/loom-unexplored.sh`). Every add to an owned cell is such a load and
//! store. A *shadow* is an atomic that is never loaded. A relaxed store to the shadow before each
//! load makes the two loads conflict, so loom explores both orders.
//!
//! The counters of cells always have a shadow. All other `AtomicU32`s, `AtomicU64`s and
//! `AtomicUsize`s have a shadow in a model that calls [`shadow_all_words`], and in all models if
//! `SHADOWS` is set in the environment. Shadows multiply the executions.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic as invisible;

use loom::sync::atomic::{self, AtomicBool, Ordering};

std::thread_local! {
    /// Whether [`AtomicI64::unmodelled`] makes words that loom sees.
    static SHOW_ALL: Cell<bool> = const { Cell::new(false) };

    /// Whether all of these atomics have a shadow. Loom runs all threads of a model on the thread
    /// of its test.
    static SHADOW_ALL: Cell<bool> = Cell::new(std::env::var_os("SHADOWS").is_some());
}

/// Makes loom see every word of a cell, and not only the first counter, in the models that the
/// calling thread explores after this call. Use it for models of the relations between these words.
pub fn show_all_words() {
    SHOW_ALL.set(true);
}

/// Gives all `AtomicU32`s, `AtomicU64`s and `AtomicUsize`s a shadow in the models that the calling
/// thread explores after this call.
pub fn shadow_all_words() {
    SHADOW_ALL.set(true);
}

/// Defines an atomic that has a shadow if all have one. Its operations, except for `load`, are
/// loom's.
macro_rules! shadowed {
    ($name:ident of $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name {
            shadow: Option<AtomicBool>,
            word: atomic::$name,
        }

        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                let shadow = SHADOW_ALL.get().then(|| AtomicBool::new(false));
                Self { shadow, word: atomic::$name::new(value) }
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                if let Some(shadow) = &self.shadow {
                    shadow.store(true, Ordering::Relaxed);
                }
                self.word.load(order)
            }
        }

        impl Deref for $name {
            type Target = atomic::$name;

            fn deref(&self) -> &atomic::$name {
                &self.word
            }
        }
    };
}

shadowed! { AtomicU32 of u32 }
shadowed! { AtomicU64 of u64 }
shadowed! { AtomicUsize of usize }

#[derive(Debug)]
pub(crate) enum AtomicI64 {
    Seen { shadow: AtomicBool, word: atomic::AtomicI64 },
    Unseen(invisible::AtomicI64),
}

/// Applies an operation to a word, whether or not loom sees it.
macro_rules! on_word {
    ($self:ident, $word:ident => $operation:expr) => {
        match $self {
            Self::Seen { word: $word, .. } => $operation,
            Self::Unseen($word) => $operation,
        }
    };
}

impl AtomicI64 {
    pub(crate) fn new(value: i64) -> Self {
        Self::Seen { shadow: AtomicBool::new(false), word: atomic::AtomicI64::new(value) }
    }

    /// Creates a word that is written and read together with a word that loom sees.
    pub(crate) fn unmodelled(value: i64) -> Self {
        if SHOW_ALL.get() {
            Self::new(value)
        } else {
            Self::Unseen(invisible::AtomicI64::new(value))
        }
    }

    pub(crate) fn load(&self, order: Ordering) -> i64 {
        if let Self::Seen { shadow, .. } = self {
            shadow.store(true, Ordering::Relaxed);
        }
        on_word!(self, word => word.load(order))
    }

    pub(crate) fn store(&self, value: i64, order: Ordering) {
        on_word!(self, word => word.store(value, order));
    }

    pub(crate) fn fetch_add(&self, value: i64, order: Ordering) -> i64 {
        on_word!(self, word => word.fetch_add(value, order))
    }

    pub(crate) fn fetch_sub(&self, value: i64, order: Ordering) -> i64 {
        on_word!(self, word => word.fetch_sub(value, order))
    }

    pub(crate) fn fetch_min(&self, value: i64, order: Ordering) -> i64 {
        on_word!(self, word => word.fetch_min(value, order))
    }

    pub(crate) fn fetch_max(&self, value: i64, order: Ordering) -> i64 {
        on_word!(self, word => word.fetch_max(value, order))
    }

    pub(crate) fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        f: impl FnMut(i64) -> Option<i64>,
    ) -> Result<i64, i64> {
        on_word!(self, word => word.fetch_update(set, fetch, f))
    }
}
