#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod center;
mod command;
mod lines;
mod machine;
mod nodes;
mod rule_book;
mod seconds;
mod serve;

pub use access::{Access, Network, NetworkError};
pub use center::CommandCenter;
pub use rule_book::{RuleBook, SetError};
pub use serve::{PORT, bind};
