//! Collections that only grow, while other threads read them.

mod append_list;
mod pool;
mod slab;
mod type_map;

pub(crate) use append_list::{AppendList, Item};
pub(crate) use pool::Pool;
pub(crate) use slab::{SLAB_CHUNKS, Slab, SlabItem, place, slab, span};
pub(crate) use type_map::TypeMap;
