//! The only place that names the standard library's atomics, `arc-swap`, `papaya` or `loom`.
//!
//! Under `cfg(loom)` every atomic, every `Arc`, the slot and the map are the model checker's, so that the
//! models in `loom-tests` run the crate's own code.

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod names;
mod patience;
#[cfg(not(loom))]
mod real;
pub(crate) mod stall;
mod thread_token;

#[cfg(loom)]
pub(crate) use model::{
    Arc, AtomicI64, AtomicU32, AtomicU64, CHUNK_LEN, FreeTokensRef, Lazy, Mutex, MutexGuard, Name,
    Names, Ordering, Slot, arc_slice, cell_limit, fence, free_tokens, thread_local, unique_numbers,
};
#[cfg(not(loom))]
pub(crate) use real::{
    Arc, AtomicI64, AtomicU32, AtomicU64, CHUNK_LEN, FreeTokensRef, Lazy, Mutex, MutexGuard, Name,
    Ordering, Slot, arc_slice, cell_limit, fence, free_tokens, thread_local, unique_numbers,
};

#[cfg(not(loom))]
pub(crate) use names::Names;
pub(crate) use patience::Patience;
pub(crate) use thread_token::{FreeTokens, ThreadLease, ThreadToken, unique};
