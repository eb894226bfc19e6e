//! The atomics of the hand. The loom model of the hand replaces this module.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
