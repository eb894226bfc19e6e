//! Collections that only grow, while other threads read them.

mod append_list;
mod pool;

pub(crate) use append_list::{AppendList, Item};
pub(crate) use pool::Pool;
