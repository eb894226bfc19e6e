//! Collections that only grow, while other threads read them.

mod append_list;
mod pool;
mod type_map;

pub(crate) use append_list::{AppendList, Item};
pub(crate) use pool::Pool;
pub(crate) use type_map::TypeMap;
