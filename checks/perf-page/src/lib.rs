//! The measurements of `checks/perf` as files, and the page that is made of them.
//!
//! `docs/performance` has a file for each program of `checks/perf` and each processor: a [`Set`].
//! `checks/perf` writes these files, and [`page`] reads them. It measures nothing itself.
#![forbid(unsafe_code)]

mod format;
mod history;
mod instructions;
mod missed;
mod page;
mod rows;
mod set;
mod threads;

pub use format::grouped;
pub use page::page;
pub use set::{Crowd, Set, Value};
