//! Collections: those that only grow, while other threads read them, and a table for shards behind
//! locks.

mod append_list;
mod interned;
mod key_table;
mod pool;
mod slab;
mod type_map;

pub(crate) use append_list::{AppendList, Item};
pub(crate) use interned::{NameId, intern};
pub(crate) use key_table::{KeySlot, KeyTable};
pub(crate) use pool::Pool;
pub(crate) use slab::{SLAB_CHUNKS, Slab, SlabItem, place, slab, span};
pub(crate) use type_map::TypeMap;
