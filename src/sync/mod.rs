//! The only place that names the standard library's atomics, `arc-swap`, `papaya`,
//! `foldhash` or `loom`.
//!
//! Under `cfg(loom)`, the atomics and `Arc` are loom's, and stand-ins made of them replace the slot
//! and the map. So the models in `loom-tests` run the crate's own code.

mod backoff;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod names;
mod private;
#[cfg(not(loom))]
mod real;
pub(crate) mod stall;
mod stripe;

#[cfg(loom)]
pub(crate) use model::{
    Arc, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, CHUNK_LEN, Loaded, Mutex, MutexGuard, Name,
    Names, OnceLock, OnceRef, Ordering, Payload, Payload32, Place, RacyOnce, SLAB_CHUNK_LEN, Slot,
    THREAD_CACHE_SETS, const_unless_loom, fence, into_inner, lanes, least_shards, lock_soon,
    payload, payload_32, process_static, racy_once_array, seen_payload, seen_payload_32,
    thread_local, unique, unmodelled_word, zeros,
};
#[cfg(loom)]
pub use model::{lock_slots, shadow_all_words, show_all_words, slots_are_locked, slots_were_used};
#[cfg(not(loom))]
pub(crate) use real::{
    Arc, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, CHUNK_LEN, Loaded, Mutex, MutexGuard, Name,
    OnceLock, OnceRef, Ordering, Payload, Payload32, Place, RacyOnce, SLAB_CHUNK_LEN, Slot,
    THREAD_CACHE_SETS, const_unless_loom, fence, into_inner, lanes, least_shards, lock_soon,
    payload, payload_32, process_static, racy_once_array, seen_payload, seen_payload_32,
    thread_local, unique, unmodelled_word, zeros,
};

pub(crate) use backoff::Backoff;
#[cfg(not(loom))]
pub(crate) use names::Names;
pub(crate) use private::{AtomicCell, PrivateU16, PrivateU32, PrivateU64};
pub(crate) use stripe::{pass_stripes, stripe};
