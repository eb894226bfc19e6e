//! The cells in which threads count, the slab from which they come, and each thread's cache of its
//! cells.

mod cache_pages;
pub(super) mod cache_set;
pub(super) mod cell_table;
mod further_sets;
mod gauge_watch;
pub(super) mod mask;
mod memory;
pub(super) mod origin;
pub(super) mod slab;
pub(super) mod thread_cache;
pub(super) mod thread_cell;

pub use memory::CellMemory;
